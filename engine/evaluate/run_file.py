"""The run file of a sweep: YAML, validated, with every error naming line and key.

    checkpoints:                 # specs, or mappings with a model and a name
      - open_clip:ViT-B-32:openai
      - {model: "open_clip:ViT-B-32:epoch_9.pt", name: epoch 9, preprocess: openai}
    corpus: {path: dataset_coco.json, images: val2014, split: test, normalisation: raw}
    variants: ["rococo:same_concept.json", "mix:0.9:seed=1"]
    directions: [i2t, t2i]
    stores: stores
    out: results

Relative paths are relative to the run file, those in a model's weights and in a variant's file included.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field, ValidationError

from engine.corpus.normalise import NORMALISATIONS
from engine.corpus.read import DEFAULT_SPLIT
from engine.corpus.registry import READERS
from engine.encoders.preprocess import parse_preprocess
from engine.encoders.registry import DEFAULT_BATCH_SIZE, PRECISIONS, parse_spec
from engine.errors import InputError, unknown_name
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES
from engine.evaluate.names import safe_name
from engine.evaluate.results import DIRECTIONS, Direction, Record, shorten
from engine.evaluate.ties import DEFAULT_POLICY, TiePolicyName
from engine.inputs import check_regular_file
from engine.variants.registry import make_variant, variant_families
from indexes.errors import SearchInputError
from indexes.memory import parse_bytes
from indexes.registry import BACKENDS

LARGEST_FILE = 1 << 20
DEEPEST = 16
MOST_WORKERS = 8

Place = tuple[str | int, ...]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]


def default_workers() -> int:
    """One image decoder a core, at most `MOST_WORKERS`."""
    return min(MOST_WORKERS, os.cpu_count() or 1)


class CheckpointSpec(Record):
    """One checkpoint: the encoder's spec, its name in tables and files, and its preprocessing.

    `name` defaults to `label`'s choice; `preprocess` is for checkpoints that do not say it themselves.
    """

    model: Text
    name: Text | None = None
    preprocess: Text | None = None

    @property
    def label(self) -> str:
        """The name, or the spec with a weights file cut down to its name."""
        if self.name is not None:
            return self.name
        weights = parse_spec(self.model)[2]
        return Path(weights).stem if weights is not None and Path(weights).exists() else self.model


class CorpusSpec(Record):
    """The captioned image set: its file, the folder of its images or their region features
    (`engine.encoders.regions`), how to read it (`engine.corpus.read`)."""

    path: Path
    images: Path | None = None
    features: Path | None = None
    reader: Text | None = None
    split: Text = DEFAULT_SPLIT
    normalisation: Text = "raw"


class RunFile(Record):
    """A sweep: checkpoints x variants x directions.

    `variants` are specs of `engine.variants.registry`; `seed` is given to those that take a seed and do not
    name one, and draws the `resamples` of the intervals (0: none). `stores` is the folder of the stores, one
    a checkpoint, `out` that of the results. `memory_limit`, such as 1.5GiB, is for searches.
    """

    checkpoints: Annotated[tuple[CheckpointSpec, ...], Field(min_length=1)]
    corpus: CorpusSpec
    stores: Path
    out: Path
    variants: tuple[Text, ...] = ()
    directions: Annotated[tuple[Direction, ...], Field(min_length=1)] = DIRECTIONS
    ties: TiePolicyName = DEFAULT_POLICY
    backend: Text = "auto"
    precision: Text = "fp32"
    device: Text = "auto"
    batch_size: Count = DEFAULT_BATCH_SIZE
    workers: Count = Field(default_factory=default_workers)
    memory_limit: Text | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    skip_unreadable: bool = False
    resamples: Annotated[int, Field(ge=0)] = DEFAULT_RESAMPLES


MODELS: Mapping[str, type[BaseModel]] = {"checkpoints": CheckpointSpec, "corpus": CorpusSpec}


def load_run_file(path: str | Path) -> RunFile:
    """The sweep that a file describes, all its paths absolute.

    Raises `InputError` (one line: file, line, key, what was found, what was expected) for a file that cannot
    be read or is not YAML, an unknown or repeated key, a wrong type, a path that is not there, and
    checkpoints whose names fall together.
    """
    file = Path(path)
    text = read_text(file)
    document = Document(file, parse(file, text))
    document.check_keys()
    try:
        run_file = RunFile.model_validate_json(json.dumps(plain(file, text), default=str))
    except ValidationError as error:
        raise document.problem(error) from error
    check_specs(run_file, document)
    run_file = resolve(run_file, file.resolve().parent)
    corpus = run_file.corpus
    if (corpus.images is None) == (corpus.features is None):
        found = "neither images nor features" if corpus.images is None else "both images and features"
        raise document.error(("corpus",), f"has {found}; expected the one that the checkpoints read")
    for place, there in (
        (("corpus", "path"), corpus.path.is_file()),
        (("corpus", "images"), corpus.images is None or corpus.images.is_dir()),
        (("corpus", "features"), corpus.features is None or corpus.features.exists()),
    ):
        if not there:
            raise document.error(
                place, f"{shorten(str(document.value(place)))} is not there; paths are relative to this file"
            )
    check_names(run_file, document)
    return run_file


def read_text(file: Path) -> str:
    """The text of the file. Raises `InputError`."""
    size = check_regular_file(file, "a run file in YAML").st_size
    if size > LARGEST_FILE:
        raise InputError(f"{file}: {size:,} bytes, a run file has at most {LARGEST_FILE:,}")
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); expected a run file in YAML") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text; expected a run file in YAML") from error


def parse(file: Path, text: str) -> yaml.Node:
    """The document as nodes that know their lines. Raises `InputError` when it is not a plain mapping."""
    try:
        check_plain(file, text)
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise not_yaml(file, error) from error
    except yaml.YAMLError as error:
        raise InputError(f"{file}: not YAML ({' '.join(str(error).split())})") from error
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{file}: expected a mapping with the keys {', '.join(RunFile.model_fields)}")
    return node


def check_plain(file: Path, text: str) -> None:
    """Raise `InputError` for aliases and for deep nesting, before anything is made of the text.

    A few lines of either can stand for more values than any memory holds, or take for ever to read.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        place = f"{file} line {line_of(event.start_mark)}"
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{place}: the alias *{event.anchor} is not supported; write the value out")
        if depth > DEEPEST:
            raise InputError(f"{place}: nested more than {DEEPEST} deep, expected a run file in YAML")


