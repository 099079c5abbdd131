"""What a sweep would do now: what it would embed and search, what it would reuse, and how long that may take.

Times are scaled from measurements that lie in the sweep's own folders: the stamp of a store says how long
its embedding took, the results of a run how long its search did. Where there is none the time is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from engine.encoders.registry import scores_pairs
from engine.errors import InputError
from engine.evaluate.collection import results_files
from engine.evaluate.distractors import Distractors, open_distractors
from engine.evaluate.indexed import AnySets
from engine.evaluate.ranked_metrics import RankedMetrics
from engine.evaluate.results import GALLERY_MODALITY, QUERY_MODALITY, Direction, read_results
from engine.evaluate.sets import variant_sets
from engine.stopwatch import TOTAL
from engine.store.embedding.work import plan_work, stored_digests
from engine.store.reader import Store, open_store
from engine.store.schema import MODALITIES, ORIGINAL, SetPlan, StoreHeader
from engine.store.writer import header_difference, set_difference
from engine.sweeps.checkpoint import CheckpointSweep, RunName
from engine.sweeps.finished import find_finished, has_intervals
from engine.sweeps.run_file.options import CheckpointSpec
from engine.sweeps.stamp import Inputs, Measured, read_stamp
from engine.sweeps.sweep import Sweep

State = Literal["finished", "intervals", "search", "refused", "later"]
"""Of a run: finished; only its intervals are drawn anew; to be searched; it cannot be done; there are results
that fit or not, which only the store will say, and it is not there."""


@dataclass(frozen=True)
class RunPlan:
    """One run: its state, why it is to be done where it was done before, and the seconds of its search."""

    direction: Direction
    variant: str | None
    distractors: int
    state: State
    why: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class StorePlan:
    """The store of a checkpoint: its size on the disk (None: not there) and what is to be embedded.

    `images` and `texts` go through the model (equal texts once), `rows` are what the store then has more of,
    `dim` is the length of a row where it is known. `checked`: the encoder is opened, whatever is there.
    `seconds` are scaled from the embedding of the checkpoint `measured`. `shared` names the checkpoint that
    has the same store and comes before. `problem`: the store that is there is refused, and why.
    """

    path: Path
    bytes: int | None
    images: int
    texts: int
    rows: int
    dim: int | None
    checked: bool
    problem: str = ""
    seconds: float | None = None
    measured: str = ""
    shared: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is to be embedded for this checkpoint."""
        return bool(self.shared) or not (self.rows or self.problem)


@dataclass(frozen=True)
class CheckpointPlan:
    """One checkpoint of a sweep."""

    name: str
    model: str
    store: StorePlan
    runs: tuple[RunPlan, ...]


def plan_sweep(sweep: Sweep) -> tuple[CheckpointPlan, ...]:
    """What `sweep.run()` would do; nothing is written, no encoder is opened.

    Raises `InputError` where the sweep would before any work.
    """
    searches = measured_searches(sweep)
    first: dict[Path, str] = {}
    plans = []
    for one in sweep.checkpoints:
        plan = plan_checkpoint(sweep, one, searches)
        shared = first.setdefault(one.store_path, one.name)
        if shared != one.name:
            plan = replace(plan, store=replace(plan.store, shared=shared))
        plans.append(plan)
    return tuple(plans)


def plan_checkpoint(sweep: Sweep, one: CheckpointSweep, searches: Sequence[Search]) -> CheckpointPlan:
    """One checkpoint; what is said of its runs holds if the store is of the checkpoint as it is now."""
    store = plan_store(one, one.name in sweep.embedded)
    try:
        if store.problem:
            runs = [replace(run, state="refused") for run in unseen_runs(one)]
        else:
            runs = plan_runs(one) if store.dim is not None else unseen_runs(one)
    except InputError as error:  # such as distractors that are not there
        runs = [replace(run, state="refused", why=str(error)) for run in unseen_runs(one)]
    stage = stage_of(one.checkpoint)
    costed = (
        replace(run, seconds=estimate(cost_of(sweep.inputs, run, stage), searches, store.dim))
        if run.state == "search"
        else run
        for run in runs
    )
    return CheckpointPlan(one.name, one.checkpoint.model, store, tuple(costed))


# ---------------------------------------------------------------- stores


