"""Sweeps: nothing finished is done again, what is missing is, one bad checkpoint stops no other."""

from __future__ import annotations

import gc
import os
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.cli.main import run
from engine.encoders import registry
from engine.errors import InputError
from engine.evaluate.results import Results, read_results
from engine.evaluate.stages import embedded
from engine.progress import Silent
from engine.store.embedding import embed as embedding
from engine.store.reader import open_store
from engine.sweeps import checkpoint, stamp
from engine.sweeps.run_file.load import load_run_file
from engine.sweeps.sweep import SweepError, run_sweep
from engine.variants.families.rococo import Rococo

PROBES = 1  # an image and a text a new store, before it is laid out


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The galleries that were searched, in order."""
    searches: list[str] = []

    def spy(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            searches.append(name)
            return original(*args, **options)

        return counted

    monkeypatch.setattr(embedded, "search_base", spy("base", embedded.search_base))
    monkeypatch.setattr(embedded, "search_variant", spy("variant", embedded.search_variant))
    return searches


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


EXPECTED_FILES = {
    f"{checkpoint}/{name}.{extension}"
    for checkpoint in ("early", "late")
    for name in ("none.i2t", "rococo,corpus.i2t", "none.t2i", "mix,0.9,seed=5.t2i")
    for extension in ("json", "parquet")
}


def test_a_sweep_writes_a_file_a_run_and_searches_the_base_once_a_direction(
    folder: Path, encoded: dict[str, int], searched: list[str]
) -> None:
    results = run_sweep(load_run_file(folder / "run.yaml"))
    assert set(contents(folder / "results")) == EXPECTED_FILES
    assert searched == ["base", "variant"] * 4
    assert encoded == {"images": 2 * (8 + PROBES), "texts": 2 * (40 + PROBES)}
    assert [one.provenance.checkpoint for one in results] == ["early", "late"]
    assert results[0].provenance.seeds == {"run": 5, "mix:0.9:seed=5": 5}
    assert [(run.variant, run.direction) for run in results[0].runs] == [
        (None, "i2t"),
        ("rococo:corpus", "i2t"),
        (None, "t2i"),
        ("mix:0.9:seed=5", "t2i"),
    ]
    assert results[0].runs[1].gallery == {"original": 20, "adversarial": 20}
    one = read_results(folder / "results" / "early" / "rococo,corpus.i2t.json")
    assert one.runs == (results[0].runs[1],)


def test_a_finished_sweep_does_nothing_again(
    folder: Path, encoded: dict[str, int], searched: list[str]
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    before = contents(folder / "results")
    encoded.update(images=0, texts=0)
    searched.clear()
    assert run_sweep(run_file) == first
    assert contents(folder / "results") == before
    assert (encoded, searched) == ({"images": 0, "texts": 0}, [])


@pytest.mark.parametrize(
    ("removed", "searches"),
    [
        (["rococo,corpus.i2t.json"], ["variant"]),  # the base comes from its outcomes
        (["none.i2t.json"], ["base"]),
        (["none.i2t.parquet", "rococo,corpus.i2t.parquet"], ["base", "variant"]),
        (["none.i2t.json", "none.i2t.parquet", "mix,0.9,seed=5.t2i.parquet"], ["base", "variant"]),
    ],
)
def test_what_was_removed_is_done_again_with_the_same_outcome(
    folder: Path, encoded: dict[str, int], searched: list[str], removed: list[str], searches: list[str]
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    before = contents(folder / "results")
    encoded.update(images=0, texts=0)
    searched.clear()
    for name in removed:
        (folder / "results" / "late" / name).unlink()
    again = run_sweep(run_file)
    assert searched == searches
    assert encoded == {"images": 0, "texts": 0}
    after = contents(folder / "results")
    assert {name: data for name, data in after.items() if name.endswith("parquet")} == {
        name: data for name, data in before.items() if name.endswith("parquet")
    }
    timeless = [[run.model_copy(update={"timings": {}}) for run in one.runs] for one in (first[1], again[1])]
    assert timeless[0] == timeless[1]


def test_an_interrupted_sweep_goes_on(
    folder: Path, encoded: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    whole = embedded.search_variant

    def interrupted(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "search_variant", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(run_file)
    assert set(contents(folder / "results")) == {"early/none.i2t.json", "early/none.i2t.parquet"}
    monkeypatch.setattr(embedded, "search_variant", whole)
    run_sweep(run_file)
    assert set(contents(folder / "results")) == EXPECTED_FILES
    assert encoded == {"images": 2 * (8 + PROBES), "texts": 2 * (40 + PROBES)}


def test_results_of_something_else_are_not_replaced_unasked(
    folder: Path, run_text: str, encoded: dict[str, int]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    before = contents(folder / "results")
    (folder / "run.yaml").write_text(run_text + "ties: optimistic\n")
    run_file = load_run_file(folder / "run.yaml")
    with pytest.raises(
        SweepError, match=r"its ties is 'expected', expected 'optimistic'.*--force replaces it"
    ):
        run_sweep(run_file)
    assert contents(folder / "results") == before
    results = run_sweep(run_file, force=True)
    assert {run.ties for one in results for run in one.runs} == {"optimistic"}


def test_a_checkpoint_that_fails_does_not_stop_the_others(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = run_text.replace("fake:toy:1", "fake:toy:broken")
    (folder / "run.yaml").write_text(text)
    assert run(["sweep", str(folder / "run.yaml")]) == 1
    shown = capsys.readouterr()
    assert "late" in shown.out
    assert "error: 1 of 2 checkpoints failed" in shown.err
    assert "early: RuntimeError: tensor of the wrong shape (a defect of itrstress or of" in shown.err
    assert "Traceback" not in shown.err
    assert {name.split("/")[0] for name in contents(folder / "results")} == {"late"}


def test_debug_shows_where_every_checkpoint_failed(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = run_text.replace("fake:toy:1", "fake:toy:broken").replace("fake:toy:2", "fake:toy:broken-too")
    (folder / "run.yaml").write_text(text)
    assert run(["--debug", "sweep", str(folder / "run.yaml")]) == 1
    shown = capsys.readouterr().err
    assert shown.count("in encode_texts") == 2
    assert shown.count("RuntimeError: tensor of\nthe wrong shape") == 2


def test_a_failure_of_the_users_is_no_defect_and_the_last_is_the_cause(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "run.yaml").write_text(run_text.replace("fake:toy:2", "fake:toy:unfit"))
    with pytest.raises(SweepError, match="late: weights that do not fit") as caught:
        run_sweep(load_run_file(folder / "run.yaml"))
    assert "defect" not in str(caught.value)
    assert isinstance(caught.value.__cause__, InputError)
    assert list(caught.value.failures) == ["late"]
    assert run(["sweep", str(folder / "run.yaml")]) == 2
    assert "1 of 2 checkpoints failed, the others are done: late: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate 9 GiB")]
)
def test_a_checkpoint_too_large_for_the_machine_is_no_defect(
    folder: Path,
    run_text: str,
    encoded: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    opened = checkpoint.open_model

    def open_one(spec: str, **options: Any) -> Any:
        if spec == "fake:toy:1":
            raise error
        return opened(spec, **options)

    monkeypatch.setattr(checkpoint, "open_model", open_one)
    with pytest.raises(
        SweepError, match=r"1 of 2 .*early: not enough memory.*a smaller --batch-size"
    ) as caught:
        run_sweep(load_run_file(folder / "run.yaml"))
    assert "defect" not in str(caught.value)
    assert [one.provenance.checkpoint for one in caught.value.results] == ["late"]


def test_when_all_fail_alike_the_reason_is_said_once_and_nothing_is_done(
    folder: Path, run_text: str, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    text = run_text.replace("fake:toy:1", "fake:toy:unfit").replace("fake:toy:2", "fake:toy:unfit-too")
    (folder / "run.yaml").write_text(text)
    assert run(["sweep", str(folder / "run.yaml")]) == 2
    shown = capsys.readouterr()
    assert "error: 2 of 2 checkpoints failed: early, late: weights that do not fit; put it right" in shown.err
    assert "others are done" not in shown.err
    assert "written" not in shown.out


def test_a_failed_checkpoint_does_not_keep_its_model(
    folder: Path, run_text: str, encoded: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[Any]] = []
    alive: list[bool] = []

    def watching(*args: Any, **options: Any) -> Any:
        gc.collect()
        alive.extend(one() is not None for one in opened)
        encoder = registry.open_encoder(*args, **options)
        opened.append(weakref.ref(encoder))
        return encoder

    monkeypatch.setattr(checkpoint, "open_model", watching)
    (folder / "run.yaml").write_text(run_text.replace("fake:toy:1", "fake:toy:broken"))
    with pytest.raises(SweepError):
        run_sweep(load_run_file(folder / "run.yaml"))
    assert alive == [False]


def statistics(results: Sequence[Results]) -> list[Any]:
    return [(run.metrics, run.intervals, run.bootstrap) for one in results for run in one.runs]


@pytest.mark.parametrize("change", ["resamples: 40\n", "resamples: 0\n"])
def test_other_resamples_are_drawn_from_the_outcomes_without_a_search(
    folder: Path, run_text: str, encoded: dict[str, int], searched: list[str], change: str
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    searched.clear()
    (folder / "run.yaml").write_text(run_text + change)
    again = run_sweep(load_run_file(folder / "run.yaml"))
    assert searched == []
    (folder / "run.yaml").write_text(run_text.replace("out: results", "out: fresh") + change)
    assert statistics(again) == statistics(run_sweep(load_run_file(folder / "run.yaml")))
    there = read_results(folder / "results" / "early" / "none.i2t.json")
    assert there.runs == (again[0].runs[0],)
    assert there.provenance.config["resamples"] == int(change.split()[1])


def test_intervals_drawn_anew_leave_the_provenance_of_the_search(
    folder: Path, run_text: str, encoded: dict[str, int]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"), command=("itrstress", "sweep", "first.yaml"))
    before = read_results(folder / "results" / "late" / "none.t2i.json").provenance
    changed = (
        run_text.replace("seed: 5", "seed: 6")
        .replace("0.9", "0.9:seed=5")
        .replace("workers: 1", "workers: 2")
    )
    (folder / "run.yaml").write_text(changed + "resamples: 40\n")
    run_sweep(load_run_file(folder / "run.yaml"), command=("itrstress", "sweep", "second.yaml"))
    after = read_results(folder / "results" / "late" / "none.t2i.json").provenance
    assert after.config == {**before.config, "seed": 6, "resamples": 40}
    assert after.seeds == {**before.seeds, "run": 6}
    same = {"config", "seeds", "created"}
    assert after.model_dump(exclude=same) == before.model_dump(exclude=same)
    assert after.command == ("itrstress", "sweep", "first.yaml")


def test_intervals_of_another_seed_are_not_returned(
    folder: Path, run_text: str, encoded: dict[str, int], searched: list[str]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    searched.clear()
    (folder / "run.yaml").write_text(run_text.replace("seed: 5", "seed: 6").replace("0.9", "0.9:seed=5"))
    again = run_sweep(load_run_file(folder / "run.yaml"))
    assert searched == []
    assert {run.bootstrap.seed for one in again for run in one.runs if run.bootstrap} == {6}
    assert again[0].provenance.seeds["run"] == 6


@pytest.mark.parametrize("name", ["none.i2t.json", "rococo,corpus.i2t.json", "none.i2t.parquet"])
@pytest.mark.parametrize("kept", [0, 100])
def test_a_file_that_is_cut_off_is_done_again(
    folder: Path, encoded: dict[str, int], name: str, kept: int
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    before = contents(folder / "results")
    file = folder / "results" / "late" / name
    file.write_bytes(file.read_bytes()[:kept])
    assert statistics(run_sweep(run_file)) == statistics(first)
    after = contents(folder / "results")
    assert set(after) == set(before)
    assert {one: data for one, data in after.items() if one.endswith("parquet")} == {
        one: data for one, data in before.items() if one.endswith("parquet")
    }


class Notes:
    """Keeps what a sweep says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def task(self, label: str, total: int, unit: str) -> Any:
        return Silent().task(label, total, unit)

    def note(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda mine, other: mine.write_bytes(other.read_bytes()), "of another run (its encoder is "),
        (lambda mine, other: rewritten_in_the_middle(mine), "changed since the results were written"),
        (lambda mine, other: mine.unlink(), "not there"),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_base_that_is_not_the_runs_own_is_never_adopted(
    folder: Path, encoded: dict[str, int], damage: Callable[[Path, Path], Any], said: str, kept: bool
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    before = contents(folder / "results")
    mine, other = (folder / "results" / name / "none.t2i.parquet" for name in ("late", "early"))
    damage(mine, other)
    if not kept:  # the base is needed again
        (folder / "results" / "late" / "mix,0.9,seed=5.t2i.json").unlink()
    notes = Notes()
    again = run_sweep(run_file, progress=notes)
    assert [line for line in notes.lines if line.startswith(f"{mine}: {said}") and "done again" in line]
    assert statistics(again) == statistics(first)
    after = contents(folder / "results")
    assert {one: data for one, data in after.items() if one.endswith("parquet")} == {
        one: data for one, data in before.items() if one.endswith("parquet")
    }


def rewritten_in_the_middle(file: Path) -> None:
    """A table of the same columns, rows and metadata whose ranks are others."""
    table = pq.read_table(file)
    place = table.schema.get_field_index("above")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array([0] * table.num_rows)), file)


