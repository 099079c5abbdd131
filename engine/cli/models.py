"""`itrstress models`: which families of models there are, and what one model is and needs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from engine.errors import InputError

if TYPE_CHECKING:
    import torch

    from engine.encoders.family import FamilyFacts, NeededFile

WIDTH = 100
SHORT = 12  # characters of a digest
PART_WIDTH = 12  # columns of the name of a fingerprint's part, where that is enough
OPTION_WIDTH = 20
DIGEST = 64
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


@click.group("models")
def command() -> None:
    """List the families of models, and describe a model."""


@command.command("list")
@JSON_OPTION
def list_command(as_json: bool) -> None:
    """List every family of models: how its spec is written, what it reads, what it scores with.

    Plug-ins (entry points of the group itrstress.encoders) are listed with ours.
    """
    from engine.encoders.catalogue import catalogue
    from engine.report.console import table_console

    families = catalogue()
    if as_json:
        click.echo(json.dumps({name: vars(facts) for name, facts in families.items()}, indent=2))
        return
    width = min(WIDTH, table_console().width)
    for facts in families.values():
        for line in family_lines(facts, width):
            click.echo(line)


def family_lines(facts: FamilyFacts, width: int) -> Iterator[str]:
    """A family in words: its specs, what they are, their options; in lines of `width` columns."""
    yield click.style("   ".join(facts.forms), bold=True)
    about = f"{facts.models}; reads {facts.reads}; scores with {facts.scores}"
    yield click.wrap_text(about, width=width, initial_indent="    ", subsequent_indent="    ")
    for option, words in facts.options.items():
        yield click.wrap_text(
            f"{option:<{OPTION_WIDTH}}{words}",
            width=width,
            initial_indent="      ",
            subsequent_indent=" " * (6 + OPTION_WIDTH),
        )


@command.command("describe")
@click.argument("spec", metavar="SPEC")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda, mps.")
@click.option("--precision", default="fp32", show_default=True, metavar="NAME", help="fp32, bf16 or fp16.")
@click.option("--preprocess", metavar="NAME", help="As for embed, where the checkpoint has none of its own.")
@JSON_OPTION
def describe_command(spec: str, device: str, precision: str, preprocess: str | None, as_json: bool) -> None:
    """Say what the model of SPEC is: files, dimensions, preprocessing, precisions, fingerprint.

    Nothing is downloaded. Ends with exit code 2 when files are missing, after saying which.
    """
    from engine.encoders.catalogue import catalogue
    from engine.encoders.needed_files import needed_files
    from engine.encoders.registry import check_family, parse_spec

    files = needed_files(spec)
    family = parse_spec(spec)[0]
    check_family(family)
    options = catalogue()[family].options
    missing = [file for file in files or () if not file.there and "--preprocess" not in file.where]
    facts = None if missing else open_and_describe(spec, device, precision, preprocess)
    if as_json:
        listed = None if files is None else [vars(file) for file in files]
        found = {"spec": spec, "files": listed, "options": options, **(facts or {})}
        click.echo(json.dumps(found, indent=2, default=str))
    else:
        for line in [*file_lines(files), *fact_lines({"options": list(options) or None, **(facts or {})})]:
            click.echo(line)
    if missing:
        raise InputError(
            f"{spec}: {len(missing)} of the files it needs {'is' if len(missing) == 1 else 'are'} missing: "
            + "; ".join(f"{file.what} ({file.where})" for file in missing)
        )


def open_and_describe(spec: str, device: str, precision: str, preprocess: str | None) -> dict[str, Any]:
    """The model of a spec, opened without a network and described, JSON-ready."""
    from engine.encoders.device import resolve_device
    from engine.encoders.offline import no_network
    from engine.encoders.registry import describe_encoder, open_encoder, scores_pairs
    from engine.encoders.scorer_registry import RERANKER_PARTS, open_pair_scorer

    with no_network():
        if scores_pairs(spec):
            model: Any = open_pair_scorer(spec, device=device, precision=precision)
        else:
            model = open_encoder(spec, device=device, precision=precision, preprocess=preprocess)
    scores = "pairs" if not hasattr(model, "dim") else "cosine"
    if all(hasattr(model, part) for part in RERANKER_PARTS):
        scores = f"cosine, then a matching head (join: {model.join})"
    return {
        "dimensions": getattr(model, "dim", None),
        "reads": getattr(model, "reads", "images"),
        "scores": scores,
        **{topic: words for topic, words in describe_encoder(model).items() if topic != "computed"},
        "precisions": list(working_precisions(resolve_device(device))),
        "computed": describe_encoder(model).get("computed", "as its own code does"),
        "fingerprint": model.fingerprint,
        "fingerprint of": dict(getattr(model, "fingerprint_parts", {})),
    }


def working_precisions(device: torch.device) -> Iterator[str]:
    """The precisions that the device can compute in."""
    from engine.encoders.device import check_precision
    from engine.encoders.request import PRECISIONS

    for precision in PRECISIONS:
        try:
            check_precision(precision, device)
        except InputError:
            continue
        yield precision


def file_lines(files: Sequence[NeededFile] | None) -> Iterator[str]:
    """The files, one a line."""
    if files is None:
        yield "files         the plug-in does not say which it needs"
    for file in files or ():
        state = "there  " if file.there else "MISSING"
        yield f"file          {state} {file.what}: {file.where}"


def fact_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """What is known of the model, one topic a line."""
    for topic, value in facts.items():
        if isinstance(value, Mapping):
            width = max([PART_WIDTH, *(len(part) + 1 for part in value)])
            for part, of_part in value.items():
                yield f"  {part:<{width}}{short_digests(of_part)}"
        elif value is not None:
            yield f"{topic:<14}{', '.join(value) if isinstance(value, list) else value}"


def short_digests(value: Any) -> str:
    """A part of a fingerprint, digests cut short."""
    if isinstance(value, str):
        return value[:SHORT] if len(value) == DIGEST else value
    if isinstance(value, list | tuple):
        return "[" + ", ".join(short_digests(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {short_digests(one)}" for name, one in value.items()) + "}"
    return str(value)
