"""What a result says of where it comes from: the store, the packages, the machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from engine.evaluate.results import Provenance, SetRecord, join_words
from engine.packages import package_versions
from engine.path_text import storable
from engine.store.reader import SetInfo, Store

SEED = re.compile(r"(?:^|:)seed=(\d+)(?=:|$)")


def seeds_of(variants: Iterable[str]) -> dict[str, int]:
    """The seed that a variant's canonical name holds, by name; names without one are left out."""
    found = ((name, SEED.search(name)) for name in variants)
    return {name: int(match.group(1)) for name, match in found if match}


def set_record(info: SetInfo) -> SetRecord:
    """What the results say of a set."""
    return SetRecord(
        modality=info.modality,
        name=info.name,
        rows=info.rows,
        skipped=info.skipped,
        content_key=info.content_key,
        made=dict(info.made),
    )


def provenance(
    store: Store,
    sets: Sequence[SetInfo],
    *,
    checkpoint: str,
    command: Sequence[str],
    config: Mapping[str, Any],
    seeds: Mapping[str, int],
    searched_by: Iterable[tuple[str, str]],
    more_sets: Iterable[SetRecord] = (),
) -> Provenance:
    """The provenance of results from a store, made now.

    `searched_by` are names and devices of backends, `more_sets` those that took part beside the store's.
    """
    header = store.header
    searched = sorted(searched_by)
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
        sets=(*(set_record(info) for info in sets), *more_sets),
        versions=package_versions(),
        backend=join_words(name for name, _ in searched),
        search_device=join_words(device for _, device in searched),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
