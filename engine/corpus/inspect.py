"""What a corpus is like: counts, surface of its texts, repeats, its image files, its adversarial captions.

Everything here is counted, nothing is changed. The definitions reproduce the counts of ``spec/rococo.md``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.corpus import Corpus
from engine.corpus.images import MissingImage, UnreadableImage, check_image_folder, decode_image, find_image
from engine.corpus.normalise import MAX_WORDS, pre_caption, raw
from engine.corpus.read import LoadedCorpus
from engine.corpus.wording import same_form
from engine.errors import InputError

COMPARISONS: Mapping[str, Callable[[str], str]] = {
    "exact": raw,
    "pre_caption": pre_caption,
    "wording": same_form,
}
"""When two texts count as the same: when this function of them is equal."""

TELL_TALE_FROM = 0.2
"""Difference of two shares from which a surface property is said to tell fakes from originals."""
_TELL_TALES = {"final_full_stop": "end in a full stop", "upper_case": "have an upper-case letter"}


@dataclass(frozen=True)
class SurfaceFacts:
    """How many of `texts` have a property. White space is what `str.isspace` says.

    `double_space` looks inside the text, `final_full_stop` at its last character that is no white space, and
    `empty` is a text of white space only.
    """

    texts: int
    trailing_white_space: int
    trailing_space: int
    leading_white_space: int
    leading_space: int
    newline: int
    double_space: int
    final_full_stop: int
    upper_case: int
    non_ascii: int
    empty: int


@dataclass(frozen=True)
class RepeatFacts:
    """Texts that occur more than once under one comparison.

    `occurrences`: captions beyond the first with their text. `across_images`: distinct texts that describe
    more than one image. `within_image`: distinct texts that occur more than once for one image.
    """

    occurrences: int
    across_images: int
    within_image: int


@dataclass(frozen=True)
class AdversarialComparison:
    """Adversarial captions against the originals under one comparison; counts of adversarial captions.

    `unchanged`: the same as its own original (a no-op). `same_as_own_image`: as any original of its image,
    the own one included. `same_as_other_image`: as an original of another image. `repeats`: beyond the first
    with its text.
    """

    unchanged: int
    same_as_own_image: int
    same_as_other_image: int
    repeats: int


@dataclass(frozen=True)
class AdversarialFacts:
    """The adversarial captions of a RoCOCO file. `comparisons` has the keys of `COMPARISONS`."""

    captions: int
    originals_without: int
    surface: SurfaceFacts
    comparisons: Mapping[str, AdversarialComparison]

    @property
    def changed_rate(self) -> float:
        """Share in [0, 1] that differs from its original in more than case, spaces and punctuation."""
        return 1.0 - self.comparisons["wording"].unchanged / self.captions


@dataclass(frozen=True)
class BadImage:
    """An image file that cannot be used, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class ImageFacts:
    """What became of the image files: every one was looked for and decoded in full.

    `by_path` and `by_name` say how the readable and unreadable ones were found (see `engine.corpus.images`);
    `shared` are files of the folder that serve several images of the corpus, with those images' file fields.
    """

    folder: str
    readable: int
    by_path: int
    by_name: int
    missing: tuple[str, ...]
    unreadable: tuple[BadImage, ...]
    shared: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Inspection:
    """Everything `itrstress corpus inspect` shows.

    `captions_per_image` maps a number of captions to the number of images that have so many. `repeats` has
    the keys of `COMPARISONS`.
    """

    source: str
    reader: str
    reason: str
    split: str | None
    normalisation: str
    fingerprint: str
    images: int
    captions: int
    captions_per_image: Mapping[int, int]
    surface: SurfaceFacts
    repeats: Mapping[str, RepeatFacts]
    adversarial: AdversarialFacts | None = None
    image_files: ImageFacts | None = None

    def findings(self) -> tuple[str, ...]:
        """What to know before using the corpus, a sentence each; most corpora have few or none."""
        found = _caption_findings(self)
        if self.adversarial is not None:
            found += _adversarial_findings(self.adversarial, self.surface)
        if self.image_files is not None:
            found += _image_findings(self.image_files)
        return tuple(found)


