"""Sweeps against a fixed index: queries only are embedded, runs name the index, nothing is searched twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.encoders.scorer_registry import open_model
from engine.errors import InputError
from engine.evaluate.collection import collect_runs
from engine.evaluate.indexed import IndexedSets
from engine.evaluate.results import read_results
from engine.report.attribution import attribute
from engine.report.html.failures import find_failures
from engine.report.html.sources import Sources
from engine.store.fixed_index import build_index
from engine.store.reader import open_store
from engine.sweeps.run_file.load import load_run_file
from engine.sweeps.sweep import Sweep, SweepError, run_sweep

PROBES = 1  # a text a new store, before it is laid out
CAPTIONS = 20


def edit(folder: Path, *more: str, directions: str = "[t2i]", index: str = "frozen") -> Path:
    """The run file with an index."""
    text = (folder / "run.yaml").read_text()
    for key in ("index", "directions", "stores", "out"):
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{key}:"))
    if directions == "[t2i]":
        text = text.replace('"rococo:corpus.json", ', "")
    lines = [f"directions: {directions}", "stores: queries", "out: found", f"index: {index}", *more]
    (folder / "indexed.yaml").write_text(text + "\n".join(lines) + "\n")
    return folder / "indexed.yaml"


def freeze(folder: Path, checkpoint: str = "early", out: str = "frozen", **options: object) -> None:
    with open_store(folder / "stores" / f"{checkpoint}.h5") as store:
        build_index(store, folder / out, **options)  # type: ignore[arg-type]


@pytest.fixture
def swept(folder: Path, encoded: dict[str, int]) -> Path:
    """The folder after its own sweep, with the galleries of `early` in an index."""
    run_sweep(load_run_file(folder / "run.yaml"))
    freeze(folder, space="shared")
    encoded.update(images=0, texts=0)
    return folder


def test_texts_alone_are_embedded_for_an_index_of_images(swept: Path, encoded: dict[str, int]) -> None:
    (swept / "run.yaml").write_text((swept / "run.yaml").read_text().replace(", images: pictures", ""))
    results = run_sweep(load_run_file(edit(swept, "space: shared")))
    assert encoded == {"images": 0, "texts": 2 * (CAPTIONS + PROBES)}
    with open_store(swept / "queries" / "late.h5") as store:
        assert [info.label for info in store.sets] == ["captions/original"]
        assert store.header.space == "shared"
    assert [(run.variant, run.direction) for run in results[0].runs] == [
        (None, "t2i"),
        ("mix:0.9:seed=5", "t2i"),
    ]
    assert [one.provenance.checkpoint for one in results] == ["early @ frozen", "late @ frozen"]


def test_a_checkpoint_in_its_own_index_finds_what_its_store_finds(swept: Path) -> None:
    results = run_sweep(load_run_file(edit(swept, "space: shared", directions="[i2t, t2i]")))
    for found in results[0].runs:
        name = {None: "none", "rococo:corpus": "rococo,corpus", "mix:0.9:seed=5": "mix,0.9,seed=5"}
        file = swept / "results" / "early" / f"{name[found.variant]}.{found.direction}.json"
        (own,) = read_results(file).runs
        unlike = {"index", "key", "timings", "outcomes_sha256"}
        assert found.model_dump(exclude=unlike) == own.model_dump(exclude=unlike)
    assert len(results[0].runs) == 4
    with open_store(swept / "queries" / "early.h5") as store:
        assert [info.label for info in store.sets] == ["images/original", "captions/original"]


def test_a_finished_sweep_against_an_index_does_nothing_again(
    swept: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    file = edit(swept, "space: shared")
    run_sweep(load_run_file(file))
    files = {one: one.stat().st_mtime_ns for one in (swept / "found").rglob("*")}
    encoded.update(images=0, texts=0)
    assert run(["sweep", str(file)]) == 0
    assert {one: one.stat().st_mtime_ns for one in (swept / "found").rglob("*")} == files
    assert encoded == {"images": 0, "texts": 0}
    assert "late t2i: 2 of 2 runs are finished" in capsys.readouterr().err
    assert run(["sweep", str(file), "--dry-run"]) == 0
    assert "2 of 2 runs finished" in capsys.readouterr().out


def test_the_report_finds_queries_and_galleries_where_the_results_say(swept: Path) -> None:
    run_sweep(load_run_file(edit(swept, "space: shared", directions="[i2t, t2i]")))
    found = collect_runs([swept / "found"])
    attacked = [one for one in found if one.run.variant is not None]
    gallery = swept / "frozen" / "gallery.h5"
    with Sources.find(found, (), swept / "pictures") as sources:
        stores = {one.path for one in sources.stores}
        assert stores == {gallery, swept / "queries" / "early.h5", swept / "queries" / "late.h5"}
        for one in attacked:
            store = sources.store_of(one)
            assert isinstance(store, IndexedSets)
            assert store.gallery.path == gallery
            for modality in ("captions", "images"):
                store.load(modality, "original")
        failures = find_failures(found, sources, 3)
        assert failures.missing == ()
        assert failures.runs == len(attacked) == 4
        assert all(one.truth.text or one.truth.image for one in failures.shown)
        stores = [(one, sources.store_of(one)) for one in attacked]
        trials = [attribute([one], store, (), 1).everything.trials for one, store in stores if store]
    assert min(trials) > 0


def test_results_in_another_index_are_refused_and_redone_by_force(swept: Path) -> None:
    run_sweep(load_run_file(edit(swept, "space: shared")))
    before = read_results(swept / "found" / "late" / "none.t2i.json").runs[0]
    freeze(swept, "late", "other", space="shared")
    file = edit(swept, "space: shared", index="other")
    assert run(["sweep", str(file)]) == 2
    with pytest.raises(SweepError, match=r"of another run \(its index is .*--force replaces it"):
        run_sweep(load_run_file(file))
    results = run_sweep(load_run_file(file), force=True)
    after = results[1].runs[0]
    assert before.index is not None
    assert after.index is not None
    assert (before.index.name, after.index.name) == ("frozen", "other")
    assert before.metrics != after.metrics


def test_another_space_fails_the_checkpoint_or_is_said(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(edit(swept))]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: 1 of 2 checkpoints failed")  # early is the encoder of the index
    assert "late: " in error
    assert "is of the space 'shared'" in error
    assert run(["sweep", str(edit(swept, "allow_space_mismatch: true"))]) == 0
    shown = capsys.readouterr().out
    assert "late @ frozen (another" in " ".join(shown.split())
    for file in (swept / "found" / "late").glob("*.json"):
        assert json.loads(file.read_text())["runs"][0]["index"]["space_mismatch"] is True


@pytest.mark.parametrize(
    ("built", "more", "message"),
    [
        (
            {"space": "shared"},
            "space: other",
            r"^the index .*frozen: the index is of the space 'shared', the",
        ),
        (
            {"space": "shared"},
            "ties: optimistic",
            "late: .*late.h5 against .*: the index is of the space 'shared'",
        ),
        (
            {},
            "space: other",
            "late: .*late.h5 against .*: the index is of the space '.{12}[.]{3}', the queries",
        ),
    ],
)
def test_another_space_is_found_before_anything_is_embedded(
    folder: Path, encoded: dict[str, int], built: dict[str, str], more: str, message: str
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    freeze(folder, **built)
    encoded.update(images=0, texts=0)
    file = edit(folder, more)
    file.write_text(file.read_text().replace('  - {model: "fake:toy:1", name: early}\n', ""))
    with pytest.raises((InputError, SweepError), match=message):
        run_sweep(load_run_file(file))
    assert encoded == {"images": 0, "texts": 0}
    assert not list((folder / "queries").glob("*.h5"))


def test_another_dimension_is_found_before_anything_is_embedded(
    swept: Path, encoded: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wider(spec: str, **options: Any) -> Any:
        model: Any = open_model(spec, **options)
        model.dim += 1
        return model

    monkeypatch.setattr("engine.sweeps.checkpoint.open_model", wider)
    with pytest.raises(SweepError, match=r"early: .* has 8 dimensions, the queries 9.*late: "):
        run_sweep(load_run_file(edit(swept, "space: shared")))
    assert encoded == {"images": 0, "texts": 0}


def test_a_store_keeps_no_space_that_the_run_file_no_longer_declares(
    swept: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    run_sweep(load_run_file(edit(swept, "space: shared")))
    encoded.update(images=0, texts=0)
    assert run(["sweep", str(edit(swept, "allow_space_mismatch: true"))]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert (
        "late.h5 is of the space 'shared', none is declared now (--space, `space:` in a run file); " in error
    )
    assert encoded == {"images": 0, "texts": 0}


@pytest.mark.parametrize(
    ("built", "more", "message"),
    [
        ({"sides": ["captions"]}, "", r"frozen has no images/original, which t2i needs"),
        ({"variants": []}, "", r"frozen has no variant 'mix:0\.9:seed=5'; it has: captions/original"),
        ({}, ", normalisation: pre_caption", r"the index is of the corpus corpus \(.*text raw\)"),
    ],
)
def test_an_index_that_does_not_serve_stops_before_any_work(
    folder: Path, encoded: dict[str, int], built: dict[str, list[str]], more: str, message: str
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    freeze(folder, **built)
    encoded.update(images=0, texts=0)
    text = (folder / "run.yaml").read_text()
    (folder / "run.yaml").write_text(text.replace("reader: rococo", f"reader: rococo{more}"))
    with pytest.raises(InputError, match=message):
        Sweep(load_run_file(edit(folder))).check()
    assert encoded == {"images": 0, "texts": 0}
    assert not (folder / "queries").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("index: none",), "run.yaml line 12: index 'none' is not there"),
        (("allow_space_mismatch: true",), "line 12: allow_space_mismatch belongs to index; name one"),
        (("space: [a]",), "line 12: space is a list of 1; expected text"),
    ],
)
def test_a_run_file_that_is_wrong_names_line_and_key(
    folder: Path, more: tuple[str, ...], message: str
) -> None:
    text = (folder / "run.yaml").read_text()
    (folder / "run.yaml").write_text(text + "\n".join(more) + "\n")
    with pytest.raises(InputError) as error:
        load_run_file(folder / "run.yaml")
    assert message in str(error.value)
