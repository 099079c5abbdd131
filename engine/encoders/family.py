"""What is known of a family of models before its code is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.encoders.request import EncoderRequest

IMAGES, REGIONS = "images", "region features"


@dataclass(frozen=True)
class FamilyFacts:
    """For people who choose: the forms of a family's specs, what it reads, what it scores with, which models
    it is for, and what the options of its specs are, as ``key=VALUE`` (`engine.encoders.catalogue`)."""

    forms: tuple[str, ...]
    reads: str
    scores: str
    models: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NeededFile:
    """A file: what it is, where it is or is looked for, and whether it is there."""

    what: str
    where: str
    there: bool


@dataclass(frozen=True)
class Family:
    """A family of our own.

    `module` is imported when a model is opened; it has `open_family` (`engine.encoders.registry.OpenFamily`),
    `open_scorer` where the family `scores_pairs`, and perhaps `check_request`. `needed_files` looks for a
    model's files, reads none of them, and raises `InputError` for a spec that names none. Where the family
    `names_files`, its specs are ``family:PATH[:options]``, and `options` are the keys that it knows, of those
    in `engine.encoders.options`. `has_matching_head` says that its encoders can rerank. `signature` are keys
    that only checkpoints of the family have, under any prefix of DataParallel.
    """

    name: str
    module: str
    facts: FamilyFacts
    needed_files: Callable[[EncoderRequest], list[NeededFile]]
    names_files: bool = False
    options: tuple[str, ...] = ()
    scores_pairs: bool = False
    has_matching_head: bool = False
    signature: tuple[str, ...] = ()