def inspect_corpus(loaded: LoadedCorpus, image_files: ImageFacts | None = None) -> Inspection:
    """All facts of a corpus that was read; `image_files` comes from `inspect_images`."""
    corpus = loaded.corpus
    texts = [caption.text for caption in corpus.captions]
    return Inspection(
        source=str(corpus.source),
        reader=loaded.reader,
        reason=loaded.reason,
        split=loaded.split,
        normalisation=corpus.normalisation,
        fingerprint=corpus.fingerprint,
        images=len(corpus.images),
        captions=len(corpus.captions),
        captions_per_image=captions_per_image(corpus),
        surface=surface_facts(texts),
        repeats={name: repeat_facts(corpus, form) for name, form in COMPARISONS.items()},
        adversarial=adversarial_facts(loaded) if loaded.adversarials else None,
        image_files=image_files,
    )


def captions_per_image(corpus: Corpus) -> dict[int, int]:
    """Number of captions -> number of images with so many, in rising order; images without captions count."""
    return dict(sorted(Counter(len(rows) for rows in corpus.captions_of_image).items()))


def surface_facts(texts: Sequence[str]) -> SurfaceFacts:
    """The surface of texts, each property counted on its own."""
    return SurfaceFacts(
        texts=len(texts),
        trailing_white_space=sum(text != text.rstrip() for text in texts),
        trailing_space=sum(text.endswith(" ") for text in texts),
        leading_white_space=sum(text != text.lstrip() for text in texts),
        leading_space=sum(text.startswith(" ") for text in texts),
        newline=sum("\n" in text for text in texts),
        double_space=sum("  " in text.strip() for text in texts),
        final_full_stop=sum(text.rstrip().endswith(".") for text in texts),
        upper_case=sum(text != text.lower() for text in texts),
        non_ascii=sum(not text.isascii() for text in texts),
        empty=sum(not text.strip() for text in texts),
    )


def repeat_facts(corpus: Corpus, form: Callable[[str], str]) -> RepeatFacts:
    """Repeats among the captions; two texts are the same when `form` of them is equal."""
    images_of_text: dict[str, Counter[int]] = defaultdict(Counter)
    for caption in corpus.captions:
        images_of_text[form(caption.text)][caption.image] += 1
    return RepeatFacts(
        occurrences=len(corpus.captions) - len(images_of_text),
        across_images=sum(len(images) > 1 for images in images_of_text.values()),
        within_image=sum(max(images.values()) > 1 for images in images_of_text.values()),
    )


def adversarial_facts(loaded: LoadedCorpus) -> AdversarialFacts:
    """The adversarial captions of `loaded`, which must have some, against its originals."""
    return AdversarialFacts(
        captions=len(loaded.adversarials),
        originals_without=len(loaded.corpus.captions) - len({item.original for item in loaded.adversarials}),
        surface=surface_facts([item.text for item in loaded.adversarials]),
        comparisons={name: compare_adversarials(loaded, form) for name, form in COMPARISONS.items()},
    )


def compare_adversarials(loaded: LoadedCorpus, form: Callable[[str], str]) -> AdversarialComparison:
    """Adversarial captions against originals; two texts are the same when `form` of them is equal."""
    originals = loaded.corpus.captions
    images_of_text: dict[str, set[int]] = defaultdict(set)
    for caption in originals:
        images_of_text[form(caption.text)].add(caption.image)
    unchanged = own_image = other_image = 0
    texts: set[str] = set()
    for item in loaded.adversarials:
        text = form(item.text)
        texts.add(text)
        original = originals[item.original]
        images = images_of_text.get(text, set())
        unchanged += text == form(original.text)
        own_image += original.image in images
        other_image += bool(images - {original.image})
    return AdversarialComparison(unchanged, own_image, other_image, len(loaded.adversarials) - len(texts))


@dataclass(frozen=True)
class _Outcome:
    """One image file: path and rule if it was found, and what is wrong with it, if anything."""

    file: str
    path: Path | None
    rule: str | None
    error: InputError | None