def test_results_under_the_name_of_another_variant_are_refused(
    folder: Path, run_text: str, encoded: dict[str, int]
) -> None:
    text = run_text.replace('"rococo:corpus.json", "mix:0.9"', '"mix:0.9", "mix:0.8"')
    (folder / "run.yaml").write_text(text)
    run_sweep(load_run_file(folder / "run.yaml"))
    for extension in ("json", "parquet"):
        one, two = (folder / f"results/late/mix,{level},seed=5.t2i.{extension}" for level in (0.9, 0.8))
        one.write_bytes(two.read_bytes())
    with pytest.raises(SweepError, match=r"variant's name is 'mix:0.8:seed=5', expected 'mix:0.9:seed=5'"):
        run_sweep(load_run_file(folder / "run.yaml"))


def test_results_of_an_older_schema_are_replaced_by_force_only(folder: Path, encoded: dict[str, int]) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    file = folder / "results" / "late" / "none.i2t.json"
    old = file.read_text().replace('"schema_version": 2', '"schema_version": 1')
    file.write_text(old)
    with pytest.raises(SweepError, match=r"none.i2t.json: results of schema version 1.*--force replaces it"):
        run_sweep(run_file)
    assert file.read_text() == old
    assert statistics(run_sweep(run_file, force=True)) == statistics(first)


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many encoders were opened, times all images were read for their digests, and variants made."""
    counts: Counter[str] = Counter()

    def count(target: Any, name: str, what: str) -> None:
        original = getattr(target, name)

        def counted(*args: Any, **options: Any) -> Any:
            counts[what] += 1
            return original(*args, **options)

        monkeypatch.setattr(target, name, counted)

    count(checkpoint, "open_model", "encoders")
    for module in (stamp, embedding):
        count(module, "digest_images", "digests")
    count(Rococo, "apply", "variants")
    return counts


def test_images_are_digested_once_a_sweep_and_variants_made_once(
    folder: Path, encoded: dict[str, int], worked: Counter[str]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    assert worked == {"encoders": 2, "digests": 1, "variants": 1}


def test_a_finished_sweep_opens_no_encoder_and_no_image(
    folder: Path, encoded: dict[str, int], worked: Counter[str]
) -> None:
    run_file = load_run_file(folder / "run.yaml")
    first = run_sweep(run_file)
    worked.clear()
    assert run_sweep(run_file) == first
    assert worked == {}
    assert run_sweep(run_file, check=True) == first
    assert worked == {"encoders": 2, "digests": 1, "variants": 1}


def rewritten(file: Path) -> None:
    """Other bytes of the same length and the same date."""
    before = file.stat()
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_run_file(folder: Path, change: tuple[str, str]) -> None:
    text = (folder / "run.yaml").read_text()
    (folder / "run.yaml").write_text(text.replace(*change))


@pytest.mark.parametrize(
    ("happens", "checked"),
    [
        (lambda folder: rewritten(folder / "weights" / "one.pt"), 1),
        (lambda folder: (folder / "weights" / "vocab.txt").write_text("new"), 1),
        (lambda folder: (folder / "weights" / "coco_vocab.json").write_text("{}"), 1),
        (lambda folder: (folder / "weights" / "epoch_2.pt").write_bytes(b"a later one"), 0),
        (lambda folder: (folder / "weights" / "train.log").write_text("epoch 2"), 0),
        (lambda folder: os.utime(folder / "pictures" / "2.png"), 2),
        (lambda folder: os.utime(folder / "corpus.json"), 2),
        (lambda folder: (folder / "stores" / "late.h5").unlink(), 1),
        (lambda folder: (folder / "stores" / "late.inputs.json").write_text("{"), 1),
        (lambda folder: other_run_file(folder, ("batch_size: 3", "precision: bf16")), 2),
        (lambda folder: other_run_file(folder, ("mix:0.9", "mix:0.8")), 2),
        (lambda folder: other_run_file(folder, ("name: late", "name: late, preprocess: openai")), 1),
    ],
)
def test_a_change_of_what_is_trusted_opens_the_encoder_and_of_nothing_else(
    folder: Path, encoded: dict[str, int], worked: Counter[str], happens: Callable[[Path], Any], checked: int
) -> None:
    (folder / "weights").mkdir()
    (folder / "weights" / "one.pt").write_bytes(b"weights")
    other_run_file(folder, ("fake:toy:1", "fake:toy:weights/one.pt"))
    run_sweep(load_run_file(folder / "run.yaml"))
    worked.clear()
    happens(folder)
    run_sweep(load_run_file(folder / "run.yaml"))
    assert worked["encoders"] == checked


def test_the_command_prints_all_checkpoints(
    folder: Path, encoded: dict[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", str(folder / "run.yaml")]) == 0
    shown = capsys.readouterr().out
    for word in ("early", "late", "rococo:corpus", "mix:0.9:seed=5", "i2t", "t2i"):
        assert word in shown
    one = read_results(folder / "results" / "late" / "none.t2i.json")
    assert one.provenance.command == ("itrstress", "sweep", str(folder / "run.yaml"))
    assert one.provenance.config["seed"] == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"rococo:corpus.json"', '"rococo:gone.json"'), "gone.json"),
        (
            ('"mix:0.9"]', '"mix:0.9", "mix:0.9:seed=5"]'),
            r"line 5: variants\[2\] is the variant 'mix:0.9:seed=5' once more",
        ),
    ],
)
def test_options_that_cannot_be_used_stop_before_any_work(
    folder: Path, run_text: str, encoded: dict[str, int], change: tuple[str, str], message: str
) -> None:
    (folder / "run.yaml").write_text(run_text.replace(*change))
    with pytest.raises(InputError, match=message):
        run_sweep(load_run_file(folder / "run.yaml"))
    assert not (folder / "stores").exists()
    assert encoded == {"images": 0, "texts": 0}


def test_only_the_variants_of_the_run_file_are_evaluated(
    folder: Path, run_text: str, encoded: dict[str, int]
) -> None:
    run_sweep(load_run_file(folder / "run.yaml"))
    text = run_text.replace('"rococo:corpus.json", ', "").replace("out: results", "out: fewer")
    (folder / "run.yaml").write_text(text)
    results = run_sweep(load_run_file(folder / "run.yaml"))
    assert [run.variant for run in results[0].runs] == [None, None, "mix:0.9:seed=5"]
    with open_store(folder / "stores" / "early.h5") as store:
        assert "rococo:corpus" in {info.name for info in store.sets}
