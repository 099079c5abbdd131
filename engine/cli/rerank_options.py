"""The options of a second stage: which model scores shortlists once more, how long they are, with what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber
from engine.encoders.request import DEFAULT_PAIR_BATCH

Command = TypeVar("Command", bound=Callable[..., Any])

OPTIONS = (
    click.option(
        "--rerank",
        metavar="MODEL",
        help="Score the best of every query once more by this model's matching head: blip:PATH, albef:PATH.",
    ),
    click.option(
        "--k-test",
        metavar="N",
        help="With --rerank: how many of a query; a number, coco (256) or flickr30k (128). Default: coco.",
    ),
    click.option(
        "--images",
        type=PATH,
        metavar="DIR",
        help="With --rerank: the folder of the images that were embedded.",
    ),
    click.option(
        "--pair-scores",
        type=PATH,
        metavar="FILE",
        help="With --rerank: where scores are kept, none computed twice. Default: beside STORE.h5.",
    ),
    click.option(
        "--device", metavar="NAME", help="With --rerank: auto, cpu, cuda, cuda:N or mps. Default: auto."
    ),
    click.option("--precision", metavar="NAME", help="With --rerank: fp32, bf16 or fp16. Default: fp32."),
    click.option(
        "--batch-size",
        type=WholeNumber(1),
        metavar="N",
        help=f"With --rerank: pairs through the model at once. Default: {DEFAULT_PAIR_BATCH}.",
    ),
)


def rerank_options(command: Command) -> Command:
    """Add the options to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command
