"""Results for other programs: all runs as one flat table, and CLIP_benchmark's result files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.evaluate.collection import FoundRun, seed_of, seedless
from engine.evaluate.metrics import CUTOFFS, RECALL
from engine.evaluate.names import safe_name
from engine.evaluate.results import Direction
from engine.report.grid import Record, Scalar, Section
from engine.stopwatch import TOTAL

# direction -> what CLIP_benchmark calls it: named by what is retrieved
RETRIEVED: Mapping[Direction, str] = {"i2t": "text_retrieval", "t2i": "image_retrieval"}
TASK, LANGUAGE = "zeroshot_retrieval", "en"


@dataclass(frozen=True)
class RunTable:
    """An `engine.report.grid.Report` of single runs, nothing averaged: one record a run, plain columns."""

    found: tuple[FoundRun, ...]

    def sections(self) -> Sequence[Section]:
        """The first columns of every run."""
        headers = ("checkpoint", "direction", "variant", "recall@1")
        rows = tuple(
            (one.checkpoint, one.run.direction, one.run.variant or "", f"{one.run.metrics[RECALL[1]]:.2f}")
            for one in self.found
        )
        return [Section("runs", 3, headers, rows)]

    def records(self) -> Sequence[Record]:
        """Everything a run has that is a number or a name; the same keys in all."""
        metric_names = list(dict.fromkeys(name for one in self.found for name in one.run.metrics))
        base_names = list(dict.fromkeys(name for one in self.found for name in one.run.base or ()))
        return [run_record(one, metric_names, base_names) for one in self.found]


def run_record(one: FoundRun, metric_names: Sequence[str], base_names: Sequence[str]) -> Record:
    """The record of a run."""
    run, source = one.run, one.provenance
    numbers: dict[str, Scalar] = {}
    for name in metric_names:
        low, high = run.intervals.get(name, (None, None))
        numbers |= {name: run.metrics.get(name), f"{name}_low": low, f"{name}_high": high}
    return {
        "checkpoint": one.checkpoint,
        "encoder_spec": source.encoder_spec,
        "encoder_fingerprint": source.encoder_fingerprint,
        "corpus": source.corpus_name,
        "corpus_fingerprint": source.corpus_fingerprint,
        "normalisation": source.normalisation,
        "direction": run.direction,
        "variant": run.variant,
        "variant_without_seed": seedless(run.variant),
        "seed": seed_of(run.variant),
        "side": run.side,
        "ties": run.ties,
        "queries": run.queries,
        "originals": run.gallery.get("original", 0),
        "adversarials": run.gallery.get("adversarial", 0),
        "distractors": run.gallery.get("distractor", 0),
        **{f"base_{name}": (run.base or {}).get(name) for name in base_names},
        **numbers,
        "seconds": run.timings.get(TOTAL),
        "created": source.created,
        "file": str(one.file),
    }


def clip_benchmark_files(found: Sequence[FoundRun]) -> dict[str, str]:
    """File name -> JSON text, one a checkpoint, of clean retrieval in CLIP_benchmark's layout.

    Recalls are shares in [0, 1], named by what is retrieved: ``image_retrieval_recall@5`` is t2i. Model and
    pretrained are those of an open_clip spec, else the encoder's spec and the checkpoint's name. Raises
    `InputError` when there is no run without variant.
    """
    metrics: dict[str, dict[str, float]] = {}
    named: dict[str, FoundRun] = {}
    for one in found:
        if one.run.variant is None and not one.run.gallery.get("distractor"):
            named[one.checkpoint] = one
            metrics.setdefault(one.checkpoint, {}).update(retrieval_recalls(one))
    if not named:
        raise InputError("there is no run without variant, and CLIP_benchmark knows no other; evaluate one")
    documents = {name: clip_benchmark_document(one, metrics[name]) for name, one in named.items()}
    return {
        f"benchmark_{safe_name(name)}_{LANGUAGE}_{TASK}.json": json.dumps(document) + "\n"
        for name, document in documents.items()
    }


def retrieval_recalls(one: FoundRun) -> dict[str, float]:
    """The recalls of a run under CLIP_benchmark's names."""
    values = {k: one.run.metrics[RECALL[k]] or 0.0 for k in CUTOFFS}
    return {f"{RETRIEVED[one.run.direction]}_recall@{k}": value / 100 for k, value in values.items()}


def clip_benchmark_document(one: FoundRun, metrics: Mapping[str, float]) -> Mapping[str, Any]:
    """What CLIP_benchmark writes for one evaluation."""
    family, _, rest = one.provenance.encoder_spec.partition(":")
    model, _, pretrained = rest.partition(":")
    is_open_clip = family == "open_clip" and model and pretrained
    return {
        "dataset": one.provenance.corpus_name,
        "model": model if is_open_clip else one.provenance.encoder_spec,
        "pretrained": pretrained if is_open_clip else one.checkpoint,
        "task": TASK,
        "metrics": dict(metrics),
        "language": LANGUAGE,
    }


def write_texts(files: Mapping[str, str], folder: Path) -> None:
    """Write the files into a folder that is there."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
