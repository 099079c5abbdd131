"""Queries against a fixed index: its galleries and no others, of one corpus; another space is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.cli.main import run
from engine.errors import InputError
from engine.evaluate.collection import collect_runs
from engine.evaluate.indexed import Against
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import Direction, Results, read_results
from engine.evaluate.run import evaluate_store
from engine.store.fixed_index import GALLERY_FILE, build_index, open_index
from engine.store.reader import open_store
from engine.store.schema import StoreHeader
from engine.store.writer import open_writer

OLD, NEW = "a" * 64, "b" * 64  # fingerprints of two encoders
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a world as the store of an encoder: `write(name, world, fingerprint, only=, **header)`."""

    def call(name: str, world: Any, fingerprint: str, only: str | None = None, **changes: Any) -> Path:
        header: StoreHeader = replace(world.header, encoder_fingerprint=fingerprint, **changes)
        plans = [(plan, rows) for plan, rows in world.plans() if only in (None, plan.modality)]
        path = tmp_path / f"{name}.h5"
        with open_writer(path, header, [plan for plan, _ in plans]) as writer:
            for plan, rows in plans:
                writer.write(plan.modality, plan.name, np.arange(plan.rows), rows)
        return path

    return call


def freeze(store: Path, **options: Any) -> Path:
    out = store.with_suffix(".index")
    with open_store(store) as opened:
        build_index(opened, out, **options)
    return out


def evaluate(store: Path, index: Path | None = None, allow: bool = False, **options: Any) -> Results:
    with open_store(store) as opened:
        if index is None:
            return evaluate_store(opened, **options)
        with open_index(index) as found:
            return evaluate_store(opened, against=Against(found, allow), **options)


def found(results: Results) -> list[Any]:
    """What was found, apart from what names the index and the clock."""
    unlike = {"index", "key", "timings"}
    return [run.model_dump(exclude=unlike) for run in results.runs]


def test_queries_in_the_index_of_their_own_store_find_what_they_find_in_it(
    write: Write, make_world: Any
) -> None:
    store = write("a", make_world(), OLD)
    own = evaluate(store, ranked=RankedMetrics())
    indexed = evaluate(store, freeze(store), ranked=RankedMetrics())
    assert len(own.runs) == 5
    assert found(indexed) == found(own)
    for before, after in zip(own.runs, indexed.runs, strict=True):
        assert set(after.key) - set(before.key) == {"index"}
        assert after.index is not None
        assert not after.index.space_mismatch


def test_queries_of_one_encoder_find_the_galleries_of_the_other(write: Write, make_world: Any) -> None:
    old, new = make_world(seed=0), make_world(seed=1)
    index = freeze(write("old", old, OLD, space="shared"))
    results = evaluate(write("new", new, NEW, space="shared"), index)
    assert all(run.index is not None and not run.index.space_mismatch for run in results.runs)

    # the oracle: stores with the queries of the one and the galleries of the other
    parts = {part.name: part for part in old.variants}
    asking = replace(new, variants=[one for one in new.variants if one.side == "query"])
    i2t = replace(asking, captions=old.captions, variants=[parts["swap:seed=7"]])
    t2i = replace(asking, images=old.images, variants=[parts["mix:0.9:seed=1"], *asking.variants])
    expected = [
        run
        for name, world, direction in (("i2t", i2t, "i2t"), ("t2i", t2i, "t2i"))
        for run in found(evaluate(write(name, world, NEW), directions=[direction]))
    ]
    assert found(results) == expected
    assert found(results) != found(evaluate(write("new", new, NEW, space="shared")))


def test_a_store_of_queries_only_is_all_that_is_needed(write: Write, make_world: Any) -> None:
    old, new = make_world(seed=0), make_world(seed=1)
    index = freeze(write("old", old, OLD, space="shared"), sides=["images"])
    whole = evaluate(write("new", new, NEW, space="shared"), index, directions=["t2i"])
    texts = write("texts", new, NEW, only="captions", space="shared")
    assert found(evaluate(texts, index, directions=["t2i"])) == found(whole)
    with pytest.raises(InputError, match=r"texts\.h5 has no images/original, which i2t needs; .* t2i only"):
        evaluate(texts, index)
    with pytest.raises(InputError, match=r"old\.index has no captions/original, which i2t needs"):
        evaluate(write("new", new, NEW, space="shared"), index)
    with pytest.raises(InputError, match=r"texts\.h5 has no set images/original"):
        evaluate(texts, directions=["t2i"])


@pytest.mark.parametrize(
    ("spaces", "fits"),
    [
        (("", "", OLD), True),  # one encoder, nothing declared
        (("", "", NEW), False),
        (("s", "s", NEW), True),
        (("s", "", NEW), False),
        (("s", "", OLD), True),  # the same encoder is in its own space, whatever that is called
        (("", "s", OLD), True),
        (("s", "t", OLD), False),  # two names that were declared stand against each other
    ],
)
def test_spaces_must_match_or_every_result_says_that_they_do_not(
    write: Write, make_world: Any, spaces: tuple[str, str, str], fits: bool
) -> None:
    of_index, of_queries, encoder = spaces
    index = freeze(write("old", make_world(), OLD, space=of_index))
    store = write("new", make_world(seed=1), encoder, space=of_queries)
    if fits:
        evaluate(store, index)
    else:
        with pytest.raises(InputError, match=r"the index is of the space '.*--allow-space-mismatch"):
            evaluate(store, index)
    results = evaluate(store, index, allow=True)
    assert {run.index.space_mismatch for run in results.runs if run.index} == {not fits}
    assert all(("spaces" in run.key) == (not fits) for run in results.runs)
    label = "fake:encoder @ old.index" + ("" if fits else " (another space)")
    assert results.provenance.checkpoint == label


