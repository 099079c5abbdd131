"""Encoders for the embedding influence of words: named, and opened when they are needed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.encoders.encoder import Encoder
from engine.encoders.registry import check_family, open_encoder, parse_spec
from engine.encoders.request import DEFAULT_BATCH_SIZE
from engine.encoders.spec_paths import without_folders
from engine.progress import Progress
from engine.variants.influence import Influence

_NEXT_MODEL = re.compile(r",(?=[\w+-]+:)")


def split_models(texts: Sequence[str]) -> tuple[str, ...]:
    """The specs in texts ``MODEL[,MODEL...]``; a comma inside a spec (options, a path) starts no new one.

    Raises `InputError` for what is no spec or of no known family, before anything is opened.
    """
    models = tuple(model for text in texts for model in _NEXT_MODEL.split(text))
    for model in models:
        check_family(parse_spec(model)[0])
    return models


def open_influence(
    models: Sequence[str],
    *,
    device: str = "auto",
    preprocess: Mapping[str, str | None] | None = None,
    progress: Progress | None = None,
) -> Influence:
    """The influence by the encoders of specs; none of them is opened yet.

    They run in float32 and in batches of one size, whatever the corpus is embedded with, so that equal words
    have equal influences. `preprocess` names the image preprocessing of the models that need one named.
    Raises `InputError` for a model that is there twice.
    """
    named = preprocess or {}

    def open_one(model: str) -> Encoder:
        return open_encoder(model, device=device, batch_size=DEFAULT_BATCH_SIZE, preprocess=named.get(model))

    return Influence(models, open_one, progress, without_folders)