def not_yaml(file: Path, error: yaml.MarkedYAMLError) -> InputError:
    """The error for text that is not YAML, or not plain YAML."""
    return InputError(f"{file} line {line_of(error.problem_mark)}: not YAML ({error.problem})")


def plain(file: Path, text: str) -> Any:
    """The document as plain values, with every checkpoint as a mapping."""
    try:
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:  # such as a tag that names an object of Python
        raise not_yaml(file, error) from error
    except ValueError as error:  # such as the date 2024-13-01
        raise InputError(f"{file}: a value that YAML cannot read ({error}); put it in quotes") from error
    checkpoints = data.get("checkpoints")
    if isinstance(checkpoints, list):
        data["checkpoints"] = [{"model": one} if isinstance(one, str) else one for one in checkpoints]
    return data


def line_of(mark: Any) -> int:
    """The line of a YAML mark, from 1; 1 where YAML does not know."""
    return 1 if mark is None else int(mark.line) + 1


class Document:
    """The nodes of a run file: finds the line of a key."""

    def __init__(self, file: Path, root: yaml.Node) -> None:
        self._file, self._root = file, root

    def node(self, place: Place) -> yaml.Node:
        """The node of the key, or the innermost one around it that there is."""
        node = self._root
        for step in place:
            inner = next((value for key, value in children(node) if key == step), None)
            if inner is None:
                break
            node = inner
        return node

    def value(self, place: Place) -> Any:
        """The text of a scalar."""
        return self.node(place).value

    def check_keys(self) -> None:
        """Raise `InputError` for a key that is given twice (YAML would quietly take the last)."""
        waiting: list[tuple[Place, yaml.Node]] = [((), self._root)]
        while waiting:
            place, node = waiting.pop()
            seen: set[str | int] = set()
            for key, value in children(node):
                if key in seen:
                    line = line_of(value.start_mark)
                    raise InputError(
                        f"{self._file} line {line}: the key {key!r} is given twice; give it once"
                    )
                seen.add(key)
                waiting.append(((*place, key), value))

    def at(self, place: Place, what: object) -> InputError:
        """The error with file and line before it."""
        return InputError(f"{self._file} line {line_of(self.node(place).start_mark)}: {what}")

    def error(self, place: Place, what: str) -> InputError:
        """The error for a key."""
        return self.at(place, f"{dotted(place)} {what}")

    @contextmanager
    def placing(self, place: Place) -> Iterator[None]:
        """Put file and line before an error of input that is raised inside."""
        try:
            yield
        except (InputError, SearchInputError) as error:
            raise self.at(place, error) from error

    def problem(self, error: ValidationError) -> InputError:
        """The first problem of a validation."""
        problems = error.errors(include_url=False)
        # an unknown key is named first: it is often the missing one, misspelt
        problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        place: Place = problem["loc"]
        if problem["type"] == "extra_forbidden":
            model = MODELS.get(str(place[0]), RunFile) if len(place) > 1 else RunFile
            return self.at(place, unknown_name("key", str(place[-1]), model.model_fields))
        if problem["type"] == "missing":
            return self.error(place, "is missing")
        return self.error(place, f"is {shorten(problem['input'])}: {problem['msg'].lower()}")


