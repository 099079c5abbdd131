"""The audit of a variant of captions: read off the texts themselves, whoever made them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.corpus.corpus import Corpus
from engine.corpus.wording import same_form
from engine.variants.agreement import Agreement, recorded_agreement
from engine.variants.audit.audit import Audit, audit_items
from engine.variants.audit.meaning import Meaning, audit_meaning
from engine.variants.audit.surface import Surface, audit_surface
from engine.variants.variant import Variant, VariantItem, VariantItems
from engine.variants.word_diff import replaced_words, words_of
from engine.variants.wordnet import WordNet

MOST_SHOWN = 10
ARTICLES = frozenset({"a", "an"})
"""They change with the word behind them: no word that a policy chose."""


@dataclass(frozen=True)
class Repeats:
    """Fakes whose text was there before, letter by letter.

    `within_image` repeat an earlier fake of their own image, `across_images` only one of another image;
    `of_own_image` equal an original of their image, `of_other_image` one of another image.
    """

    within_image: int
    across_images: int
    of_own_image: int
    of_other_image: int


@dataclass(frozen=True)
class Words:
    """Words that went and came, by the counts of a text's words; articles left out.

    `changed` maps how many words of a caption differ (in place) to how many items that is so for. `sources`
    and `targets` are numbers of different words, `most_used` the most frequent targets with their uses.
    """

    changed: Mapping[int, int]
    sources: int
    targets: int
    most_used: tuple[tuple[str, int], ...]

    @property
    def mean_changed(self) -> float:
        """Words that differ, averaged over the items; 0.0 when there is none."""
        items = sum(self.changed.values())
        return sum(words * count for words, count in self.changed.items()) / items if items else 0.0


@dataclass(frozen=True)
class CaptionAudit(Audit):
    """What a variant of captions is like. Counts are of items.

    `no_ops` say the same as their original (case, white space and punctuation aside), `identical` of them are
    it, letter by letter. `meaning` is None without WordNet, `agreement` where no encoder chose words.
    """

    no_ops: int
    identical: int
    repeats: Repeats
    words: Words
    surface: Surface
    meaning: Meaning | None
    agreement: Agreement | None


def audit_captions(
    variant: Variant, items: VariantItems, corpus: Corpus, wordnet: WordNet | None
) -> CaptionAudit:
    """Audit the items of a variant of this corpus' captions."""
    pairs = [(corpus.captions[item.source].text, _text(item)) for item in items.items]
    images = np.array([corpus.captions[item.source].image for item in items.items], dtype=np.int64)
    texts = [text for _, text in pairs]
    changed, uses = _word_changes(pairs)
    return CaptionAudit(
        **vars(audit_items(variant, items, len(corpus.captions))),
        no_ops=sum(same_form(before) == same_form(after) for before, after in pairs),
        identical=sum(before == after for before, after in pairs),
        repeats=audit_repeats(corpus, texts, images.tolist()),
        words=_words(changed, uses),
        surface=audit_surface(
            [caption.text for caption in corpus.captions], texts, corpus.image_of_caption, images
        ),
        meaning=None if wordnet is None else audit_meaning(uses, wordnet, MOST_SHOWN),
        agreement=recorded_agreement(item.change for item in items.items),
    )


def _text(item: VariantItem) -> str:
    if not isinstance(item.content, str):
        raise ValueError(f"item {item.id} is no caption")
    return item.content


def audit_repeats(corpus: Corpus, texts: Sequence[str], images: Sequence[int]) -> Repeats:
    """Repeats among fakes and of originals; `images` are the rows of the fakes' images."""
    originals: dict[str, set[int]] = defaultdict(set)
    for caption in corpus.captions:
        originals[caption.text].add(caption.image)
    seen: dict[str, set[int]] = defaultdict(set)
    within = across = own = other = 0
    for text, image in zip(texts, images, strict=True):
        before, described = seen[text], originals.get(text, set())
        within += image in before
        across += bool(before) and image not in before
        own += image in described
        other += bool(described - {image})
        before.add(image)
    return Repeats(within, across, own, other)


def _word_changes(pairs: Sequence[tuple[str, str]]) -> tuple[Counter[int], Counter[tuple[str, str]]]:
    """How many words of each pair of texts differ, and the pairs of words that stand for each other."""
    changed: Counter[int] = Counter()
    uses: Counter[tuple[str, str]] = Counter()
    for before, after in pairs:
        replaced = replaced_words(before, after)
        changed[sum(max(len(one.source.split()), len(one.target.split())) for one in replaced)] += 1
        gone, come = _gone_and_come(before, after)
        for one in replaced:
            if one.source in gone and one.target in come and one.target not in ARTICLES:
                uses[one.source, one.target] += 1
    return changed, uses


def _gone_and_come(before: str, after: str) -> tuple[Counter[str], Counter[str]]:
    """Words that a text has more often than the other: none when they were only moved."""
    old, new = Counter(words_of(before)), Counter(words_of(after))
    return old - new, new - old


def _words(changed: Mapping[int, int], uses: Mapping[tuple[str, str], int]) -> Words:
    targets: Counter[str] = Counter()
    for (_, target), count in uses.items():
        targets[target] += count
    most = sorted(targets.items(), key=lambda one: (-one[1], one[0]))[:MOST_SHOWN]
    return Words(
        dict(sorted(changed.items())), len({source for source, _ in uses}), len(targets), tuple(most)
    )
