"""The `itrstress` command: a lazy group, so that `--help` does not wait for torch, and the exit codes."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from engine.cli.lines import one_line
from engine.errors import ItrstressError, unknown_name
from engine.resources import shortage
from engine.version import VERSION
from indexes.errors import SearchInputError

# command -> module of `engine.cli` (its click command has the name `command`), in the order of the help page
COMMANDS = {
    "demo": "demo",
    "evaluate": "evaluate",
    "sweep": "sweep",
    "compare": "compare",
    "significance": "significance",
    "attribute": "attribute",
    "report": "report",
    "export": "export",
    "embed": "embed",
    "import": "import_",
    "corpus": "corpus",
    "variants": "variants",
    "models": "models",
    "store": "store",
    "distractors": "distractors",
    "index": "index",
    "setup": "setup",
    "bench": "bench",
    "doctor": "doctor",
    "completion": "completion",
}
SHORT_HELP = {
    "demo": "Render a small corpus, attack three trained checkpoints, print the verdict.",
    "evaluate": "Search a store's galleries and say what every variant costs.",
    "sweep": "Run checkpoints x variants x directions from a YAML file.",
    "compare": "Put checkpoints side by side, and beside the published figures.",
    "significance": "Say which differences of checkpoints are real.",
    "attribute": "Say which words, concepts and places fool the checkpoints.",
    "report": "Write one HTML page of results: figures, tables, failures.",
    "export": "Write results and rankings for other programs.",
    "embed": "Encode a corpus and its variants into a store.",
    "import": "Put embeddings made elsewhere into a store.",
    "corpus": "Look at captioned image sets.",
    "variants": "List, write, draw and audit the perturbations.",
    "models": "List the families of models, describe a model.",
    "store": "Look at stores.",
    "distractors": "Extend galleries with distractor rows.",
    "index": "Freeze galleries once, for the queries of many checkpoints.",
    "setup": "Get WordNet for the synonym perturbations.",
    "bench": "Measure search: backends, peers, the whole RoCOCO job.",
    "doctor": "Check this machine: versions, GPU, FAISS, BLAS, spaCy, disk.",
    "completion": "Print the shell completion script.",
}
PRINTERS = ("click.utils", "rich.console", __name__)  # what writes to standard output


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: D102
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"engine.cli.{COMMANDS[cmd_name]}")
        command: click.Command = module.command
        return command

    def resolve_command(  # noqa: D102
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(str(unknown_name("command", args[0], COMMANDS)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: D102
        with formatter.section("Commands"):
            formatter.write_dl([(name, SHORT_HELP[name]) for name in COMMANDS])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(VERSION, prog_name="itrstress")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def itrstress(debug: bool) -> None:
    """Stress tests for image-text retrieval.

    Puts adversarial captions and images into the gallery and says how much each checkpoint loses, how
    often it prefers the fake, and what a search costs. Start with `itrstress demo`: it needs no data, no
    GPU and no network.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 2 for input and usage, 1 for the rest, 130 for Ctrl-C."""
    show_everything()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words  # wherever it stands: it is added to a command that has just failed
    try:
        return invoke(["--debug"] * debug + [word for word in words if word != "--debug"])
    except (click.exceptions.Abort, KeyboardInterrupt):
        return interrupted()
    except BrokenPipeError:  # the reader of a pipe has gone, as in `itrstress ... | head`
        give_up_output()
        return 1
    except Exception as error:  # noqa: BLE001 - the outermost layer: a line for the user, a traceback on request
        message, code = failure(error)
        return report(message, code, debug)


def show_everything() -> None:
    """Let any text be printed: what the output's encoding has no character for is shown as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def invoke(words: list[str]) -> int:
    """Run the command and see its output written; the exit code.

    A group without a command prints its help, with click's code for wrong usage: nothing was done, and a
    script that forgot the command must not take it for success.
    """
    try:
        result = itrstress.main(words, prog_name="itrstress", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.message)
        result = error.exit_code
    if sys.stdout is not None:  # closed by the shell, `>&-`
        sys.stdout.flush()
    return result if isinstance(result, int) else 0


def failure(error: Exception) -> tuple[str, int]:
    """The line for the user, and the exit code."""
    if isinstance(error, click.ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, ItrstressError):
        return str(error), error.exit_code
    if isinstance(error, SearchInputError):
        return str(error), 2
    if (short_of := shortage(error)) is not None:
        return short_of, 1
    if isinstance(error, OSError):
        return f"{place_of(error)}{error.strerror or error}", 2
    return f"{type(error).__name__}: {error} (a defect of itrstress; --debug shows where)", 1


def place_of(error: OSError) -> str:
    """What an error of the system is about, where that can be told."""
    if error.filename:
        return f"{error.filename}: "
    if raised_in(error) in PRINTERS:
        give_up_output()
        return "standard output cannot be written: "
    return ""


def raised_in(error: BaseException) -> str:
    """The module of the innermost Python function that an error comes from."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"])


def give_up_output() -> None:
    """Let what is still to be printed vanish, or Python would fail on it once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def interrupted() -> int:
    """Say what Ctrl-C leaves behind; the exit code."""
    click.echo(
        "interrupted; nothing is half-written, and embed, sweep, distractors, demo go on from there", err=True
    )
    return 130


def report(message: str, code: int, debug: bool) -> int:
    """Print the one line (and the traceback when asked) and return the code."""
    with suppress(OSError):  # nobody can be told where standard error itself cannot be written; the code can
        if debug:
            traceback.print_exc()
        click.echo(f"error: {one_line(message)}", err=True)
    return code


def main() -> None:
    """Entry point of the console script."""
    try:
        code = run()
        # all is done and said: from here on Ctrl-C would only kill Python's own clearing up, without a word
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = interrupted()
    sys.exit(code)