def children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    """Keys (or numbers) and nodes inside a node."""
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def dotted(place: Place) -> str:
    """A place for people: ``checkpoints[0].model``."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(parts).removeprefix(".")


def resolve(run_file: RunFile, folder: Path) -> RunFile:
    """The same sweep with paths absolute, relative ones taken from `folder`."""
    corpus = run_file.corpus
    paths = {"path": corpus.path, "images": corpus.images, "features": corpus.features}
    absolute = {name: folder / path for name, path in paths.items() if path is not None}
    return run_file.model_copy(
        update={
            "corpus": corpus.model_copy(update=absolute),
            "stores": folder / run_file.stores,
            "out": folder / run_file.out,
            "checkpoints": tuple(resolve_weights(one, folder) for one in run_file.checkpoints),
            "variants": tuple(resolve_variant(spec, folder) for spec in run_file.variants),
        }
    )


def resolve_weights(checkpoint: CheckpointSpec, folder: Path) -> CheckpointSpec:
    """Weights that name a file or folder beside the run file, absolute; other weights stay as they are."""
    family, name, weights = parse_spec(checkpoint.model)
    if weights is None or not (folder / weights).exists():
        return checkpoint
    return checkpoint.model_copy(update={"model": f"{family}:{name}:{folder / weights}"})


def resolve_variant(spec: str, folder: Path) -> str:
    """The file of a variant whose one parameter is a path (``rococo:FILE``), absolute."""
    name, _, rest = spec.partition(":")
    family = variant_families().get(name)
    return f"{name}:{folder / rest}" if family is not None and family.whole_rest and rest else spec


def check_specs(run_file: RunFile, document: Document) -> None:
    """Raise `InputError` for a name that no registry holds, and for what is no spec of its kind."""
    named: tuple[tuple[Place, str, str | None, Iterable[str]], ...] = (
        (("backend",), "search backend", run_file.backend, BACKENDS),
        (("precision",), "precision", run_file.precision, PRECISIONS),
        (("corpus", "reader"), "reader", run_file.corpus.reader, READERS),
        (("corpus", "normalisation"), "text normalisation", run_file.corpus.normalisation, NORMALISATIONS),
    )
    for place, kind, name, known in named:
        if name is not None and name not in known:
            raise document.at(place, unknown_name(kind, name, known))
    for number, checkpoint in enumerate(run_file.checkpoints):
        with document.placing(("checkpoints", number)):
            parse_spec(checkpoint.model)
            if checkpoint.preprocess is not None:
                parse_preprocess(checkpoint.preprocess)
    for number, spec in enumerate(run_file.variants):
        with document.placing(("variants", number)):
            make_variant(spec)
    if run_file.memory_limit is not None:
        with document.placing(("memory_limit",)):
            parse_bytes(run_file.memory_limit)


def check_names(run_file: RunFile, document: Document) -> None:
    """Raise `InputError` when two checkpoints would have the same files."""
    seen: dict[str, str] = {}
    for number, checkpoint in enumerate(run_file.checkpoints):
        file = safe_name(checkpoint.label).casefold()
        if file in seen:
            raise document.error(
                ("checkpoints", number),
                f"has the name {checkpoint.label!r}, as {seen[file]!r} before; give each a name",
            )
        seen[file] = checkpoint.label


def seeded(specs: Sequence[str], seed: int) -> tuple[str, ...]:
    """Variant specs with the run's seed where a family takes one and the spec does not name it."""
    return tuple(with_seed(spec, seed) for spec in specs)


def with_seed(spec: str, seed: int) -> str:
    """One spec with the seed, as `seeded`."""
    family = variant_families().get(spec.partition(":")[0])
    takes_seed = family is not None and any(parameter.name == "seed" for parameter in family.parameters)
    return f"{spec}:seed={seed}" if takes_seed and ":seed=" not in spec else spec
