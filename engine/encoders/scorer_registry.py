"""Models that score pairs, and how a spec string becomes one."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from engine.encoders.encoder import Encoder
from engine.encoders.registry import model_families, open_encoder, parse_spec, scores_pairs
from engine.encoders.request import DEFAULT_BATCH_SIZE, PRECISIONS, EncoderRequest
from engine.encoders.scorer import PairScorer, Reranker
from engine.errors import InputError, unknown_name

RERANKER_PARTS = ("image_states", "text_states", "score_pairs", "join", "shortlist")


def open_pair_scorer(
    spec: str, *, device: str = "auto", precision: str = "fp32", batch_size: int = DEFAULT_BATCH_SIZE
) -> PairScorer:
    """The pair scorer of a spec ``family:PATH[:options]``; options as in `open_encoder`.

    Raises `InputError` for a spec that is not one, an unknown family or precision, and for whatever the
    family cannot open.
    """
    family, name, weights = parse_spec(spec)
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)
    if not scores_pairs(spec):
        scorers = [one.name for one in model_families().values() if one.scores_pairs]
        raise unknown_name("family of pair scorers", family, scorers)
    request = EncoderRequest(family, name, weights, device, precision, batch_size)
    return cast(PairScorer, import_module(model_families()[family].module).open_scorer(request))


def open_model(
    spec: str,
    *,
    device: str = "auto",
    precision: str = "fp32",
    batch_size: int = DEFAULT_BATCH_SIZE,
    preprocess: str | None = None,
) -> Encoder | PairScorer:
    """Whatever fills a store: the pair scorer of a spec whose family is one of them, else the encoder.

    Options and errors as in `open_encoder`; `preprocess` is an error for a pair scorer.
    """
    if not scores_pairs(spec):
        return open_encoder(
            spec, device=device, precision=precision, batch_size=batch_size, preprocess=preprocess
        )
    if preprocess is not None:
        raise InputError(f"{spec}: has no image preprocessing; leave out --preprocess")
    return open_pair_scorer(spec, device=device, precision=precision, batch_size=batch_size)


def open_reranker(
    spec: str, *, device: str = "auto", precision: str = "fp32", batch_size: int = DEFAULT_BATCH_SIZE
) -> Reranker:
    """The encoder of a spec, which has a matching head; options as in `open_encoder`.

    Raises `InputError` as `open_encoder` does, and for a model without such a head.
    """
    check_reranker(spec)
    encoder = open_encoder(spec, device=device, precision=precision, batch_size=batch_size)
    if not all(hasattr(encoder, part) for part in RERANKER_PARTS):
        raise no_matching_head(spec)
    return cast(Reranker, encoder)


def check_reranker(spec: str) -> None:
    """Raise `InputError` for a family of our own whose models have no matching head; nothing is opened."""
    family = model_families().get(parse_spec(spec)[0])
    if family is not None and not family.has_matching_head:
        raise no_matching_head(spec)


def no_matching_head(spec: str) -> InputError:
    """The error for a model that cannot rerank."""
    return InputError(
        f"{spec}: has no matching head that could score a shortlist; expected a model such as "
        "blip:PATH or albef:PATH"
    )