def plan_store(one: CheckpointSweep, is_known: bool) -> StorePlan:
    """What is to be embedded."""
    path = one.store_path
    size = path.stat().st_size if path.exists() else None
    there = Stored() if size is None else stored(one)
    if is_known or there.problem:
        return StorePlan(path, size, 0, 0, 0, there.dim, checked=not is_known, problem=there.problem)
    done = there.done
    pending = {label: texts for label, texts in contents(one.inputs).items() if done.get(label) != len(texts)}
    images = sum(len(one_set) for label, one_set in pending.items() if label.startswith("images/"))
    texts = {text for label, one_set in pending.items() if label.startswith("captions/") for text in one_set}
    rows = sum(len(one_set) - done.get(label, 0) for label, one_set in pending.items())
    plan = StorePlan(path, size, images, len(texts), rows, there.dim, checked=True)
    name, measured = find_measured(one)
    return (
        plan
        if measured is None
        else replace(plan, seconds=measured.seconds(images, len(texts)), measured=name)
    )


@dataclass(frozen=True)
class Stored:
    """What the sweep goes on with of a store that is there: the length of its rows, and how many are done by
    the set's label. Nothing of one that is replaced; `problem` says why one is refused."""

    dim: int | None = None
    done: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


def stored(one: CheckpointSweep) -> Stored:
    """What is there of a store, compared with what is to be in it as `open_writer` does that.

    Neither the encoder nor an image is opened: they are taken to be those of the store.
    """
    advice = "name another `stores` folder, or --force replaces"
    try:
        with open_store(one.store_path) as store:
            difference = header_difference(store.header, wanted_header(one, store.header))
            if difference is not None:
                return Stored() if one.force else Stored(problem=f"{difference}; {advice} the store")
            done = {info.label: info.complete + info.skipped for info in store.sets}
            for plan in wanted_sets(one, store):
                other = set_difference(store, plan) if plan.label in done else None
                if other is not None and not one.force:
                    return Stored(problem=f"{plan.label} is there with {other}; {advice} it")
                if other is not None:
                    del done[plan.label]
            return Stored(store.header.dim, done)
    except InputError as error:
        return Stored() if one.force else Stored(problem=str(error).removeprefix(f"{one.store_path}: "))


def wanted_header(one: CheckpointSweep, there: StoreHeader) -> StoreHeader:
    """The header of the store that a checkpoint is to have, the encoder that of the one there."""
    corpus = one.inputs.corpus
    return replace(
        there,
        corpus_name=corpus.name,
        corpus_fingerprint=corpus.fingerprint,
        normalisation=corpus.normalisation,
        dtype=StoreHeader.dtype,
        space=one.run_file.space or "",
    )


def wanted_sets(one: CheckpointSweep, store: Store) -> Sequence[SetPlan]:
    """The sets of the store that a checkpoint is to have, the image files those of the one there."""
    inputs = one.inputs
    digests = stored_digests(store.path) if "images" in inputs.modalities else None
    work = plan_work(inputs.corpus, inputs.applied, digests or None, {}, inputs.modalities)
    return [*work.captions, *work.images]


def contents(inputs: Inputs) -> Mapping[str, Sequence[str]]:
    """The label of every set of a store, with its texts (of images: their ids)."""
    corpus = inputs.corpus
    originals = {
        f"{MODALITIES[0]}/{ORIGINAL}": [image.id for image in corpus.images],
        f"{MODALITIES[1]}/{ORIGINAL}": [caption.text for caption in corpus.captions],
    }
    made = {
        f"{one.modality}/{one.name}": [
            item.content if isinstance(item.content, str) else item.id for item in one.items.items
        ]
        for one in inputs.applied
    }
    return {label: texts for label, texts in (originals | made).items() if label in inputs.labels}


def find_measured(one: CheckpointSweep) -> tuple[str, Measured | None]:
    """The measured embedding that is nearest to a checkpoint's, and whose it is.

    Its own, else that of a model which differs in its path only, in the same precision.
    """
    inputs = one.inputs.of(one.checkpoint)
    stamps = [one.stamp_path, *sorted(one.stamp_path.parent.glob("*.inputs.json"))]
    for file in stamps:
        stamp = read_stamp(file)
        if stamp is None or stamp.measured is None or stamp.inputs.get("precision") != inputs["precision"]:
            continue
        if file == one.stamp_path or kind_of(stamp.encoder_spec) == kind_of(one.checkpoint.model):
            return file.name.removesuffix(".inputs.json"), stamp.measured
    return "", None


def kind_of(model: str) -> str:
    """A model's spec without its path."""
    return model.rpartition(":")[0]


# ---------------------------------------------------------------- runs


def unseen_runs(one: CheckpointSweep) -> list[RunPlan]:
    """The runs of a store that is not there; results that are may fit it or not."""
    return [
        RunPlan(direction, *name, state="later" if file.exists() else "search")
        for direction in one.run_file.directions
        for name, file in one.files(direction).items()
    ]


