"""The variants of a run file: one spec a seed, with absolute paths, and the encoders that some need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.corpus.shape import shorten
from engine.encoders.influence import open_influence
from engine.errors import InputError
from engine.evaluate.sets import direction_of
from engine.sweeps.run_file.checks import RELATIVE
from engine.sweeps.run_file.model_paths import models_of
from engine.sweeps.run_file.options import RunDocument, VariantEntry
from engine.sweeps.run_file.yaml_document import Document, Place
from engine.variants.influence_binding import bind_influence
from engine.variants.registry import Family, make_variant, spec_parts, takes_seed, variant_families, with_seed
from engine.variants.variant import Variant


def read_variants(written: RunDocument, document: Document, folder: Path) -> tuple[str, ...]:
    """Specs of the variants, each with its seed, paths absolute.

    Raises `InputError` for what is no spec, a file that is not there, seeds that a variant does not take, and
    a variant that is there twice.
    """
    specs: list[str] = []
    seen: set[str] = set()
    for number, entry in enumerate(written.variants):
        place: Place = ("variants", number)
        with document.placing(place):
            made = [(spec, make_variant(spec)) for spec in specs_of(entry, written.seed, folder)]
        for spec, variant in made:
            gone = next((path for path in files_of_variant(variant) if not path.exists()), None)
            if gone is not None:
                raise document.error(place, f"{shorten(repr(str(gone)), 200)} is not there; {RELATIVE}")
            direction = direction_of(variant.side, variant.modality)
            if direction not in written.directions:
                raise document.error(
                    place,
                    f"plays a part in {direction} only, and directions is {', '.join(written.directions)}; "
                    "add the direction or leave the variant out",
                )
            if variant.name in seen:
                raise document.error(place, f"is the variant {variant.name!r} once more; give it once")
            seen.add(variant.name)
            specs.append(spec)
    return tuple(specs)


def specs_of(entry: VariantEntry, seed: int, folder: Path) -> list[str]:
    """The specs of an entry: one a seed. Raises `InputError` for seeds that it cannot have."""
    spec = resolve_variant(entry.name, folder)
    if entry.seeds is None:
        return [with_seed(spec, seed)]
    if not takes_seed(spec):
        raise InputError(f"the variant {entry.name!r} takes no seed, or names one; leave seeds out")
    return [with_seed(spec, one) for one in entry.seeds]


def files_of_variant(variant: Variant) -> list[Path]:
    """The files that a variant is made from."""
    names: Mapping[str, object] = getattr(variant, "__dataclass_fields__", {})
    values = (getattr(variant, name) for name in names)
    return [value for value in values if isinstance(value, Path)]


def resolve_variant(spec: str, folder: Path) -> str:
    """A variant's spec with the files in it absolute (``rococo:FILE``, ``concepts=FILE``)."""
    name, _, rest = spec.partition(":")
    family = variant_families().get(name)
    if family is None or not rest:
        return spec
    if family.whole_rest:
        return f"{name}:{folder / rest}"
    return ":".join([name, *(resolve_part(part, family, folder) for part in spec_parts(rest, family))])


def resolve_part(part: str, family: Family, folder: Path) -> str:
    """One parameter of a spec, absolute where it is a path; `make_variant` says what is wrong with it."""
    key, _, value = part.partition("=")
    parameter = next((one for one in family.parameters if one.is_file and one.name == key), None)
    if parameter is None:
        return part
    try:
        is_path = isinstance(parameter.parse(value), Path)
    except ValueError:
        return part
    return f"{key}={folder / value}" if is_path else part


def read_influence(
    written: RunDocument, document: Document, folder: Path, variants: Sequence[str]
) -> tuple[str, ...]:
    """Specs of the encoders that vote on words, paths absolute.

    Raises `InputError` for what is no spec or not there, a model that is there twice, and when encoders are
    missing for a variant, or there and needed by none.
    """
    models: list[str] = []
    for number, model in enumerate(written.influence):
        with document.placing(("influence", number)):
            models += [spec for spec, _ in models_of(model, folder)]
    with document.placing(("influence",)):
        influence = open_influence(models) if models else None  # nothing is opened before it is used
        bind_influence([make_variant(spec) for spec in variants], influence)
    return tuple(models)
