"""A small corpus, its header and plans, and a slow oracle of what a store should hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import engine.store.writer
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.store import SetPlan, StoreHeader, VariantRecord, original_plans

DIM = 6


def make_unit_rows(rows: int, dim: int = DIM, seed: int = 0) -> np.ndarray:
    table = np.random.default_rng(seed).standard_normal((rows, dim))
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


def make_corpus(images: int = 7, captions: int = 19) -> Corpus:
    return Corpus(
        name="small",
        images=tuple(ImageItem(f"i{row}", f"folder/ä {row}.png") for row in range(images)),
        captions=tuple(
            Caption(f"c{row}", f"caption ✓ {row // 2}\n", row % images) for row in range(captions)
        ),
    )


def make_variant_plan(corpus: Corpus, name: str = "swap:seed=1.5", rows: int = 11) -> SetPlan:
    return SetPlan(
        modality="captions",
        name=name,
        ids=tuple(f"c{row}@{name}" for row in range(rows)),
        source=np.arange(rows, dtype=np.int64),
        content=tuple(f"other {row}" for row in range(rows)),
        variant=VariantRecord(name, "gallery", "captions", 10 / rows, {11: "no noun", 12: "no noun"}),
        change=tuple(f'{{"row":{row}}}' for row in range(rows)),
        changed=np.arange(rows) > 0,
    )


def make_header(corpus: Corpus, **changes: object) -> StoreHeader:
    fields = {
        "encoder_spec": "fake:model",
        "encoder_fingerprint": "ab" * 32,
        "dim": DIM,
        "corpus_name": corpus.name,
        "corpus_fingerprint": corpus.fingerprint,
        "normalisation": corpus.normalisation,
    }
    return StoreHeader(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk():
    """A kill leaves the system's cache as it is, so waiting for the disk shows nothing and takes long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.store.writer, "flush", lambda file: None)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return make_corpus()


@pytest.fixture(scope="session")
def unit_rows() -> Callable[..., np.ndarray]:
    return make_unit_rows


@pytest.fixture(scope="session")
def small(corpus: Corpus) -> SimpleNamespace:
    images, captions = original_plans(corpus)
    return SimpleNamespace(
        corpus=corpus,
        header=make_header(corpus),
        with_header=lambda **changes: make_header(corpus, **changes),
        images=images,
        captions=captions,
        variant=make_variant_plan(corpus),
        with_variant=lambda **changes: make_variant_plan(corpus, **changes),
        plans=[images, captions, make_variant_plan(corpus)],
    )
