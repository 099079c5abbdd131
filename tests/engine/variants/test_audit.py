"""The audit of variants: every measure against texts whose answer is known, and the published sets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.read import read_corpus
from engine.variants.audit.captions import CaptionAudit, audit_captions, audit_repeats
from engine.variants.audit.images import audit_images
from engine.variants.audit.meaning import audit_meaning, is_near_synonym, is_wider
from engine.variants.audit.surface import CUES, audit_surface, cue_table, told_apart
from engine.variants.registry import make_variant
from engine.variants.variant import VariantItem, VariantItems
from engine.variants.word_choice import drawn_order
from engine.variants.wordnet import open_wordnet


@dataclass(frozen=True)
class Given:
    """A variant that is only a name: the items are given."""

    name: str = "given"
    side: str = "gallery"
    modality: str = "captions"


def corpus_of(*texts: str, captions_an_image: int = 2) -> Corpus:
    captions = tuple(Caption(f"c{n}", text, n // captions_an_image) for n, text in enumerate(texts))
    return Corpus("test", tuple(ImageItem(f"i{n}", "x") for n in range(captions[-1].image + 1)), captions)


def audit_of(corpus: Corpus, *fakes: str | None) -> CaptionAudit:
    items = tuple(
        VariantItem(f"f{n}", n, text, text != corpus.captions[n].text)
        for n, text in enumerate(fakes)
        if text is not None
    )
    left_out = {n: "no noun" for n, text in enumerate(fakes) if text is None}
    return audit_captions(Given(), VariantItems(items, left_out), corpus, None)  # type: ignore[arg-type]


def test_changes_are_counted_from_the_texts() -> None:
    corpus = corpus_of("A red dog .", "two cats", "a hat", "an owl", "a b c", "dogs run")
    audit = audit_of(corpus, "a red cat", "two cats ", "a hat", "a hat", "c a b", None)
    assert (audit.items, audit.originals, audit.left_out) == (5, 6, {"no noun": 1})
    assert audit.changed_rate == 0.8
    assert (audit.no_ops, audit.identical) == (2, 1)
    assert audit.words.changed == {0: 2, 1: 1, 2: 1, 3: 1}
    assert audit.words.mean_changed == 6 / 5
    assert (audit.words.sources, audit.words.targets) == (2, 2)  # a word that moved is none that was put in
    assert audit.words.most_used == (("cat", 1), ("hat", 1))


def test_repeats_are_told_apart() -> None:
    corpus = corpus_of("a", "b", "c", "d", "e", "f")
    repeats = audit_repeats(corpus, ["x", "x", "x", "y", "a", "a"], [0, 0, 1, 1, 0, 2])
    assert (repeats.within_image, repeats.across_images) == (1, 2)
    assert (repeats.of_own_image, repeats.of_other_image) == (1, 1)


@given(data=st.data())
def test_repeats_add_up(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=9))
    images = data.draw(st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts)))
    repeats = audit_repeats(corpus_of("a", "z"), texts, images)
    assert repeats.within_image + repeats.across_images == len(texts) - len(set(texts))
    pairs = Counter(zip(texts, images, strict=True))
    assert repeats.within_image == sum(count - 1 for count in pairs.values())


# ---------------------------------------------------------------- surface


@pytest.mark.parametrize(
    ("text", "cues"),
    [
        ("a dog's bed, and 3.5 well-kept hats", []),
        ("A dog .", ["final full stop", "capital first letter", "upper case", "space before punctuation"]),
        ("a dog 's bed", ["space before punctuation"]),
        ("it does n't", ["space before punctuation"]),
        ("one , two", ["space before punctuation"]),
        ("a (red) dog - and $5 'quoted' \"one\"", ["other punctuation"]),
        ("a Dog ", ["upper case", "space at the ends"]),
        ("a  dog", ["double space or line break"]),
        ("a\ndog", ["double space or line break"]),
        ("dog!", ["other punctuation"]),
        ("", []),
    ],
)
def test_a_cue_is_what_it_says(text: str, cues: list[str]) -> None:
    table = cue_table([text])
    assert [cue for cue, has in zip(CUES, table[0], strict=True) if has] == cues


def groups(count: int) -> np.ndarray:
    return np.arange(count) % 50


def test_one_cue_tells_all_apart_or_nothing_does() -> None:
    dots, plain = [f"dog {n}." for n in range(100)], [f"dog {n}" for n in range(100)]
    perfect = audit_surface(dots, plain, groups(100), groups(100))
    assert perfect.auc == 1.0
    assert perfect.shares["final full stop"] == (1.0, 0.0)
    assert audit_surface(dots, dots, groups(100), groups(100)).auc == 0.5
    half = audit_surface(dots[:50] + plain[:50], plain, groups(100), groups(100))
    assert half.auc == pytest.approx(0.75)


@settings(max_examples=20, deadline=None)
@given(of_originals=st.integers(0, 3), of_fakes=st.integers(5, 8))
def test_the_auc_is_that_of_the_ranks_when_one_cue_varies(of_originals: int, of_fakes: int) -> None:
    # ten images of eight originals and eight fakes, so many of which have the cue: every fold is alike
    before, after = (np.zeros((80, len(CUES))) for _ in range(2))
    before[:, 0], after[:, 0] = np.arange(80) % 8 < of_originals, np.arange(80) % 8 < of_fakes
    wins = (after[:, None, 0] > before[None, :, 0]).mean()
    ties = (after[:, None, 0] == before[None, :, 0]).mean()
    images = np.arange(80) // 8
    assert told_apart(before, after, np.concatenate([images, images])) == pytest.approx(wins + ties / 2)


def test_images_without_a_fake_do_not_count() -> None:
    before, after = cue_table(["a.", "a.", "b", "b"]), cue_table(["a", "a"])
    assert told_apart(before, after, np.array([0, 1, 2, 3, 0, 1])) == 1.0


def test_one_image_cannot_be_cross_validated() -> None:
    assert audit_surface(["a."], ["b"], np.zeros(1, np.int64), np.zeros(1, np.int64)).auc is None


# ---------------------------------------------------------------- meaning


def test_near_synonyms_and_wider_words(wordnet: Path) -> None:
    reader = open_wordnet()
    assert is_near_synonym("couch", "sofa", reader)
    assert is_near_synonym("sofas", "couches", reader)
    assert not is_near_synonym("dog", "cat", reader)
    assert not is_near_synonym("man", "piece", reader)  # one sense alike, of a game, and neither's commonest
    assert not is_near_synonym("dog", "xyzzy", reader)
    assert is_wider("dog", "animal", reader)
    assert not is_wider("animal", "dog", reader)
    pairs = {("couch", "sofa"): 3, ("dog", "animal"): 2, ("dog", "cat"): 4, ("dog", "xyzzy"): 1}
    found = audit_meaning(pairs, reader, 9)
    assert (found.pairs, found.near_synonyms, found.wider, found.unknown) == (9, 3, 2, 1)
    assert found.examples == (("couch", "sofa"), ("dog", "animal"))


# ---------------------------------------------------------------- images


def image_corpus(count: int) -> Corpus:
    return Corpus("test", tuple(ImageItem(f"i{n}", f"{n}.png") for n in range(count)), ())


def test_images_are_audited_by_their_recipes() -> None:
    corpus, sizes = image_corpus(200), [(30 + n % 9, 20 + n % 7) for n in range(200)]
    variant = make_variant("patch:0.9:mode=paper:seed=1")
    items = variant.apply(corpus)
    published = audit_images(variant, items, corpus)
    assert published.no_ops == sum(not item.changed for item in items.items) > 0
    assert published.fakes == 200
    assert published.most_used == 1
    assert published.replaced is not None
    assert published.replaced[1] < published.replaced[0] < published.replaced[2] <= (120 / 384) ** 2

    variant = make_variant("patch:0.9")
    found = audit_images(variant, variant.apply(corpus), corpus, sizes)
    assert found.no_ops == found.repeats == 0
    assert found.replaced is not None
    areas = [width * height for width, height in sizes]
    exact = [int(area / Decimal(10) + Decimal("0.5")) / area for area in areas]
    assert found.replaced == pytest.approx((sum(exact) / 200, min(exact), max(exact)))
    assert audit_images(variant, variant.apply(corpus), corpus).replaced is None

    variant = make_variant("reencode")
    control = audit_images(variant, variant.apply(corpus), corpus)
    assert (control.fakes, control.no_ops, control.most_used) == (0, 0, 0)


# ---------------------------------------------------------------- the published sets


@pytest.mark.published
@pytest.mark.parametrize(("name", "repeats"), [("same_concept", 7), ("diff_concept", 0), ("rand_voca", 13)])
def test_the_published_sets_are_as_the_spec_counts_them(
    name: str, repeats: int, published_data: Path
) -> None:
    file = published_data / "rococo" / f"{name}.json"
    corpus, variant = read_corpus(file, reader="rococo"), make_variant(f"rococo:{file}")
    audit = audit_captions(variant, variant.apply(corpus), corpus, None)
    assert (audit.items, audit.originals, sum(audit.left_out.values())) == (25_000, 25_010, 10)
    assert audit.repeats.within_image + audit.repeats.across_images == repeats
    assert audit.repeats.of_other_image == 0
    stops = audit.surface.shares["final full stop"]
    assert round(25_010 * stops[0]) == 18_822
    assert stops[1] == 0
    assert audit.words.changed[1] / 25_000 > 0.98
    assert audit.surface.auc is not None
    assert audit.surface.auc > 0.9
    plain = read_corpus(file, reader="rococo", normalisation="pre_caption")
    hidden = audit_captions(variant, variant.apply(plain), plain, None).surface.auc
    assert hidden is not None
    assert hidden < 0.55


# ---------------------------------------------------------------- the command


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rows = []
    for k in range(6):
        Image.new("RGB", (40, 30), (k, 0, 0)).save(tmp_path / "images" / f"{k}.png")
        rows += [{"image": f"{k}.png", "caption": text} for text in ("!", f"A picture of {k} dogs.")]
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_command_prints_a_table_and_writes_everything(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, out = corpus.with_name("made"), corpus.with_name("audit.json")
    base = ["--corpus", str(corpus)]
    assert run(["variants", "make", *base, "--variant", "rand_voca", "--out", str(made)]) == 0
    file = next(made.iterdir())
    specs = f"file:{file},rand_voca:seed=1,char_swap,patch:0.5,mix:0.9:mode=paper"
    images = ["--images", str(corpus.with_name("images"))]
    assert run(["variants", "audit", *base, *images, "--variant", specs, "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    for text in (
        "changed rate",
        "told apart by these (AUC)",
        "an original of its image",
        "50.00%",
        "no noun",
    ):
        assert text in printed
    record = json.loads(out.read_text())
    assert [one["name"] for one in record["captions"]] == [
        "rand_voca:seed=0", "rand_voca:seed=1", "char_swap:seed=0",
    ]  # fmt: skip
    assert record["captions"][0]["left_out"] == {"no noun": 6}
    assert record["captions"][0]["surface"]["auc"] is not None
    assert [one["name"] for one in record["images"]] == ["patch:0.5:seed=0", "mix:0.9:mode=paper:seed=0"]
    assert run(["variants", "audit", *base, "--variant", "char_swap", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["captions"][0]["name"] == "char_swap:seed=0"


def test_encoders_agreement_is_measured(
    corpus: Path,
    make_tiny_model: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    models = [f"open_clip:local-dir:{make_tiny_model(f'm{n}', seed=n)}" for n in range(2)]  # type: ignore[operator]
    command = ["variants", "audit", "--corpus", str(corpus), "--variant", "same_concept:choice=low_ei"]
    assert run([*command, "--influence", ",".join(models), "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    chosen, all_captions = record["captions"][0]["agreement"], record["agreement"]
    assert chosen["encoders"] == all_captions["encoders"] == 2
    assert sum(all_captions["counts"]) == 6
    assert sum(all_captions["shares"]) == pytest.approx(1)
    drawn: list[int] = []

    def draw(seed: int, caption_id: str, count: int) -> Sequence[int]:
        drawn.append(seed)
        return drawn_order(seed, caption_id, count)

    monkeypatch.setattr("engine.variants.agreement.drawn_order", draw)
    assert run([*command, "--influence", ",".join(models), "--seed", "7"]) == 0
    assert "1 of 2 agree" in capsys.readouterr().out
    assert drawn == [7] * 12  # a caption


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--variant", "char_swap"], "of which corpus? name it with --corpus"),
        (["--variant", "rococo:nowhere.json"], "nowhere.json: no such file"),
        (["--corpus", "corpus.jsonl", "--variant", "mix:2"], "level is '2'"),
        (
            ["--corpus", "corpus.jsonl", "--variant", "char_swap", "--json", "corpus.jsonl"],
            "--json corpus.jsonl",
        ),
    ],
)
def test_a_mistake_is_one_line(
    options: list[str],
    message: str,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(corpus.parent)
    before = corpus.read_bytes()
    assert run(["variants", "audit", *options]) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ")
    assert message in line
    assert line.count("\n") == 1
    assert corpus.read_bytes() == before