def plan_runs(one: CheckpointSweep) -> list[RunPlan]:
    """The runs of a store that is there. Raises `InputError` when the sweep could not do them."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(one.store_path))
        sets = stack.enter_context(one.open_sets(store))
        crowds = stack.enter_context(open_distractors(sets, one.choice))
        ranked = None
        if one.run_file.ranked:
            other = one.run_file.relevance
            ranked = RankedMetrics(None if other is None else stack.enter_context(open_store(other)))
        return [
            plan_run(one, sets[direction], direction, name, file, crowds.get(direction), ranked)
            for direction in one.run_file.directions
            for name, file in one.files(direction).items()
        ]


def plan_run(
    one: CheckpointSweep,
    store: AnySets,
    direction: Direction,
    name: RunName,
    file: Path,
    crowd: Distractors | None,
    ranked: RankedMetrics | None,
) -> RunPlan:
    """One run; that of a variant which the store does not hold yet is to be searched."""
    if name[0] is not None and name[0] not in variant_sets(store, direction):
        return RunPlan(direction, *name, state="search")
    notes: list[str] = []
    try:
        wanted = one.wanted(store, direction, name, crowd)
        relevance = None if ranked is None else ranked.relevance_of(direction, name[0])
        results = find_finished(file, wanted, relevance, notes.append, force=one.force)
    except InputError as error:
        return RunPlan(direction, *name, state="refused", why=str(error))
    if results is None:
        return RunPlan(direction, *name, state="search", why="".join(notes))
    drawn = has_intervals(results.runs[0], one.resampling)
    return RunPlan(direction, *name, state="finished" if drawn else "intervals")


# ---------------------------------------------------------------- how long a search may take


@dataclass(frozen=True)
class Cost:
    """What decides the time of a search: its kind, and how many pairs of a query and a row it takes.

    `stage` is what scores ("" for embeddings alone), as in `engine.evaluate.results.StageRecord`.
    """

    direction: Direction
    side: str
    stage: str
    distractors: bool
    pairs: int

    @property
    def kind(self) -> tuple[str, ...]:
        """What searches must share to be compared."""
        return self.direction, self.side, self.stage, str(self.distractors)


@dataclass(frozen=True)
class Search:
    """A search that was done: what it took, the length of a row, and its seconds."""

    cost: Cost
    dim: int
    seconds: float


def stage_of(checkpoint: CheckpointSpec) -> str:
    """What scores in the runs of a checkpoint."""
    if scores_pairs(checkpoint.model):
        return "pairs"
    return "" if checkpoint.rerank is None else "two-stage"


def cost_of(inputs: Inputs, run: RunPlan, stage: str) -> Cost:
    """What a run takes beside the runs before it: a gallery variant its own rows, a query variant all."""
    counts = {"images": len(inputs.corpus.images), "captions": len(inputs.corpus.captions)}
    queries, gallery = counts[QUERY_MODALITY[run.direction]], counts[GALLERY_MODALITY[run.direction]]
    variant = next((one for one in inputs.variants if one.name == run.variant), None)
    made = {one.name: len(one.items.items) for one in inputs.applied}
    if variant is None:
        pairs = queries * gallery
    elif variant.side == "gallery":
        pairs = queries * made.get(variant.name, gallery)  # of an index: about an item an original
    else:
        pairs = made[variant.name] * gallery
    side = "" if variant is None else variant.side
    return Cost(run.direction, side, stage, run.distractors > 0, pairs + queries * run.distractors)


def measured_searches(sweep: Sweep) -> list[Search]:
    """The searches of all results in the sweep's folder; files that cannot be read say nothing."""
    found = []
    out = sweep.run_file.out
    for file in results_files(out) if out.is_dir() else ():
        try:
            results = read_results(file)
        except InputError:
            continue
        for run in results.runs:
            searched = run.gallery.get("adversarial" if run.side == "gallery" else "original", 0)
            cost = Cost(
                run.direction,
                run.side or "",
                "" if run.stage is None else run.stage.kind,
                run.distractors > 0,
                run.queries * (searched + run.distractors),
            )
            if TOTAL in run.timings and cost.pairs:
                found.append(Search(cost, results.provenance.dim, run.timings[TOTAL]))
    return found


def estimate(cost: Cost, searches: Sequence[Search], dim: int | None) -> float | None:
    """Seconds of a search, from those of its kind, their mean rate; None where there is none."""
    alike = [one for one in searches if one.cost.kind == cost.kind]
    products = sum(one.cost.pairs * (one.dim if dim is not None else 1) for one in alike)
    if not products:
        return None
    return sum(one.seconds for one in alike) * cost.pairs * (1 if dim is None else dim) / products
