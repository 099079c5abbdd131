"""The run file of a sweep: YAML, validated, with every error naming line and key.

    checkpoints:                 # specs, or mappings with a model and a name
      - open_clip:ViT-B-32:openai
      - {model: "open_clip:ViT-B-32-quickgelu:epoch_9.pt", name: epoch 9, preprocess: openai}
      - {model: "open_clip:ViT-B-32-quickgelu:runs/*/epoch_*.pt", preprocess: openai}   # as many as there are
    corpus: {path: dataset_coco.json, images: val2014, split: test, normalisation: raw}
    variants: ["rococo:same_concept.json", {name: "mix:0.9", seeds: [1, 2, 3]}]
    directions: [i2t, t2i]
    stores: stores
    out: results

In place of `corpus`, `corpora` is a list of such mappings, each with a `name`: one sweep each, its files in
folders of that name below `stores` and `out`. Relative paths are relative to the run file, those in a model's
weights and in a variant's file included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.evaluate.names import safe_name
from engine.sweeps.run_file.checkpoints import read_checkpoints
from engine.sweeps.run_file.checks import check_options, check_places, read_corpora, read_sizes
from engine.sweeps.run_file.options import Options, RunDocument, RunFile, model_of
from engine.sweeps.run_file.variants import read_influence, read_variants
from engine.sweeps.run_file.yaml_document import Document


def load_run_file(path: str | Path) -> RunFile:
    """The one sweep that a file describes. Raises `InputError` as `load_run_files`, and for several."""
    found = load_run_files(path)
    if len(found) > 1:
        raise InputError(f"{path}: describes {len(found)} sweeps, one a corpus; expected one corpus")
    return found[0]


def load_run_files(path: str | Path) -> tuple[RunFile, ...]:
    """The sweeps that a file describes, one a corpus.

    Raises `InputError` (one line: file, line, key, what was found, what was expected) for a file that cannot
    be read or is not YAML, an unknown or repeated key, a wrong type, a name that no registry holds, a path
    that is not there, and checkpoints, variants or corpora whose names fall together.
    """
    document = Document(Path(path), "a run file")
    spell_out(document.data)
    written = document.validate(RunDocument, model_of)
    folder = document.file.resolve().parent
    check_options(written, document)
    check_places(written, document, folder)
    variants = read_variants(written, document, folder)
    shared = {name: getattr(written, name) for name in Options.model_fields} | {
        "relevance": None if written.relevance is None else folder / written.relevance,
        "index": None if written.index is None else folder / written.index,
        "checkpoints": read_checkpoints(written, document, folder),
        "variants": variants,
        "influence": read_influence(written, document, folder, variants),
        "distractors": read_sizes(written, document),
    }
    stores, out = folder / written.stores, folder / written.out
    return tuple(
        RunFile(
            **shared
            | {
                "corpus": corpus,
                "stores": stores if name is None else stores / safe_name(name),
                "out": out if name is None else out / safe_name(name),
            }
        )
        for name, corpus in read_corpora(written, document, folder)
    )


def spell_out(data: dict[str, Any]) -> None:
    """Put the long form where a file has a short one: entries as mappings, models as lists, sizes as text."""
    for name, key in (("checkpoints", "model"), ("variants", "name")):
        if isinstance(data.get(name), list):
            data[name] = [one if isinstance(one, dict) else {key: one} for one in data[name]]
    for one in data["checkpoints"] if isinstance(data.get("checkpoints"), list) else ():
        if not isinstance(one.get("model", []), list):
            one["model"] = [one["model"]]
    if isinstance(data.get("influence"), str):
        data["influence"] = [data["influence"]]
    if isinstance(data.get("distractors"), list):
        data["distractors"] = [str(one) if type(one) is int else one for one in data["distractors"]]
