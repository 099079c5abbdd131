"""What a result says of where it comes from: the store, the packages, the machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.results import Provenance, SetRecord, join_words
from engine.evaluate.sets import sets_of
from engine.packages import package_versions
from engine.path_text import path_text, storable
from engine.store.reader import SetInfo

SEED = re.compile(r"(?:^|:)seed=(\d+)(?=:|$)")


def seeds_of(variants: Iterable[str]) -> dict[str, int]:
    """The seed that a variant's canonical name holds, by name; names without one are left out."""
    found = ((name, SEED.search(name)) for name in variants)
    return {name: int(match.group(1)) for name, match in found if match}


def set_records(stores: Iterable[AnySets], variants: Sequence[str | None]) -> list[SetRecord]:
    """What the results say of the originals' sets and those of the variants, each once."""
    records = [
        set_record(info, "index " if isinstance(one, IndexedSets) and one.is_of_index(info) else "")
        for one in stores
        for info in sets_of(one, variants)
    ]
    return list({(one.modality, one.name): one for one in records}.values())


def set_record(info: SetInfo, prefix: str = "") -> SetRecord:
    """What the results say of a set; the prefix tells it from a set of the store."""
    return SetRecord(
        modality=info.modality,
        name=f"{prefix}{info.name}",
        rows=info.rows,
        skipped=info.skipped,
        content_key=info.content_key,
        made=dict(info.made),
    )


def store_files(stores: Iterable[AnySets]) -> tuple[str, ...]:
    """Where the sets lie: absolute paths of stores and of an index' galleries, each once."""
    found = [
        path
        for one in stores
        for path in ((one.path, one.gallery.path) if isinstance(one, IndexedSets) else (one.path,))
    ]
    return tuple(dict.fromkeys(path_text(path.absolute()) for path in found))


def provenance(
    searched: Sequence[AnySets],
    sets: Iterable[SetRecord],
    *,
    checkpoint: str,
    command: Sequence[str],
    config: Mapping[str, Any],
    seeds: Mapping[str, int],
    searched_by: Iterable[tuple[str, str]],
) -> Provenance:
    """The provenance of results from a store, made now.

    `searched` are its sets in every direction, `sets` what took part of them, `searched_by` names and devices
    of backends.
    """
    header = searched[0].header
    backends = sorted(searched_by)
    return Provenance(
        checkpoint=checkpoint,
        command=tuple(command),
        config=storable(dict(config)),
        seeds=dict(seeds),
        encoder_spec=header.encoder_spec,
        encoder_fingerprint=header.encoder_fingerprint,
        dim=header.dim,
        corpus_name=header.corpus_name,
        corpus_fingerprint=header.corpus_fingerprint,
        normalisation=header.normalisation,
        sets=tuple(sets),
        stores=store_files(searched),
        versions=package_versions(),
        backend=join_words(name for name, _ in backends),
        search_device=join_words(device for _, device in backends),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