def inspect_images(
    corpus: Corpus,
    folder: str | Path,
    *,
    workers: int = 4,
    on_image: Callable[[], None] = lambda: None,
) -> ImageFacts:
    """Find and decode every image of the corpus with `workers` threads; `on_image` is called after each.

    A bad image is reported, not raised. Raises `InputError` when `folder` is no folder.
    """
    folder = check_image_folder(folder)
    executor = ThreadPoolExecutor(workers)
    try:
        outcomes = []
        for outcome in executor.map(lambda image: _try_image(folder, image.file), corpus.images):
            outcomes.append(outcome)
            on_image()
    finally:
        executor.shutdown(cancel_futures=True)
    return _image_facts(folder, outcomes)


def _try_image(folder: Path, file: str) -> _Outcome:
    path, rule = None, None
    try:
        found = find_image(folder, file)
        path, rule = found.path, found.rule
        decode_image(path, file)
    except InputError as error:
        return _Outcome(file, path, rule, error)
    return _Outcome(file, path, rule, None)


def _image_facts(folder: Path, outcomes: Sequence[_Outcome]) -> ImageFacts:
    rules = Counter(outcome.rule for outcome in outcomes)
    return ImageFacts(
        folder=str(folder),
        readable=sum(outcome.error is None for outcome in outcomes),
        by_path=rules["path"],
        by_name=rules["name"],
        missing=tuple(outcome.file for outcome in outcomes if isinstance(outcome.error, MissingImage)),
        unreadable=tuple(
            BadImage(outcome.file, _reason(outcome.error))
            for outcome in outcomes
            if outcome.error is not None and not isinstance(outcome.error, MissingImage)
        ),
        shared=_shared_files(outcomes),
    )


def _reason(error: InputError) -> str:
    return error.reason if isinstance(error, UnreadableImage) else str(error)


def _shared_files(outcomes: Iterable[_Outcome]) -> dict[str, tuple[str, ...]]:
    files_of_path: dict[Path, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.path is not None:
            files_of_path[outcome.path.resolve()].append(outcome.file)
    return {str(path): tuple(files) for path, files in files_of_path.items() if len(files) > 1}


def _caption_findings(inspection: Inspection) -> list[str]:
    found = []
    if without := inspection.captions_per_image.get(0, 0):
        found.append(
            f"{without:,} images have no caption: they are rows of the gallery that no caption asks for."
        )
    if inspection.surface.empty:
        found.append(f"empty captions: {inspection.surface.empty:,}.")
    if across := inspection.repeats["exact"].across_images:
        found.append(
            f"texts that are captions of several images: {across:,}; they score the same for every image, "
            "so the tie policy decides between them."
        )
    return found


def _adversarial_findings(facts: AdversarialFacts, originals: SurfaceFacts) -> list[str]:
    found = []
    for name, what in _TELL_TALES.items():
        shares = [getattr(surface, name) / surface.texts for surface in (originals, facts.surface)]
        if abs(shares[0] - shares[1]) >= TELL_TALE_FROM:
            found.append(
                f"{shares[0]:.1%} of the originals and {shares[1]:.1%} of the adversarial captions {what}: "
                "that alone can give a fake away; compare with --normalisation pre_caption."
            )
    exact, normalised = (facts.comparisons[name].unchanged for name in ("exact", "pre_caption"))
    if facts.changed_rate < 1:
        count = facts.comparisons["wording"].unchanged
        found.append(f"adversarial captions that change only case, spaces or punctuation: {count:,}.")
    if normalised > exact:
        found.append(
            f"adversarial captions equal to their original after pre_caption: {normalised:,} (before: "
            f"{exact:,}); it keeps {MAX_WORDS} words, a change beyond them is cut off."
        )
    return found


def _image_findings(facts: ImageFacts) -> list[str]:
    found = []
    if facts.missing and not facts.readable:
        found.append(f"no image of the corpus is in {facts.folder}: is it the right folder?")
    if facts.shared:
        found.append(
            f"files that serve several images of the corpus: {len(facts.shared):,}; "
            "where names repeat, a flat folder takes one image for another."
        )
    return found
