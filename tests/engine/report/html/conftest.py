"""Results as the report reads them, with stores, image files and outcomes; the captions try to be HTML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.evaluate.bootstrap import Resampling
from engine.evaluate.distractors import DistractorChoice
from engine.evaluate.names import safe_name
from engine.evaluate.results import write_results
from engine.evaluate.run import evaluate_store
from engine.store.reader import open_store
from engine.store.schema import SetPlan, StoreHeader, VariantRecord
from engine.store.writer import open_writer

DIM = 16
HOSTILE = (
    "<script>document.title = 'owned'</script> a dog",
    "</script><script>document.title = 'owned'</script> a cat",
    "<img src=x onerror=\"document.title = 'owned'\"> & \u2028 'two' \"birds\"",
    "{{ 7 * 7 }} <!-- a <b>bold</b> horse",
)
WORDS = ("dog", "cat", "bird", "horse")


@dataclass(frozen=True)
class Study:
    """A sweep's folder: `results`, `stores`, `images`."""

    folder: Path

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def images(self) -> Path:
        return self.folder / "images"

    def store(self, checkpoint: str) -> Path:
        return self.folder / "stores" / f"{safe_name(checkpoint)}.h5"


def unit(rows: Any) -> Any:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def caption(number: int) -> str:
    return f"{HOSTILE[number % len(HOSTILE)]} number {number}"


def draw_images(folder: Path, count: int) -> tuple[list[str], list[str]]:
    """Files with a gradient and noise, as large as photographs are when they are small; names and digests."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    names, digests = [], []
    for number in range(count):
        across = np.linspace(0, 255, 300)[None, :, None] * generator.uniform(0.2, 1, 3)
        pixels = across + generator.normal(0, 25, (200, 300, 3))
        name = f"{number:03}.jpg"
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / name, quality=85)
        names.append(name)
        digests.append(hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return names, digests


def recipe(level: float, row: int, names: list[str]) -> str:
    other = (row + 1) % len(names)
    return json.dumps(
        {
            "kind": "mix",
            "level": str(level),
            "original": {"row": row, "id": names[row]},
            "fake": {"row": other, "id": names[other]},
        }
    )


def plans_of(
    names: list[str],
    digests: list[str] | None,
    captions: int,
    levels: tuple[float, ...],
    families: tuple[str, ...],
    tail: str,
    reencoded: bool,
) -> list[SetPlan]:
    """The originals, variants of captions and of images, and one of queries."""
    images, rows = len(names), np.arange(captions * len(names))
    texts = [caption(number) + tail for number in rows]
    ids = [f"{names[number // captions]}#{number % captions}" for number in rows]
    changed = np.ones(len(rows), dtype=np.bool_)
    plans = [
        SetPlan("images", "original", names, np.arange(images), names, content_digest=digests),
        SetPlan("captions", "original", ids, rows, texts, image=rows // captions),
    ]
    for name, side in (*((one, "gallery") for one in families), ("typo:seed=0", "query")):
        change = [
            json.dumps({"word": WORDS[number % 4], "target": f"<i>kettle</i>{number % 3}", "position": 3})
            for number in rows
        ]
        contents = [
            text.replace(WORDS[number % 4], f"<i>kettle</i>{number % 3}") for number, text in enumerate(texts)
        ]
        record = VariantRecord(name, side, "captions", 1.0, {})  # type: ignore[arg-type]
        plans.append(
            SetPlan(
                "captions",
                name,
                [f"{one}@{name}" for one in ids],
                rows,
                contents,
                variant=record,
                change=change,
                changed=changed,
            )
        )
    mixed = {f"mix:{level}:seed=0": level for level in levels} | ({"reencode": 1.0} if reencoded else {})
    for name, level in mixed.items():
        recipes = [recipe(level, row, names) for row in range(images)]
        plans.append(
            SetPlan(
                "images",
                name,
                [f"{one}@{name}" for one in names],
                np.arange(images),
                recipes,
                variant=VariantRecord(name, "gallery", "images", 1.0, {}),
                change=recipes,
                changed=np.ones(images, dtype=np.bool_),
            )
        )
    return plans


def write_study(
    folder: Path,
    *,
    checkpoints: tuple[str, ...] = ("step-9", "step-10"),
    images: int = 12,
    captions: int = 2,
    levels: tuple[float, ...] = (0.9, 0.8),
    families: tuple[str, ...] = ("same_concept:seed=0",),
    resamples: int = 50,
    distractors: tuple[int, ...] = (0,),
    tied: bool = False,
    tail: str = "",
    digested: bool = True,
    reencoded: bool = False,
    normalisation: str = "raw",
) -> Study:
    """Evaluate made-up checkpoints that get better, as a sweep does, and keep what it would.

    With `tied` all rows are the same; `tail` ends every caption; without `digested` the stores keep no
    digests of the images; `reencoded` adds the control of that name.
    """
    study = Study(folder)
    names, digests = draw_images(study.images, images)
    plans = plans_of(names, digests if digested else None, captions, levels, families, tail, reencoded)
    (folder / "stores").mkdir()
    for number, checkpoint in enumerate(checkpoints):
        generator = np.random.default_rng(number)
        noise = 1.2 / (1 + number)
        base = np.random.default_rng(100).normal(size=(images, DIM))
        texts = base[np.arange(images * captions) // captions] + noise * generator.normal(
            size=(images * captions, DIM)
        )
        texts_of = {"raw": "c", "pre_caption": "d"}[normalisation] * 64
        header = StoreHeader(
            f"fake:{checkpoint}", f"{number:064}", DIM, "toy <corpus>", texts_of, normalisation
        )
        with open_writer(study.store(checkpoint), header, plans) as writer:
            for plan in plans:
                origin = base if plan.modality == "images" else texts
                rows = origin + (0.4 if plan.name != "original" else 0) * generator.normal(size=origin.shape)
                rows = np.ones_like(rows) if tied else rows
                writer.write(plan.modality, plan.name, np.arange(plan.rows), unit(rows))
        if max(distractors):
            add_crowds(study.store(checkpoint), max(distractors))
        out = study.results / safe_name(checkpoint)
        out.mkdir(parents=True)
        with open_store(study.store(checkpoint)) as store:
            found = evaluate_store(
                store,
                outcomes=out,
                checkpoint=checkpoint,
                resampling=Resampling(resamples, 0),
                distractors=DistractorChoice(distractors),
            )
        config = {"corpus": {"images": str(study.images)}}
        provenance = found.provenance.model_copy(update={"config": {**found.provenance.config, **config}})
        write_results(found.model_copy(update={"provenance": provenance}), out / "results.json")
    return study


def add_crowds(store: Path, rows: int) -> None:
    from engine.cli.main import run

    for modality in ("captions", "images"):
        like = ["--like", f"{modality}/original", "--name", f"crowd-{modality}"]
        assert run(["distractors", "synthesize", str(store), "--rows", str(rows), *like]) == 0


@pytest.fixture(scope="session")
def make_study(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Study]:
    """`write_study` into a new folder."""
    return lambda **options: write_study(tmp_path_factory.mktemp("study"), **options)


@pytest.fixture(scope="session")
def study(make_study: Callable[..., Study]) -> Study:
    """Two checkpoints, three variants; nothing in it is changed."""
    return make_study()