def test_another_dimension_corpus_or_text_is_refused_whatever_is_allowed(
    write: Write, make_world: Any
) -> None:
    world = make_world()
    index = freeze(write("old", world, OLD))
    narrow = replace(
        world,
        images=world.images[:, :8] / np.linalg.norm(world.images[:, :8], axis=1, keepdims=True),
        captions=world.captions[:, :8] / np.linalg.norm(world.captions[:, :8], axis=1, keepdims=True),
        variants=[],
    )
    for store, message in (
        (write("narrow", narrow, OLD), "the index has 16 dimensions, the queries 8"),
        (
            write("other", world, OLD, corpus_fingerprint="f" * 64, normalisation="pre_caption"),
            r"of the corpus toy \(c{12}, text raw\), the queries of toy \(f{12}, text pre_caption",
        ),
    ):
        with pytest.raises(InputError, match=message):
            evaluate(store, index, allow=True)


def test_results_name_the_sets_of_the_index_and_are_never_mixed_with_the_stores_own(
    write: Write, make_world: Any, tmp_path: Path
) -> None:
    store = write("a", make_world(), OLD)
    freeze(store)
    for out, words in (("own", []), ("indexed", ["--index", str(tmp_path / "a.index")])):
        assert run(["evaluate", str(store), "--out", str(tmp_path / out), *words]) == 0
    both = collect_runs([tmp_path / "own", tmp_path / "indexed"])
    assert len(both) == 10
    results = read_results(tmp_path / "indexed")
    names = {(one.modality, one.name) for one in results.provenance.sets}
    assert {
        ("captions", "index original"),
        ("captions", "index swap:seed=7"),
        ("captions", "original"),
        ("captions", "typo:seed=3"),
        ("images", "index mix:0.9:seed=1"),
        ("images", "index original"),
        ("images", "original"),
    } <= names
    assert ("images", "index swap:seed=7") not in names


def test_the_command_says_which_index_was_searched(
    write: Write, make_world: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    index = freeze(write("old", make_world(), OLD))
    store = write("new", make_world(seed=1), NEW)
    capsys.readouterr()
    assert run(["evaluate", str(store), "--index", str(index)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    words = ["evaluate", str(store), "--index", str(index), "--variant", "mix:0.9:seed=1"]
    assert run([*words, "--direction", "t2i", "--allow-space-mismatch"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Galleries of the index old.index (" in shown
    assert "the space 'aaaaaaaaaaaa...' and the queries of another one, 'bbbbbbbbbbbb...'" in shown
    assert run([*words, "--direction", "i2t", "--allow-space-mismatch"]) == 2
    assert "variant 'mix:0.9:seed=1' only changes direction t2i" in capsys.readouterr().err


def test_a_variant_that_only_the_store_has_is_not_the_indexs(write: Write, make_world: Any) -> None:
    store = write("a", make_world(), OLD)
    index = freeze(store, variants=[])
    assert {run.variant for run in evaluate(store, index).runs} == {None, "typo:seed=3"}
    with pytest.raises(InputError, match="swap:seed=7"):
        evaluate(store, index, variants=["swap:seed=7"])


def test_options_that_do_not_go_with_an_index(
    write: Write, make_world: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write("a", make_world(), OLD)
    index = freeze(store)
    (tmp_path / "pictures").mkdir()
    for words, message in (
        (["--allow-space-mismatch"], "--allow-space-mismatch belongs to --index"),
        (
            ["--index", str(index), "--rerank", "blip:none", "--images", str(tmp_path / "pictures")],
            "--rerank reads a store's own images and texts; leave out one of it and --index",
        ),
        (["--index", str(tmp_path / "none")], "none: not there, expected the folder of an index"),
    ):
        assert run(["evaluate", str(store), *words]) == 2
        assert message in capsys.readouterr().err
    with open_store(store) as opened, open_index(index) as found_index:
        second: Any = object()
        with pytest.raises(InputError, match=r"--rerank .* leave out --index"):
            evaluate_store(opened, against=Against(found_index), rerank=second)


def test_distractors_are_those_beside_the_gallery_of_the_index(
    write: Write, make_world: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write("a", make_world(), OLD)
    index = freeze(store)
    gallery = str(index / GALLERY_FILE)
    words = ["evaluate", str(store), "--index", str(index), "--direction", "i2t", "--distractors", "0,50"]
    assert run(words) == 2
    assert "gallery.h5 has no distractors for its captions" in capsys.readouterr().err
    like = ["distractors", "synthesize", "--rows", "100", "--like", "captions/original"]
    for place in (gallery, str(store)):
        assert run([*like, place]) == 0
    capsys.readouterr()
    assert run(words) == 0
    indexed = capsys.readouterr().out
    assert run(["evaluate", str(store), "--direction", "i2t", "--distractors", "0,50"]) == 0
    rows = [re.findall(r"^\S+ +50 .*", text, re.M) for text in (indexed, capsys.readouterr().out)]
    assert rows[0]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_a_damaged_row_of_the_index_is_named_when_it_is_searched(
    write: Write, make_world: Any, direction: Direction
) -> None:
    world = make_world()
    store = write("a", world, OLD)
    index = freeze(store)
    gallery = index / GALLERY_FILE
    gallery.chmod(0o644)
    rows = world.captions if direction == "i2t" else world.images
    gallery.write_bytes(gallery.read_bytes().replace(rows[3].tobytes(), rows[4].tobytes()))
    with pytest.raises(InputError, match=r"gallery\.h5 is damaged: the checksum of \w+/original row 3"):
        evaluate(store, index, directions=[direction])
