"""The checkpoints of a run file: one spec each, named, with absolute paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.encoders.preprocess import parse_preprocess
from engine.encoders.scorer import PUBLISHED_SHORTLISTS
from engine.encoders.scorer_registry import check_reranker
from engine.evaluate.names import safe_name
from engine.evaluate.stages.reranking import parse_k_test
from engine.sweeps.run_file.model_paths import models_of
from engine.sweeps.run_file.options import CheckpointEntry, CheckpointSpec, RunDocument
from engine.sweeps.run_file.yaml_document import Document, Place


def read_checkpoints(written: RunDocument, document: Document, folder: Path) -> tuple[CheckpointSpec, ...]:
    """One `CheckpointSpec` a checkpoint, named, with absolute paths.

    Raises `InputError` for what is no spec, an unknown family, preprocessing or path, a pattern that matches
    nothing, and checkpoints that would have the same files; a store is shared by those whose embeddings are
    the same.
    """
    found: list[CheckpointSpec] = []
    seen: dict[str, str] = {}
    stores: dict[str, CheckpointSpec] = {}
    for place, one in checkpoints_of(written, document, folder):
        file = safe_name(one.label).casefold()
        if file in seen:
            raise document.error(
                place, f"has the name {one.label!r}, as {seen[file]!r} before; give each a name of its own"
            )
        first = stores.setdefault(safe_name(one.store_label).casefold(), one)
        if (first.model, first.preprocess) != (one.model, one.preprocess):
            raise document.error(
                place,
                f"has the store {one.store_label!r}, as {first.label!r} before, which is of another model or "
                "preprocessing; give each a name of its own",
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
            for model, _ in models if entry.rerank is not None else ():
                check_reranker(model)
        if entry.name is not None and len(models) > 1:
            raise document.error((*place, "name"), f"is one name for {len(models)} checkpoints; leave it out")
        for model, name in models:
            yield place, spec_of(entry, model, name)


def spec_of(entry: CheckpointEntry, model: str, name: str) -> CheckpointSpec:
    """One checkpoint of an entry; `name` is what it is called where the entry does not say."""
    spec = CheckpointSpec(model=model, name=entry.name or name, preprocess=entry.preprocess)
    if entry.rerank is None:
        return spec
    k_test = parse_k_test(str(entry.rerank), PUBLISHED_SHORTLISTS)
    shown = entry.name or f"{name}, reranked {k_test}"
    return spec.model_copy(update={"name": shown, "store": spec.name, "rerank": str(entry.rerank)})
