"""Names that are no UTF-8 go through the commands from end to end, and stand escaped in what is stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.evaluate.outcome_files import read_outcomes
from engine.evaluate.results import read_results
from engine.store.reader import open_store

PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def itrstress(folder: Path, *words: bytes, locale: dict[str, str]) -> None:
    command = [sys.executable, "-c", "from engine.cli.main import main; main()", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env={**os.environ, **locale})
    assert done.returncode == 0, done.stderr.decode(errors="replace")


@pytest.mark.parametrize("locale", [PLAIN_C, {"PYTHONUTF8": "1"}], ids=["C", "UTF-8"])
@pytest.mark.parametrize(
    ("name", "stored"), [(b"\xff", "\\xff"), ("né".encode(), "né")], ids=["no UTF-8", "UTF-8"]
)
def test_any_file_name_goes_through(tmp_path: Path, name: bytes, stored: str, locale: dict[str, str]) -> None:
    rng = np.random.default_rng(0)
    folder = os.fsencode(tmp_path)
    with open(folder + b"/" + name + b".csv", "w", encoding="utf-8") as file:  # noqa: PTH123 - a name of bytes
        file.write("image,caption\n" + "".join(f"{row}.png,caption {row}\n" for row in range(4)))
    for kind in (b"i", b"c"):
        with open(folder + b"/" + kind + name + b".npy", "wb") as file:  # noqa: PTH123
            np.save(file, rng.standard_normal((4, 6)))
    itrstress(
        tmp_path,
        *(b"import", b"--images", b"i" + name + b".npy", b"--captions", b"c" + name + b".npy"),
        *(b"--corpus", name + b".csv", b"--model", name, b"--out", name + b".h5"),
        locale=locale,
    )
    itrstress(tmp_path, b"store", b"inspect", name + b".h5", locale=locale)
    itrstress(tmp_path, b"evaluate", name + b".h5", b"--out", name, b"--backend", b"numpy", locale=locale)
    (store_file,) = (path for path in tmp_path.iterdir() if path.suffix == ".h5")
    with open_store(store_file) as store:
        assert store.header.encoder_spec == f"imported:{stored}"
        assert store.header.corpus_source == f"{stored}.csv"
    results = read_results(tmp_path / os.fsdecode(name))
    read_outcomes(tmp_path / os.fsdecode(name) / str(results.runs[0].outcomes), results.runs[0])
    provenance = results.provenance
    assert provenance.command[1:3] == ("evaluate", f"{stored}.h5")
    assert provenance.corpus_name == stored
