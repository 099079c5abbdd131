"""The outermost layer: exit codes, one line for every failure, no traceback without --debug."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from engine.cli import main as main_module
from engine.cli.main import COMMANDS, SHORT_HELP, run
from engine.errors import InputError, ItrstressError, unknown_name
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
