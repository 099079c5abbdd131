"""What a run file may say: the models of its parts, as they are written and as a sweep takes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from engine.corpus.decoding import decoding_threads
from engine.corpus.read import DEFAULT_SPLIT
from engine.encoders.request import DEFAULT_BATCH_SIZE, LARGEST_BATCH_SIZE, LARGEST_WORKERS
from engine.evaluate.bootstrap import DEFAULT_RESAMPLES, MOST_RESAMPLES
from engine.evaluate.plain_words import FilePath
from engine.evaluate.results import DIRECTIONS, Direction, Record
from engine.evaluate.ties import DEFAULT_POLICY, TiePolicyName
from engine.sweeps.run_file.yaml_document import Place
from engine.whole_numbers import LARGEST

Text = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=LARGEST)]


class CheckpointEntry(Record):
    """Checkpoints as they are written: specs, each of one checkpoint or with a pattern of files for several;
    `name` is for a single one, `preprocess` for checkpoints that do not say it themselves. `rerank` is how
    many of a query the model's matching head scores once more: a number, or a published shortlist's name."""

    model: Annotated[tuple[Text, ...], Field(min_length=1)]
    name: Text | None = None
    preprocess: Text | None = None
    rerank: Text | int | None = None


class CheckpointSpec(Record):
    """One checkpoint: the encoder's spec, its name in tables and files, preprocessing, and second stage.

    `store` is the name of its store where that is not its own: reranked or not, the embeddings are the same.
    """

    model: Text
    name: Text | None = None
    preprocess: Text | None = None
    rerank: Text | None = None
    store: Text | None = None

    @property
    def label(self) -> str:
        """The name; the spec where it has none."""
        return self.model if self.name is None else self.name

    @property
    def store_label(self) -> str:
        """The name of its store."""
        return self.label if self.store is None else self.store


class CorpusSpec(Record):
    """The captioned image set: its file, the folder of its images or their region features
    (`engine.encoders.regions`), how to read it (`engine.corpus.read`)."""

    path: FilePath
    images: FilePath | None = None
    features: FilePath | None = None
    reader: Text | None = None
    split: Text = DEFAULT_SPLIT
    normalisation: Text = "raw"


class NamedCorpusSpec(CorpusSpec):
    """One of several captioned image sets."""

    name: Text


class VariantEntry(Record):
    """A variant as it is written: a spec of `engine.variants.registry`, and the seeds it is made with."""

    name: Text
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] | None = None


class Options(Record):
    """What a run file says beside checkpoints, corpora and variants.

    `seed` is given to variants that take one and do not name it, and draws the `resamples` of the intervals
    (0: none). `stores` is the folder of the stores, one a checkpoint, `out` that of the results.
    `memory_limit`, such as 1.5GiB, is for searches. `distractor_set` names that of the stores' distractor
    sets that is used; `ranked` adds the metrics of `engine.evaluate.ranked_metrics`, `relevance` is the store
    whose cosines they take. `index` is the folder of a fixed index whose galleries stand in for the stores'
    own: then stores hold queries only, and `space` declares the space of their vectors. `influence` are the
    specs of the encoders that vote where a variant chooses words by embedding influence.
    """

    stores: FilePath
    out: FilePath
    directions: Annotated[tuple[Direction, ...], Field(min_length=1)] = DIRECTIONS
    ties: TiePolicyName = DEFAULT_POLICY
    backend: Text = "auto"
    precision: Text = "fp32"
    device: Text = "auto"
    batch_size: Annotated[int, Field(ge=1, le=LARGEST_BATCH_SIZE)] = DEFAULT_BATCH_SIZE
    workers: Annotated[int, Field(ge=1, le=LARGEST_WORKERS)] = Field(default_factory=decoding_threads)
    memory_limit: Text | None = None
    distractor_set: Text | None = None
    ranked: bool = False
    relevance: FilePath | None = None
    index: FilePath | None = None
    allow_space_mismatch: bool = False
    space: Text | None = None
    seed: Seed = 0
    influence: tuple[Text, ...] = ()
    skip_unreadable: bool = False
    resamples: Annotated[int, Field(ge=0, le=MOST_RESAMPLES)] = DEFAULT_RESAMPLES


class RunDocument(Options):
    """A run file as it is written. `distractors` are sizes in ascending order, such as 10k."""

    checkpoints: Annotated[tuple[CheckpointEntry, ...], Field(min_length=1)]
    corpus: CorpusSpec | None = None
    corpora: tuple[NamedCorpusSpec, ...] = ()
    variants: tuple[VariantEntry, ...] = ()
    distractors: tuple[Text, ...] = ()


class RunFile(Options):
    """A sweep: checkpoints x variants x directions on one corpus, all paths absolute.

    `variants` are specs with their seeds, `distractors` ascending numbers of rows (0: none).
    """

    checkpoints: tuple[CheckpointSpec, ...]
    corpus: CorpusSpec
    variants: tuple[str, ...] = ()
    distractors: tuple[int, ...] = (0,)


MODELS: dict[str, type[BaseModel]] = {
    "checkpoints": CheckpointEntry,
    "corpus": CorpusSpec,
    "corpora": NamedCorpusSpec,
    "variants": VariantEntry,
}


def model_of(place: Place) -> type[BaseModel]:
    """The model that the key at a place belongs to."""
    return MODELS.get(str(place[0]), RunDocument) if len(place) > 1 else RunDocument
