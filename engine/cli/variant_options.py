"""The options that name a corpus and its variants, shared by the commands that make or look at variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from engine.cli.corpus_options import reading_options, with_options
from engine.cli.paths import PATH
from engine.cli.whole_number import WholeNumber
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.corpus.corpus import Corpus
    from engine.variants.influence import Influence
    from engine.variants.variant import Variant

_Command = TypeVar("_Command", bound=Callable[..., Any])


def corpus_options(*, required: bool) -> Callable[[_Command], _Command]:
    """``--corpus``, ``--reader``, ``--split`` and ``--normalisation``."""
    options = (
        click.option(
            "--corpus",
            "corpus_file",
            required=required,
            type=PATH,
            metavar="PATH",
            help="The captioned image set."
            + ("" if required else " Default, for rococo:FILE: the originals in FILE."),
        ),
        reading_options(),
    )
    return lambda command: with_options(options, command)


def variant_options(command: _Command) -> _Command:
    """``--variant`` and ``--seed``."""
    options = (
        click.option(
            "--variant",
            "variants",
            required=True,
            multiple=True,
            metavar="SPEC[,SPEC...]",
            help="Variants, such as same_concept,mix:0.9 or file:PATH. Repeatable.",
        ),
        click.option(
            "--seed",
            default=0,
            show_default=True,
            type=WholeNumber(0),
            help="Of what is drawn and names no seed of its own.",
        ),
    )
    return with_options(options, command)


def images_option(beyond: str = "") -> Callable[[_Command], _Command]:
    """``--images DIR``; `beyond` says what it is for."""
    return click.option(
        "--images", "image_folder", type=PATH, metavar="DIR", help=f"The folder of the images{beyond}."
    )


VOTE = "Encoders that vote where words are chosen by embedding influence (choice=low_ei)."


def influence_option(help_text: str = VOTE) -> Callable[[_Command], _Command]:
    """``--influence MODEL[,MODEL...]``."""
    return click.option(
        "--influence", multiple=True, metavar="MODEL[,MODEL...]", help=f"{help_text} Repeatable."
    )


def specs_of(texts: Sequence[str], seed: int) -> list[str]:
    """The specs of ``--variant``, with the seed where a family takes one and the spec names none.

    Raises `InputError` for an empty one and for a family that is not known.
    """
    from engine.variants.registry import split_specs, with_seed

    specs = [spec for text in texts for spec in split_specs(text)]
    if "" in specs:
        raise InputError(
            "--variant: a spec is empty; write them as SPEC[,SPEC...], such as mix:0.9,patch:0.9"
        )
    return [with_seed(spec, seed) for spec in specs]


def variants_of(
    specs: Sequence[str], influence: Influence | None = None, *, needed: bool = True
) -> list[Variant]:
    """The variants of specs, bound to the encoders of ``--influence``.

    Raises `InputError` for a spec that is wrong, for two variants of one name, for encoders that are missing,
    and, where they must be `needed`, for encoders that are not.
    """
    from engine.variants.influence_binding import bind_influence, chooses_by_influence
    from engine.variants.registry import make_variant

    variants = [make_variant(spec) for spec in specs]
    if needed or any(map(chooses_by_influence, variants)):
        variants = bind_influence(variants, influence)
    names = [variant.name for variant in variants]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--variant: {name!r} is there twice; leave one out")
    return variants


def influence_of(
    models: Sequence[str], *, device: str = "auto", preprocess: Mapping[str, str | None] | None = None
) -> Influence | None:
    """The encoders of ``--influence``, none of them opened yet; None when it was not given.

    Options and errors as in `engine.encoders.influence.open_influence`.
    """
    from engine.encoders.influence import open_influence, split_models
    from engine.report.console import ConsoleProgress

    if not models:
        return None
    return open_influence(
        split_models(models), device=device, preprocess=preprocess, progress=ConsoleProgress()
    )


def rococo_file(specs: Sequence[str]) -> Path | None:
    """The file of the first ``rococo:FILE`` among specs."""
    return next((Path(spec.partition(":")[2]) for spec in specs if spec.startswith("rococo:")), None)


def split_variant(option: str) -> tuple[str, str]:
    """Spec and file of ``SPEC=FILE``."""
    spec, equals, file = option.rpartition("=")
    if not equals or not spec or not file:
        raise InputError(f"--variant {option}: expected SPEC=FILE, such as rococo:same_concept.json=same.npy")
    return spec, file


def image_sizes(
    corpus: Corpus, folder: Path, variants: Sequence[Variant]
) -> Sequence[tuple[int, int]] | None:
    """(width, height) of every image, when a variant of images is to be made."""
    from engine.corpus.images import image_size
    from engine.report.console import ConsoleProgress

    if not any(variant.modality == "images" for variant in variants):
        return None
    sizes = []
    with ConsoleProgress().task("measured", len(corpus.images), "images") as advance:
        for image in corpus.images:
            sizes.append(image_size(folder, image.file))
            advance(1)
    return sizes
