"""Every RoCOCO file at hand: the rule of ``spec/rococo.md`` for all, its counts for the files it names."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path

import pytest

from engine.cli.main import run
from engine.corpus import LoadedCorpus, load_corpus, read_corpus, read_rococo
from engine.corpus.document import load_document
from engine.corpus.inspect import Inspection, inspect_corpus
from engine.corpus.registry import detect_reader
from engine.errors import InputError

pytestmark = pytest.mark.published

SIX_ORIGINALS = (83, 1272, 1499, 1727, 3045, 3066, 3879, 3993, 4219, 4767)
REPEATED_ADVERSARIALS = {"same_concept": 7, "diff_concept": 0, "rand_voca": 13}


@cache
def rococo_files() -> list[Path]:
    """All files of the folder whose content says that they are RoCOCO files, whatever their names."""
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("ITRSTRESS_DATA", default)) / "rococo"
    return [path for path in sorted(folder.glob("*.json")) if is_rococo(path)]


def is_rococo(path: Path) -> bool:
    try:
        reader, _ = detect_reader(load_document(path))
    except InputError:
        return False
    return reader.name == "rococo"


@pytest.fixture(scope="module", params=rococo_files(), ids=lambda path: path.stem)
def loaded(request: pytest.FixtureRequest) -> LoadedCorpus:
    return load_corpus(request.param)


@pytest.fixture(scope="module")
def inspection(loaded: LoadedCorpus) -> Inspection:
    return inspect_corpus(loaded)


def test_the_named_files_are_recognised(published_data: Path) -> None:
    folder = published_data / "rococo"
    there = {path.stem for path in folder.glob("*.json")} & set(REPEATED_ADVERSARIALS)
    assert there <= {path.stem for path in rococo_files()}
    assert detect_reader(load_document(folder / "coco_karpathy_test.json"))[0].name == "blip"


def test_originals_are_all_but_the_last_five(loaded: LoadedCorpus) -> None:
    assert loaded.corpus.source is not None
    entries = json.loads(loaded.corpus.source.read_text(encoding="utf-8"))
    originals = [text for entry in entries for text in entry["caption"][:-5]]
    assert [caption.text for caption in loaded.corpus.captions] == originals
    pairs = [
        (entry["caption"][k], entry["caption"][len(entry["caption"]) - 5 + k])
        for entry in entries
        for k in range(5)
    ]
    assert [(loaded.corpus.captions[a.original].text, a.text) for a in loaded.adversarials] == pairs
    assert [image.file for image in loaded.corpus.images] == [entry["image"] for entry in entries]


def test_sizes(loaded: LoadedCorpus, inspection: Inspection) -> None:
    assert len(loaded.corpus.images) == 5_000
    assert len(loaded.corpus.captions) == 25_010
    assert len(loaded.adversarials) == 25_000
    assert inspection.captions_per_image == {5: 4_990, 6: 10}
    rows = loaded.corpus.captions_of_image
    assert tuple(n for n in range(len(rows)) if len(rows[n]) == 6) == SIX_ORIGINALS
    assert inspection.adversarial is not None
    assert inspection.adversarial.originals_without == 10


def test_originals_are_those_of_the_plain_list(loaded: LoadedCorpus, published_data: Path) -> None:
    plain = read_corpus(published_data / "rococo" / "coco_karpathy_test.json")
    assert loaded.corpus.fingerprint == plain.fingerprint


def test_surface_of_the_originals(inspection: Inspection) -> None:
    surface = inspection.surface
    assert (surface.trailing_white_space, surface.trailing_space) == (3_512, 3_428)
    assert (surface.leading_white_space, surface.leading_space) == (34, 33)
    assert (surface.newline, surface.double_space) == (86, 279)
    assert surface.final_full_stop == 18_822
    assert (surface.empty, surface.non_ascii) == (0, 0)


def test_repeats_of_the_originals(inspection: Inspection) -> None:
    assert inspection.repeats["exact"].occurrences == 155
    assert inspection.repeats["pre_caption"].across_images == 128
    assert inspection.repeats["pre_caption"].within_image == 11


def test_adversarials_change_nearly_everything_and_equal_no_other_original(inspection: Inspection) -> None:
    facts = inspection.adversarial
    assert facts is not None
    assert facts.changed_rate > 0.999
    assert facts.comparisons["exact"].same_as_other_image == 0
    assert facts.surface.empty == 0


def test_counts_of_the_named_files(loaded: LoadedCorpus, inspection: Inspection) -> None:
    facts = inspection.adversarial
    assert facts is not None
    if loaded.corpus.name not in REPEATED_ADVERSARIALS:
        pytest.skip("no counts are published for this file")
    assert facts.comparisons["exact"].repeats == REPEATED_ADVERSARIALS[loaded.corpus.name]
    assert facts.comparisons["exact"].unchanged == 0
    assert facts.surface.final_full_stop == 0
    assert facts.changed_rate == 1.0
    assert [comparison.same_as_other_image for comparison in facts.comparisons.values()] == [0, 0, 0]
    # one change of every file lies beyond the 30 words that pre_caption keeps
    assert facts.comparisons["pre_caption"].unchanged == 1


def test_pre_caption_holds_at_most_30_words(loaded: LoadedCorpus) -> None:
    assert loaded.corpus.source is not None
    corpus, adversarials = read_rococo(loaded.corpus.source, "pre_caption")
    texts = [caption.text for caption in corpus.captions] + [item.text for item in adversarials]
    assert max(len(text.split()) for text in texts) == 30
    assert not any(set(text) & set('.!"()*#:;~-/\n') for text in texts)


def test_the_command_shows_the_counts(loaded: LoadedCorpus, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["corpus", "inspect", str(loaded.corpus.source)]) == 0
    out = capsys.readouterr().out
    shown = (
        "5,000",
        "25,010",
        "25,000",
        "155",
        "3,512",
        "3,428",
        "34",
        "33",
        "86",
        "279",
        "128",
        "11",
        "18,822",
    )
    assert [count for count in shown if count not in out.split()] == []
