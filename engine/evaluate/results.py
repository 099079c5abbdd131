"""The file of results: what it holds, and how it is written and read.

`results.json` is one `Results` and the SHA-256 of it: what was edited is no longer a result. Equal inputs
give equal content, apart from that, `created`, the timings and what `Provenance` says of the machine.
Per-query outcomes lie beside it in Parquet (`engine.evaluate.outcomes`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.corpus.shape import describe
from engine.errors import InputError
from engine.evaluate.metrics import RANK_METRICS, TIED_QUERIES
from engine.evaluate.plain_words import ABSENT_OR_UNKNOWN, expected, having
from engine.evaluate.ties import TiePolicyName
from engine.inputs import check_regular_file
from engine.outputs.own import write_own
from engine.stopwatch import add_timings
from engine.variants.variant import Modality, Side
from indexes.protocol import Origin

SCHEMA_VERSION: Final = 2
RESULTS_FILE = "results.json"
RESULTS_HEAD = b'{\n  "schema_version": '  # how a file of results begins
DIGEST = "sha256"  # the field that the file has beside those of `Results`

Direction = Literal["i2t", "t2i"]
Count = Annotated[int, Field(ge=0)]

# direction -> what its queries are, what its gallery holds
QUERY_MODALITY: Mapping[Direction, Modality] = {"i2t": "images", "t2i": "captions"}
GALLERY_MODALITY: Mapping[Direction, Modality] = {"i2t": "captions", "t2i": "images"}
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")


class Record(BaseModel):
    """A part of the file: frozen, nothing converted, no unknown field."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class SetRecord(Record):
    """A set that took part: its rows, how many of them were skipped, its content key, and how it was made."""

    modality: Modality
    name: str
    rows: Count
    skipped: Count
    content_key: str
    made: dict[str, Any] = {}


class Provenance(Record):
    """Everything needed to repeat a result.

    `checkpoint` is the name shown in tables. `config` holds the options of the evaluation, `seeds` those of
    the variants (and of the run, as "run"), `versions` the packages', `backend` and `search_device` what
    searched; what encoded is in each set's `made`. `stores` are the absolute paths of the store and, in an
    index, of its galleries. `created` is ISO 8601, UTC.
    """

    checkpoint: str
    command: tuple[str, ...]
    config: dict[str, Any]
    seeds: dict[str, int]
    encoder_spec: str
    encoder_fingerprint: str
    dim: Count
    corpus_name: str
    corpus_fingerprint: str
    normalisation: str
    sets: tuple[SetRecord, ...]
    stores: tuple[str, ...] = ()
    versions: dict[str, str]
    backend: str
    search_device: str
    created: str


class Bootstrap(Record):
    """How the intervals were made: resamples of whole images, their seed, the confidence, how many images."""

    resamples: int
    seed: int
    confidence: float
    images: int


class StageRecord(Record):
    """What scored beside or instead of embeddings.

    `kind` is "two-stage" (the best `k_test` of a query by its embedding are scored once more, `join` says
    whether that score is added to the cosine or replaces it) or "pairs" (every pair has a score). `scorer`
    and `fingerprint` name what scored.
    """

    kind: Literal["two-stage", "pairs"]
    scorer: str
    fingerprint: str
    k_test: int | None = None
    join: Literal["add", "replace"] | None = None


class IndexUse(Record):
    """The fixed index whose galleries were searched (`engine.store.fixed_index`).

    `name` is that of its folder, `fingerprint` of all that a search in it depends on; the encoder is the one
    of the gallery. `space` and `query_space` are the ids of the spaces of gallery and queries,
    `space_mismatch` says that they are not the same, and were searched at the user's word.
    """

    name: str
    fingerprint: str
    space: str
    query_space: str
    space_mismatch: bool
    encoder_spec: str
    encoder_fingerprint: str

    def label(self, checkpoint: str) -> str:
        """The name of a checkpoint's results in this index, for tables: no result of its own galleries."""
        return f"{checkpoint} @ {self.name}" + (" (another space)" if self.space_mismatch else "")


