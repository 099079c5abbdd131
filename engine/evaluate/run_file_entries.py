"""Checkpoints and variants of a run file: short forms spelt out, patterns matched, paths absolute."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.corpus.shape import shorten
from engine.encoders.influence import open_influence
from engine.encoders.preprocess import parse_preprocess
from engine.encoders.registry import FILE_FAMILIES, check_family, parse_spec
from engine.encoders.scorer import PUBLISHED_SHORTLISTS
from engine.errors import InputError
from engine.evaluate.names import safe_name
from engine.evaluate.run_file_checks import RELATIVE
from engine.evaluate.run_options import CheckpointEntry, CheckpointSpec, RunDocument, VariantEntry
from engine.evaluate.sets import direction_of
from engine.evaluate.stages.reranking import parse_k_test
from engine.evaluate.yaml_document import Document, Place
from engine.variants.influence import bind_influence
from engine.variants.registry import Family, make_variant, spec_parts, variant_families
from engine.variants.variant import Variant

OPEN_CLIP = "open_clip"
LOCAL_DIR = "local-dir"
BETWEEN_PATHS = re.compile("([,=+])")
DIGITS = re.compile(r"(\d+)")
PATTERN = re.compile(r"[*?[]")


# ---------------------------------------------------------------- checkpoints


@dataclass(frozen=True)
class ModelSpec:
    """The parts of a model's spec: before its path, the path (a tag, or several with ``+``), what follows."""

    before: str
    path: str
    after: str

    @classmethod
    def of(cls, model: str, folder: Path) -> ModelSpec:
        """The parts of a spec. Raises `InputError` when it is none.

        The checkpoint is named last where the family says so, or something of that name is there.
        """
        family, name, weights = parse_spec(model)
        if weights is None:
            return cls(model, "", "") if family == OPEN_CLIP else cls(f"{family}:", name, "")
        is_last = is_there(folder, weights) or PATTERN.search(weights) is not None
        if family == OPEN_CLIP or (family not in FILE_FAMILIES and is_last):
            return cls(f"{family}:{name}:", weights, "")
        return cls(f"{family}:", name, weights)

    @property
    def family(self) -> str:
        """The model family."""
        return self.before.partition(":")[0]

    @property
    def wants_folder(self) -> bool:
        """Whether the path is a folder."""
        return self.before == f"{OPEN_CLIP}:{LOCAL_DIR}:"

    def is_pattern(self, folder: Path) -> bool:
        """Whether the path stands for several; a file whose name looks like a pattern does not."""
        return PATTERN.search(self.path) is not None and not is_there(folder, self.path)

    def matches(self, folder: Path) -> list[Path]:
        """What the pattern stands for, absolute, in natural order (``epoch_9`` before ``epoch_10``)."""
        # Path.glob takes no absolute pattern
        names = glob.glob(str(at_home(self.path)), root_dir=folder, recursive=True)  # noqa: PTH207
        found = (folder / one for one in names)
        if self.family == OPEN_CLIP:
            found = (one for one in found if one.is_dir() == self.wants_folder)
        return sorted(found, key=lambda one: natural(str(one)))

    def missing(self, folder: Path) -> str | None:
        """The part of the path that should be there and is not; None when nothing is known to be missing."""
        if not self.path or is_there(folder, self.path):
            return None
        if self.family == OPEN_CLIP:  # no published tag has a slash or a point
            is_tag = not (self.wants_folder or "/" in self.path or "." in self.path)
            return None if is_tag else self.path
        parts = self.path.split("+") if self.family in FILE_FAMILIES else ()
        return next((one for one in parts if not is_there(folder, one)), None)

    def with_path(self, path: str, folder: Path) -> str:
        """The spec with another path, and with the paths that follow absolute."""
        after = f":{absolute(self.after, folder)}" if self.after else ""
        return f"{self.before}{path}{after}"


def absolute(text: str, folder: Path) -> str:
    """A path below the folder where that is there, or each of several with ``+``, ``=`` and ``,`` between."""
    parts = [text] if is_there(folder, text) else BETWEEN_PATHS.split(text)
    return "".join(str(under(folder, one)) if is_there(folder, one) else one for one in parts)


def under(folder: Path, text: str) -> Path:
    """A path that is relative to a folder, absolute, or of the user's home (``~``)."""
    return folder / at_home(text)


