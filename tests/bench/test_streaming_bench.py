"""The measurement of streaming, at a size that takes seconds: every search runs, and the verdict follows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bench.streaming import judge


def test_it_measures_every_search_and_writes_what_it_found(tmp_path):
    options = ["--rows", "3k", "--dim", "16", "--queries", "5", "--repeat", "1", "--backend", "numpy"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.streaming",
            *options,
            "--folder",
            tmp_path,
            "--json",
            tmp_path / "s.json",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "s.json").read_text())
    assert [one["rows"] for one in found["rows"]] == [750, 1500, 3000, 3000, 3000, 3000]
    assert all(one["median_seconds"] > 0 and one["peak_rss_bytes"] > 1 << 20 for one in found["rows"])
    assert found["options"]["rows"] == "3k"
    assert "| streamed, 3,000 rows |" in done.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.json"]


def test_the_verdict_compares_streaming_with_memory():
    def row(seconds: float, rows: int, opening: float = 0.0) -> dict[str, float]:
        return {
            "median_seconds": seconds,
            "opening_seconds": opening,
            "microseconds_a_row": seconds / rows,
            "peak_rss_bytes": 3,
        }

    records = [row(1, 1), row(2, 2), row(4.4, 4), row(9, 4), row(4, 4), row(2, 4, 2)]
    assert judge(records, 6) == {
        "peak_over_limit": 0.5,
        "rate_against_memory": pytest.approx(4 / 4.4),
        "rate_against_backend": pytest.approx(2 / 4.4),
        "rate_against_backend_and_opening": pytest.approx(4 / 4.4),
        "time_a_row_spread": pytest.approx(0.1),
    }