class Run(Record):
    """Queries x gallery -> metrics, for one variant (None: none) and one direction.

    `gallery` counts rows by origin, `distractors` says how many of them are of the distractor set,
    `positives` all relevant pairs. `metrics` has the keys of `engine.evaluate.metrics`; a value of None is
    undefined and `undefined` says why. `base` has the rank metrics of the same queries without the variant,
    among the same distractors. `intervals` are the bounds of metrics and `bootstrap` how they were made
    (`engine.evaluate.bootstrap`); empty and None when they were not. `tied` counts the queries whose value
    depends on the tie policy, by decision; the metric `tied_queries` is the count of any decision, beside
    the other numbers that are compared. `left_out` counts what did not take part, by reason. `timings` are
    seconds by stage. `outcomes` names the Parquet file, relative to this one, and `outcomes_sha256` is of its
    bytes: it is read only with its run (`engine.evaluate.outcome_files`). `key` identifies everything the
    outcome depends on (see `engine.evaluate.sets.run_key`). `relevance` says whose cosines the metrics on
    lists took (`engine.evaluate.ranked_metrics`), None where there are none; `positives_file` whose positives
    the extended metrics took (`engine.evaluate.extra_positives`). `stage` says what scored where it was not
    embeddings alone, `index` what was searched where it was not the store's own gallery.
    """

    variant: str | None
    side: Side | None
    direction: Direction
    queries: Count
    gallery: Annotated[dict[Origin, Count], having("original")]
    positives: Count
    metrics: Annotated[dict[str, float | None], having(*RANK_METRICS)]
    undefined: dict[str, str]
    base: Annotated[dict[str, float], having(*RANK_METRICS)] | None
    ties: TiePolicyName
    tied: Annotated[dict[str, Count], having(TIED_QUERIES)]
    left_out: dict[str, Count]
    timings: dict[str, float]
    outcomes: str | None
    key: dict[str, str]
    outcomes_sha256: str | None = None
    relevance: str | None = None
    positives_file: str | None = None
    distractors: Count = 0
    stage: StageRecord | None = None
    index: IndexUse | None = None
    intervals: dict[str, tuple[float, float]] = {}
    bootstrap: Bootstrap | None = None


class Results(Record):
    """One file: where it comes from, its runs, and seconds by stage over all of them."""

    schema_version: Literal[2] = SCHEMA_VERSION
    provenance: Provenance
    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    timings: dict[str, float]

    def find(self, variant: str | None, direction: Direction, distractors: int = 0) -> Run | None:
        """The run of a variant in a direction among so many distractors; None when there is none."""
        wanted = (variant, direction, distractors)
        found = (run for run in self.runs if (run.variant, run.direction, run.distractors) == wanted)
        return next(found, None)


def merge_results(parts: Sequence[Results]) -> Results:
    """Results of one checkpoint on one corpus as one; what differs is joined, else the newest speaks."""
    newest = max((one.provenance for one in parts), key=lambda provenance: provenance.created)
    sets = {(one.modality, one.name): one for part in parts for one in part.provenance.sets}
    seeds = {name: seed for part in parts for name, seed in part.provenance.seeds.items()}
    together = {
        "sets": tuple(sets.values()),
        "stores": tuple(dict.fromkeys(file for part in parts for file in part.provenance.stores)),
        "seeds": seeds,
        "backend": join_words(part.provenance.backend for part in parts),
        "search_device": join_words(part.provenance.search_device for part in parts),
    }
    return Results(
        provenance=newest.model_copy(update=together),
        runs=tuple(run for part in parts for run in part.runs),
        timings=add_timings(part.timings for part in parts),
    )


def join_words(words: Iterable[str]) -> str:
    """Distinct words in alphabetical order."""
    return ", ".join(sorted({word for word in words if word}))


def write_results(results: Results, path: Path) -> None:
    """Write the file whole or not at all. Raises `InputError` when the system does not let it be written."""
    written = results.model_dump(mode="json")
    document = {**written, DIGEST: digest_of(json.loads(json.dumps(written)))}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    write_own(path, lambda temporary: temporary.write_text(text + "\n", encoding="utf-8"))


def read_results(path: str | Path) -> Results:
    """The results in a file, or in the file `results.json` of a folder.

    Raises `InputError` (one line: file, field, found, expected) when it is missing, cut off, of another
    schema version, does not have the fields of the schema, or was edited. Files from before there was a
    digest have none.
    """
    file = Path(path) / RESULTS_FILE if Path(path).is_dir() else Path(path)
    return parse_results(load_json(file), file)


def parse_results(document: Any, file: Path) -> Results:
    """The results in the JSON document of a file. Raises `InputError` as `read_results`."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(
            f"{file}: results of schema version {version!r}, expected {SCHEMA_VERSION}; "
            "evaluate again with this itrstress, or read it with the one that wrote it"
        )
    try:
        fields = {name: value for name, value in document.items() if name != DIGEST}
        results = Results.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        raise InputError(f"{file}: {first_problem(error)}; is it a results file of itrstress?") from error
    if document.get(DIGEST, digest := digest_of(fields)) != digest:
        raise InputError(
            f"{file}: changed since it was written (its {DIGEST} is that of other results); "
            "evaluate again, or put back the file as it was"
        )
    return results


def digest_of(fields: dict[str, Any]) -> str:
    """SHA-256 (hex) of what a file of results holds beside its digest, however it is laid out."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def load_json(file: Path) -> Any:
    """The JSON document in a file. Raises `InputError` when it cannot be read or is not JSON."""
    check_regular_file(file, "a results file")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); expected a results file") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{file}: not JSON, or cut off ({error}); evaluate again to write it anew"
        ) from error


def first_problem(error: ValidationError) -> str:
    """The first problem of a validation, as ``field.3.name is text ('a'); expected a whole number``."""
    problem = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in problem["loc"]) or "the document"
    if problem["type"] in ABSENT_OR_UNKNOWN:
        return f"{place} {ABSENT_OR_UNKNOWN[problem['type']]}"
    return f"{place} is {describe(problem['input'])}; expected {expected(problem)}"
