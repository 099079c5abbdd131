"""Which sets of a store play a part in which direction, and what a run depends on.

A *gallery variant* adds its items to the gallery that the direction searches: captions to i2t, images to t2i.
A *query variant* replaces the queries of the direction that asks with its modality and leaves the gallery
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.errors import InputError, unknown_name
from engine.evaluate.collection import seedless
from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.results import (
    DIRECTIONS,
    GALLERY_MODALITY,
    QUERY_MODALITY,
    SCHEMA_VERSION,
    Direction,
    IndexUse,
)
from engine.store.reader import SetInfo
from engine.store.schema import ORIGINAL
from engine.variants.registry import make_variant, takes_seed, variant_families
from engine.variants.variant import Modality, Side


def direction_of(side: Side, modality: Modality) -> Direction:
    """The one direction in which a variant of such items plays a part."""
    place = GALLERY_MODALITY if side == "gallery" else QUERY_MODALITY
    return next(direction for direction in DIRECTIONS if place[direction] == modality)


def find_set(store: AnySets, modality: str, name: str) -> SetInfo:
    """What the store says of a set. Raises `InputError` naming the sets there are."""
    store.stored(modality, name)
    return next(info for info in store.sets if (info.modality, info.name) == (modality, name))


def variant_sets(store: AnySets, direction: Direction) -> dict[str, SetInfo]:
    """The variants that play a part in a direction, by name, in the order of the store."""
    return {
        info.name: info
        for info in store.sets
        if info.variant is not None and direction_of(info.variant.side, info.modality) == direction
    }


def check_variants(
    store: AnySets,
    variants: Sequence[str],
    directions: Sequence[Direction],
    searched: Mapping[Direction, AnySets] | None = None,
) -> None:
    """Raise `InputError` for a variant that the store does not hold, or that no asked direction searches.

    `searched` are the sets of a direction where they are not the store's alone.
    """
    known = {one: variant_sets((searched or {}).get(one, store), one) for one in DIRECTIONS}
    places = {name: direction for direction in DIRECTIONS for name in known[direction]}
    asked = {name for direction in directions for name in known[direction]}
    for name in variants:
        if name not in places:
            raise no_such_variant(store, name, list(places))
        if name not in asked:
            raise InputError(
                f"variant {name!r} only changes direction {places[name]}, and --direction is "
                f"{', '.join(directions)}; add the direction or leave the variant out"
            )


def canonical_name(spec: str, *stores: AnySets) -> str:
    """The name of the set that a variant's spec asks for: ``mix:0.9:seed=0`` for ``mix:0.9``.

    A spec that names no seed asks for the default one; where no store has that, for the only one there is.
    ``file:PATH`` asks for the variant in the file. The name of a set that one of the stores has, and what
    begins with no family's name, stay as they are. Raises `InputError` for a spec that is wrong.
    """
    names = {info.name for one in stores for info in one.sets}
    if spec in names or spec.partition(":")[0] not in variant_families():
        return spec
    name = make_variant(spec).name
    if name in names or not takes_seed(spec):
        return name
    other_seeds = [one for one in names if seedless(one) == seedless(name)]
    return other_seeds[0] if len(other_seeds) == 1 else name


def no_such_variant(store: AnySets, name: str, known: Sequence[str]) -> InputError:
    """The error for a variant that the store does not hold."""
    if not known:
        return InputError(
            f"{store.path} holds no variant {name!r}, it holds none; "
            f"add it with `itrstress embed --variant {name}`"
        )
    return InputError(f"{store.path}: {unknown_name('variant', name, known)}")


def run_key(
    store: AnySets, direction: Direction, variant: str | None, ties: str, distractors: str | None = None
) -> dict[str, str]:
    """What the outcome of a run depends on, part by part: equal parts give equal metrics and outcomes.

    The backend and the device are no parts: they cannot change a score or an order
    (`indexes/README.md`). `distractors` is what `engine.evaluate.distractors.Distractors.key` says. A run in
    a fixed index depends on all of the index, and has never the key of one in the store's own galleries.
    """
    infos = {
        "queries": find_set(store, QUERY_MODALITY[direction], ORIGINAL),
        "gallery": find_set(store, GALLERY_MODALITY[direction], ORIGINAL),
    }
    if variant is not None:
        infos["variant"] = variant_sets(store, direction)[variant]
    return {
        "schema": str(SCHEMA_VERSION),
        "direction": direction,
        "ties": ties,
        **(index_key(store.use) if isinstance(store, IndexedSets) else {}),
        "encoder": store.header.encoder_fingerprint,
        "corpus": store.header.corpus_fingerprint,
        "dtype": store.header.dtype,
        **({} if store.header.rows == "embeddings" else {"rows": store.header.rows}),
        **{part: set_key(info) for part, info in infos.items()},
        **({} if distractors is None else {"distractors": distractors}),
    }


def index_key(use: IndexUse) -> dict[str, str]:
    """What a run in a fixed index depends on beside its sets; that the spaces differ is part of it, so that a
    finished run that does not say so is never taken for one that does."""
    mismatch = {"spaces": f"queries of {use.query_space}, index of {use.space}"} if use.space_mismatch else {}
    return {"index": use.fingerprint, **mismatch}


def set_key(info: SetInfo) -> str:
    """The rows of a set that take part: its content key, and which of its rows were skipped."""
    skipped = f"{info.skipped} skipped"
    return f"{info.content_key}, {skipped}" + (f" ({info.skipped_digest[:12]})" if info.skipped else "")


def sets_of(store: AnySets, variants: Sequence[str | None]) -> list[SetInfo]:
    """The originals' sets and those of the variants, in the order of the store."""
    return [info for info in store.sets if info.name == ORIGINAL or info.name in variants]
