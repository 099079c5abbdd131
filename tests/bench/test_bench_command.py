"""`itrstress bench`: contestants take turns, answers are compared fairly, results are written whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from bench import arena, contest, report, rococo_sweep
from bench.arena import Child, Failed, Task, measure, quality
from bench.contestants import CONTESTANTS
from bench.machine import describe_machine, peak_memory, processor_name
from bench.transfer import transfer_times
from bench.vectors import queries_and_rows
from engine.cli import bench as bench_command
from engine.cli.main import run
from indexes.devices import gpu_trouble

SIZE = ["--queries", "40", "--rows", "300", "--dim", "16", "--k", "5", "--repeat", "2"]
KEYS = {"name", "median_seconds", "spread", "queries_per_second", "agreement", "peak_rss_bytes"}


def test_peers_are_measured_and_written(tmp_path, capsys):
    file = tmp_path / "new" / "peers.json"
    chosen = ["itrstress", "faiss_as_shipped", "numpy"]
    options = [part for name in chosen for part in ("--peer", name)]
    assert run(["bench", "peers", *SIZE, *options, "--json", str(file)]) == 0
    table = capsys.readouterr().out
    found = json.loads(file.read_text())
    assert [row["name"] for row in found["rows"]] == chosen
    for row in found["rows"]:
        assert set(row) >= KEYS
        low, high = row["spread"]
        assert 0 < low <= row["median_seconds"] <= high
        assert row["queries_per_second"] == pytest.approx(40 / row["median_seconds"])
        assert row["agreement"] == 1.0
        assert row["peak_rss_bytes"] > 1 << 20
        assert row["name"] in table
    assert found["rows"][0]["times_itrstress"] == 1.0
    assert found["task"] == {"queries": 40, "rows": 300, "dim": 16, "k": 5, "repeat": 2}
    assert file.with_suffix(".md").read_text() == table
    assert run(["bench", "peers", *SIZE, *options, "--json", str(file)]) == 2
    assert "there already" in capsys.readouterr().err


def test_search_measures_every_backend_its_latency_and_its_batches(tmp_path, monkeypatch):
    chosen = ("itrstress", "itrstress_counts", "itrstress_numpy", "itrstress_faiss")
    assert set(chosen) <= set(bench_command.SEARCHES) <= set(CONTESTANTS)
    assert set(bench_command.PEERS) <= set(CONTESTANTS)
    monkeypatch.setattr(bench_command, "SEARCHES", chosen)
    file = tmp_path / "search.json"
    assert run(["bench", "search", *SIZE, "--repeat", "1", "--json", str(file)]) == 0
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    assert tuple(rows) == chosen
    assert rows["itrstress_counts"]["agreement"] is None
    for name in ("itrstress", "itrstress_numpy", "itrstress_faiss"):
        assert rows[name]["agreement"] == 1.0
        assert list(rows[name]["one_query_seconds"]) == ["p50", "p95", "p99"]
        assert list(rows[name]["batches"]) == ["1", "4", "16"]
        assert (rows[name]["transfer_seconds"] is not None) == (name == "itrstress" and not gpu_trouble())


def test_a_transfer_is_timed_apart():
    seconds = transfer_times(np.ones((1, 4), np.float32), 3, torch.device("cpu"), 5)
    assert len(seconds) == 5
    assert min(seconds) > 0


def test_the_table_has_transfers_where_they_were_measured(tmp_path):
    times = {"p50": 0.001, "p95": 0.002, "p99": 0.003}
    record = {"name": "x", "first_query_seconds": 0.5, "one_query_seconds": times, "batches": {"1": 7.0}}
    table = report._curves([{**record, "transfer_seconds": {**times, "p50": 0.25}}])
    assert table[-1] == "| x | 500.00 | 1.00 | 2.00 | 3.00 | 250.00 | 7 |"
    assert report._curves([{**record, "transfer_seconds": None}])[-1].endswith("| 3.00 |  | 7 |")


def test_the_sweep_runs_both_ways(tmp_path):
    file = tmp_path / "sweep.json"
    assert run(["bench", "sweep", "--images", "30", "--dim", "8", "--repeat", "1", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert [row["name"] for row in rows] == ["itrstress", "naive_faiss_tuned"]
    assert all(row["median_seconds"] > 0 and row["peak_rss_bytes"] > 0 for row in rows)


def test_the_sweep_has_the_published_shape():
    to_text, to_image = rococo_sweep.directions(12, 4)
    assert (to_text.queries.shape, to_text.originals.shape, len(to_text.variants)) == ((12, 4), (60, 4), 4)
    assert (to_image.queries.shape, to_image.originals.shape, len(to_image.variants)) == (
        (60, 4),
        (12, 4),
        24,
    )
    assert to_text.positives.tolist() == list(range(0, 60, 5))
    assert all(fakes.shape == (60, 4) for fakes in to_text.variants)
    assert not np.array_equal(to_image.variants[0], to_image.variants[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "--k", "11", "--rows", "10"], "--k is 11, expected at most --rows 10"),
        (["search", "--queries", "0"], "0: expected a whole number from 1 to 1,000,000,000"),
        (["search", "--dim", str(10**24)], f"{10**24}: expected a whole number from 1 to 1,048,576"),
        (["search", "--rows", "9" * 5000], "expected a whole number from 1 to 1,000,000,000"),
        (["sweep", "--images", str(10**24)], "expected a whole number from 10 to 1,000,000,000"),
        (["peers", "--peer", "fais"], "'fais'"),
        (["sweep", "--json", "result.txt"], "expected a name that ends in .json"),
    ],
)
def test_bad_options_are_named(arguments, message, capsys):
    assert run(["bench", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_peer_that_is_not_installed_is_left_out_or_an_error(monkeypatch, capsys):
    from dataclasses import replace

    absent = replace(CONTESTANTS["usearch"], package="no-such-distribution")
    monkeypatch.setitem(CONTESTANTS, "usearch", absent)  # type: ignore[arg-type]
    assert run(["bench", "peers", *SIZE, "--peer", "usearch"]) == 2
    assert "no-such-distribution is not installed" in capsys.readouterr().err


def test_a_contestant_that_ends_is_named_with_its_last_words(tmp_path):
    np.save(tmp_path / "queries.npy", np.zeros((2, 3), np.float32))
    np.save(tmp_path / "rows.npy", np.zeros((4, 3), np.float32))
    with pytest.raises(Failed, match=r"itrstress ended with code 1: .*row 0 is all zeros"):
        Child("itrstress", tmp_path, 2)


def test_faiss_as_shipped_sees_no_tuning(tmp_path, monkeypatch):
    queries, rows = queries_and_rows(4, 20, 8)
    np.save(tmp_path / "queries.npy", queries)
    np.save(tmp_path / "rows.npy", rows)
    seen = {}
    real = arena.subprocess.Popen

    def spy(command, **options):
        seen[command[3]] = options["env"]
        return real(command, **options)

    for variable in arena.TUNING:
        monkeypatch.setenv(variable, "Haswell" if variable.endswith("TYPE") else "512")
    monkeypatch.setattr(arena.subprocess, "Popen", spy)
    for name in ("faiss_as_shipped", "numpy"):
        Child(name, tmp_path, 2).close()
    assert not set(arena.TUNING) & set(seen["faiss_as_shipped"])
    assert set(arena.TUNING) <= set(seen["numpy"])


def test_rows_that_tie_are_as_good_as_each_other():
    right = np.array([[0.9, 0.5, 0.5], [0.8, 0.7, 0.6]], np.float32)
    same = quality([[0.5, 0.9, 0.5], [0.6, 0.7, 0.8]], right)
    assert same == {"agreement": 1.0, "recall": 1.0}
    worse = quality([[0.9, 0.5, 0.5], [0.8, 0.7, contest.NOT_LISTED]], right)
    assert worse == {"agreement": 0.5, "recall": pytest.approx(5 / 6)}
    assert quality(None, right) == {"agreement": None, "recall": None}


def test_a_row_listed_twice_is_not_an_answer():
    queries = rows = np.eye(3, dtype=np.float32)
    found = contest.Contest(
        "numpy", 2, queries, rows, lambda asked: np.array([[0, 1], [1, 1], [2, -1]])
    ).answer()
    assert found == [[1.0, 0.0], [contest.NOT_LISTED] * 2, [1.0, contest.NOT_LISTED]]


@pytest.mark.parametrize("name", ["itrstress", "faiss_tuned", "torch", "numpy", "usearch"])
def test_exact_contestants_list_the_right_rows(name):
    pytest.importorskip(CONTESTANTS[name].package or "numpy")
    queries, rows = queries_and_rows(30, 400, 32)
    found = CONTESTANTS[name].open(rows, 7)(queries)
    exact = queries.astype(float) @ rows.astype(float).T
    assert np.array_equal(np.sort(found, axis=1), np.sort(np.argsort(-exact, axis=1)[:, :7], axis=1))


def test_measuring_takes_turns(monkeypatch):
    order = []
    real = Child.ask
    monkeypatch.setattr(
        Child, "ask", lambda self, *words: order.append((self.name, words)) or real(self, *words)
    )
    measure(Task(5, 20, 4, 2), ["numpy", "product_float32"], 3)
    searches = [name for name, words in order if words == ("search",)]
    assert searches == ["numpy", "product_float32"] * 3


def test_the_machine_is_described_without_names_of_places():
    found = json.dumps(describe_machine())
    assert os.uname().nodename not in found
    assert str(Path.home()) not in found
    assert processor_name() in found
    assert peak_memory() > 1 << 20


@pytest.mark.parametrize("suffix", [".json", ".md", ".png", ".svg"])
def test_no_file_is_measured_for_that_has_no_place(tmp_path, capsys, suffix):
    os.mkfifo(tmp_path / f"a{suffix}")
    assert run(["bench", "search", *SIZE, "--json", str(tmp_path / "a.json"), "--force"]) == 2
    shown = capsys.readouterr()
    assert shown.err == (
        f"error: --json {tmp_path / f'a{suffix}'}: is a pipe, expected a file to write; name another one\n"
    )
    assert shown.out == ""
    assert (tmp_path / f"a{suffix}").is_fifo()
