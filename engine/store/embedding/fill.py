"""From a corpus and any model to a store: of embeddings, or of the scores of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from engine.corpus.corpus import Corpus
from engine.encoders.encoder import Encoder
from engine.encoders.scorer import PairScorer, is_pair_scorer
from engine.errors import InputError
from engine.store.embedding.embed import embed
from engine.store.embedding.report import EmbedReport
from engine.store.embedding.score import score
from engine.store.image_source import ImageSource
from engine.store.schema import MODALITIES
from engine.variants.variant import Modality, Variant


def fill_store(
    model: Encoder | PairScorer,
    corpus: Corpus,
    source: ImageSource,
    variants: Sequence[Variant],
    path: str | Path,
    *,
    modalities: Sequence[Modality] = MODALITIES,
    space: str = "",
    **options: Any,
) -> EmbedReport:
    """`embed` with an encoder, `score` with a pair scorer; `options` are those of both.

    Raises `InputError` also for one modality or a space with a pair scorer.
    """
    if not is_pair_scorer(model):
        options |= {"modalities": modalities, "space": space}
        return embed(cast(Encoder, model), corpus, source, variants, path, **options)
    if space or set(modalities) < set(MODALITIES):
        raise InputError(
            f"{model.spec}: scores captions with images and makes no vectors; leave out --only, --space and "
            "the index"
        )
    return score(model, corpus, source, variants, path, **options)
