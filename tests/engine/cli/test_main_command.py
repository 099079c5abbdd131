"""The outermost layer: exit codes, one line for every failure, no traceback without --debug."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

from engine.cli import main as main_module
from engine.cli.main import COMMANDS, SHORT_HELP, run
from engine.errors import InputError, ItrstressError, unknown_name
from engine.resources import shortage
from indexes.errors import SearchInputError


def failing(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("doctor", callback=fail)


@pytest.fixture
def fail_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    def install(error: BaseException) -> None:
        monkeypatch.setattr(main_module.LazyGroup, "get_command", lambda self, ctx, name: failing(error))

    return install


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (InputError("a.json: not JSON"), 2, "error: a.json: not JSON\n"),
        (ItrstressError("2 checkpoints failed"), 1, "error: 2 checkpoints failed\n"),
        (SearchInputError("row 3 is NaN"), 2, "error: row 3 is NaN\n"),
        (PermissionError(13, "Permission denied", "/x.h5"), 2, "error: /x.h5: Permission denied\n"),
        (OSError(28, "No space left on device"), 2, "error: No space left on device\n"),
        (InputError("first\nsecond\x1b[31m"), 2, "error: first second\\x1b[31m\n"),
        (
            KeyboardInterrupt(),
            130,
            "interrupted; nothing is half-written, and embed, sweep, distractors, demo go on from there\n",
        ),
    ],
)
def test_every_failure_is_one_line_and_a_code(
    error: BaseException,
    code: int,
    shown: str,
    fail_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail_with(error)
    assert run(["doctor"]) == code
    assert capsys.readouterr().err.removeprefix("\n") == shown


def test_a_defect_is_a_line_and_a_traceback_only_on_request(
    fail_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(ZeroDivisionError("division by zero"))
    assert run(["doctor"]) == 1
    assert "Traceback" not in capsys.readouterr().err
    for words in (["--debug", "doctor"], ["doctor", "--debug"]):
        assert run(words) == 1
        shown = capsys.readouterr().err
        assert "Traceback" in shown
    assert shown.endswith(
        "error: ZeroDivisionError: division by zero (a defect of itrstress; --debug shows where)\n"
    )


@pytest.mark.parametrize("words", [["evalute"], ["evaluate", "--no-such-option"], ["evaluate"]])
def test_wrong_usage_is_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evalute"]) == 2
    assert "did you mean 'evaluate'?" in capsys.readouterr().err


def test_an_unknown_name_that_begins_a_known_one_is_completed() -> None:
    assert "did you mean 'mix:0.9:seed=1'?" in str(unknown_name("variant", "mix", ["mix:0.9:seed=1", "max"]))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert "Usage: itrstress" in capsys.readouterr().out


def test_help_lists_every_command_without_loading_torch() -> None:
    assert set(SHORT_HELP) == set(COMMANDS)
    code = (
        "import sys; from engine.cli.main import run; assert run(['--help']) == 0; "
        "heavy = {'torch', 'faiss', 'spacy', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ITRSTRESS_COMPLETE" in capsys.readouterr().out


# ---------------------------------------------------------------- help, output, Ctrl-C


@pytest.mark.parametrize(
    "words", [[], *([name] for name in ("corpus", "store", "variants", "distractors", "setup", "export"))]
)
def test_a_group_without_a_command_prints_its_help(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    whole = capsys.readouterr().out
    assert run(words) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (whole, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["store"], ["doctor"]])
def test_output_that_cannot_be_written_is_one_line(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from engine.cli.main import main; main()", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "error: standard output cannot be written: No space left on device\n"


def test_ctrl_c_after_the_end_is_no_interruption() -> None:
    code = (
        "import atexit, os, signal, sys; atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); "
        "sys.argv = ['itrstress', '--version']; from engine.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("itrstress")


# ---------------------------------------------------------------- names that are no UTF-8


def test_a_name_that_is_no_text_is_shown_escaped() -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = "from engine.cli.main import run; import rich; run(['--version']); rich.print('caf\\udcc3\\udca9')"
    for env in (environment, {**os.environ, "PYTHONUTF8": "1"}):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, check=False)
        assert done.returncode == 0, done.stderr
        assert b"caf\\udcc3\\udca9" in done.stdout


# ---------------------------------------------------------------- a machine that runs short


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (MemoryError(), "not enough memory;"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "not enough"),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB"), "not enough memory (CUDA"),
        (RuntimeError("can't start new thread"), "no more threads can be started"),
        (
            ImportError("libtorch_cpu.so: failed to map segment from shared object"),
            "too little address space",
        ),
        (OSError(12, "Cannot allocate memory"), "not enough memory"),
    ],
)
def test_a_machine_that_runs_short_is_no_defect(
    error: Exception,
    begins: str,
    fail_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    fail_with(error)
    assert run(["doctor"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith(f"error: {begins}")
    assert shown.count("\n") == 1
    assert "defect" not in shown


def test_a_numpy_array_too_large_is_no_defect() -> None:
    with pytest.raises(MemoryError) as caught:
        np.empty((2**25, 2**25))
    assert "--memory-limit" in (shortage(caught.value) or "")


def test_a_library_that_is_damaged_is_no_shortage_unless_address_space_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = RuntimeError("faiss-gpu: failed to load libcublas.so.12 from x - corrupt wheel?")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert shortage(error) is None
    monkeypatch.setattr(resource, "getrlimit", lambda what: (2**30, 2**30))
    assert "`ulimit -v` allows 1.0 GiB" in (shortage(error) or "")


def test_an_error_of_another_kind_is_no_shortage() -> None:
    assert shortage(ValueError("out of memory of the elephants")) is None
