"""Small stores for the tests of evaluation: in memory for many examples, as files for the commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.errors import InputError
from engine.store.reader import EmbeddingSet, SetInfo
from engine.store.schema import COMPLETE, SKIPPED, SetPlan, StoreHeader, VariantRecord
from engine.store.writer import open_writer
from indexes.sources import ArrayRows

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class VariantPart:
    """A variant of a world: what its items are made from, their vectors, and which differ."""

    name: str
    modality: str
    source: Sequence[int]
    vectors: Vectors
    changed: Sequence[bool]
    side: str = "gallery"

    @property
    def record(self) -> VariantRecord:
        return VariantRecord(self.name, self.side, self.modality, float(np.mean(self.changed)), {})  # type: ignore[arg-type]


@dataclass(frozen=True)
class World:
    """Images and captions as vectors; `image_of_caption` says what a caption describes."""

    images: Vectors
    captions: Vectors
    image_of_caption: Sequence[int]
    variants: Sequence[VariantPart] = ()
    skipped_images: Sequence[int] = ()
    encoder: str = "fake:encoder"
    dtype: str = "float32"
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def header(self) -> StoreHeader:
        return StoreHeader(
            self.encoder,
            "e" * 64,
            self.images.shape[1],
            "toy",
            "c" * 64,
            "raw",
            dtype=self.dtype,  # type: ignore[arg-type]
        )

    def plans(self) -> list[tuple[SetPlan, Vectors]]:
        images = SetPlan(
            "images",
            "original",
            [f"image {i}" for i in range(len(self.images))],
            np.arange(len(self.images)),
            [f"{i}.jpg" for i in range(len(self.images))],
        )
        captions = SetPlan(
            "captions",
            "original",
            [f"caption {i}" for i in range(len(self.captions))],
            np.arange(len(self.captions)),
            [f"text {i}" for i in range(len(self.captions))],
            image=np.array(self.image_of_caption, dtype=np.int64),
        )
        variants = [
            SetPlan(
                part.modality,  # type: ignore[arg-type]
                part.name,
                [f"{part.name} {i}" for i in range(len(part.source))],
                np.array(part.source, dtype=np.int64),
                [f"content {i}" for i in range(len(part.source))],
                variant=part.record,
                change=["{}"] * len(part.source),
                changed=np.array(part.changed, dtype=np.bool_),
            )
            for part in self.variants
        ]
        vectors = [self.images, self.captions, *(part.vectors for part in self.variants)]
        return list(zip([images, captions, *variants], vectors, strict=True))


class MemoryStore:
    """The part of `engine.store.reader.Store` that evaluation uses, without a file."""

    def __init__(self, world: World) -> None:
        self.path = Path("memory.h5")
        self.header = world.header
        self._sets: dict[tuple[str, str], EmbeddingSet] = {}
        infos = []
        for plan, vectors in world.plans():
            state = np.full(plan.rows, COMPLETE, dtype=np.uint8)
            if (plan.modality, plan.name) == ("images", "original"):
                state[list(world.skipped_images)] = SKIPPED
            self._sets[plan.modality, plan.name] = EmbeddingSet(
                modality=plan.modality,
                name=plan.name,
                ids=tuple(plan.ids),
                source=plan.source,
                content=tuple(plan.content),
                content_digest=None,
                image=plan.image,
                variant=plan.variant,
                change=None,
                changed=plan.changed,
                state=state,
                reasons={},
                rows=ArrayRows(vectors),  # type: ignore[arg-type]
            )
            skipped = int(np.sum(state == SKIPPED))
            infos.append(
                SetInfo(
                    plan.modality,
                    plan.name,
                    plan.rows,
                    plan.rows - skipped,
                    skipped,
                    0,
                    plan.content_key(self.header.encoder_fingerprint),
                    plan.variant,
                )
            )
        self.sets = tuple(infos)

    def stored(self, modality: str, name: str) -> EmbeddingSet:
        if (modality, name) not in self._sets:
            raise InputError(f"{self.path} has no set {modality}/{name}")
        return self._sets[modality, name]

    load = stored


def write_store(world: World, path: Path) -> Path:
    """The world as a file."""
    plans = world.plans()
    with open_writer(path, world.header, [plan for plan, _ in plans]) as writer:
        for plan, vectors in plans:
            rows = np.arange(plan.rows)
            if (plan.modality, plan.name) == ("images", "original") and world.skipped_images:
                skipped = np.array(world.skipped_images, dtype=np.int64)
                writer.skip("images", "original", skipped, ["cut off"] * len(skipped))
                rows = np.setdiff1d(rows, skipped)
            writer.write(plan.modality, plan.name, rows, vectors[rows])
    return path


def unit(rows: NDArray[np.float64]) -> Vectors:
    """Rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def noisy_world(images: int = 12, seed: int = 0, encoder: str = "fake:encoder") -> World:
    """Captions near their images; a caption variant (a third unchanged), an image one, a query one."""
    generator = np.random.default_rng(seed)
    base = generator.normal(size=(images, 16))
    owner = np.repeat(np.arange(images), 2)
    captions = unit(base[owner] + 0.8 * generator.normal(size=(2 * images, 16)))
    changed = np.arange(2 * images) % 3 != 0
    moved = unit(captions + 0.25 * generator.normal(size=captions.shape))
    fakes = np.where(changed[:, None], moved, captions).astype(np.float32)
    mixed = unit(base + 0.3 * generator.normal(size=base.shape))
    return World(
        unit(base),
        captions,
        owner.tolist(),
        [
            VariantPart("swap:seed=7", "captions", list(range(2 * images)), fakes, changed.tolist()),
            VariantPart("mix:0.9:seed=1", "images", list(range(images)), mixed, [True] * images),
            VariantPart(
                "typo:seed=3", "captions", list(range(2 * images)), moved, [True] * (2 * images), "query"
            ),
        ],
        encoder=encoder,
    )


@pytest.fixture(scope="session")
def world_parts() -> tuple[type[World], type[VariantPart], type[MemoryStore]]:
    """The classes `World`, `VariantPart` and `MemoryStore`."""
    return World, VariantPart, MemoryStore


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """`noisy_world(images=, seed=, encoder=)`."""
    return noisy_world


@pytest.fixture
def store_file(tmp_path: Path) -> Path:
    """The noisy world as a store file."""
    return write_store(noisy_world(), tmp_path / "toy.h5")


@pytest.fixture(scope="session")
def store_writer() -> Callable[[World, Path], Path]:
    """`write_store(world, path)`."""
    return write_store