def at_home(text: str) -> Path:
    """A path, ``~`` replaced by the user's home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # ``~name`` of nobody
        return Path(text)


def is_there(folder: Path, text: str) -> bool:
    """Whether a text names a file or folder; most texts in a spec do not."""
    try:
        return bool(text) and under(folder, text).exists()
    except OSError:  # such as a name that is too long to be one
        return False


def bare_name(path: Path) -> str:
    """A folder's name, a file's without its ending."""
    return path.name if path.is_dir() else path.stem


def natural(text: str) -> list[tuple[int, str]]:
    """A key that sorts numbers in a text by their value."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in DIGITS.split(text)]


def read_checkpoints(written: RunDocument, document: Document, folder: Path) -> tuple[CheckpointSpec, ...]:
    """One `CheckpointSpec` a checkpoint, named, with absolute paths.

    Raises `InputError` for what is no spec, an unknown family, preprocessing or path, a pattern that matches
    nothing, and checkpoints that would have the same files.
    """
    found: list[CheckpointSpec] = []
    seen: dict[str, str] = {}
    for place, one in checkpoints_of(written, document, folder):
        file = safe_name(one.label).casefold()
        if file in seen:
            raise document.error(
                place, f"has the name {one.label!r}, as {seen[file]!r} before; give each a name of its own"
            )
        seen[file] = one.label
        found.append(one)
    return tuple(found)


def checkpoints_of(
    written: RunDocument, document: Document, folder: Path
) -> Iterator[tuple[Place, CheckpointSpec]]:
    """The checkpoints of every entry, with the entry's place."""
    for number, entry in enumerate(written.checkpoints):
        place: Place = ("checkpoints", number)
        with document.placing(place):
            if entry.preprocess is not None:
                parse_preprocess(entry.preprocess)
            if entry.rerank is not None:
                parse_k_test(str(entry.rerank), PUBLISHED_SHORTLISTS)
            models = [named for model in entry.model for named in models_of(model, folder)]
        if entry.name is not None and len(models) > 1:
            raise document.error((*place, "name"), f"is one name for {len(models)} checkpoints; leave it out")
        for model, name in models:
            yield place, spec_of(entry, model, name)


def spec_of(entry: CheckpointEntry, model: str, name: str) -> CheckpointSpec:
    """One checkpoint of an entry; `name` is what it is called where the entry does not say."""
    spec = CheckpointSpec(model=model, name=entry.name or name, preprocess=entry.preprocess)
    if entry.rerank is None:
        return spec
    shown = entry.name or f"{name}, reranked"
    return spec.model_copy(update={"name": shown, "store": spec.name, "rerank": str(entry.rerank)})


def models_of(model: str, folder: Path) -> list[tuple[str, str]]:
    """(spec with absolute paths, name) of every checkpoint that a written spec stands for."""
    spec = ModelSpec.of(model, folder)
    check_family(spec.family)
    if spec.is_pattern(folder):
        paths = spec.matches(folder)
        if not paths:
            what = "folder" if spec.wants_folder else "file"
            raise InputError(f"{shorten(repr(spec.path), 200)} matches no {what}; {RELATIVE}")
        return [
            (spec.with_path(str(path), folder), name) for path, name in zip(paths, apart(paths), strict=True)
        ]
    missing = spec.missing(folder)
    if missing is not None:
        raise InputError(f"{shorten(repr(missing), 200)} is not there; {RELATIVE}")
    name = bare_name(under(folder, spec.path)) if is_there(folder, spec.path) else model
    return [(spec.with_path(absolute(spec.path, folder), folder), name)]


def apart(paths: Sequence[Path]) -> list[str]:
    """Names of paths: the bare ones, or what tells them apart below the folder that they share."""
    names = [bare_name(path) for path in paths]
    if len(set(names)) == len(names):
        return names
    shared = os.path.commonpath([path.parent for path in paths])
    return [(path.parent / bare_name(path)).relative_to(shared).as_posix() for path in paths]


# ---------------------------------------------------------------- variants


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


def takes_seed(spec: str) -> bool:
    """Whether a variant takes a seed that its spec does not name."""
    family = variant_families().get(spec.partition(":")[0])
    has_seed = family is not None and any(parameter.name == "seed" for parameter in family.parameters)
    return has_seed and ":seed=" not in spec


def with_seed(spec: str, seed: int) -> str:
    """A spec with the seed, where it takes one and does not name it."""
    return f"{spec}:seed={seed}" if takes_seed(spec) else spec
