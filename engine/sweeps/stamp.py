"""What a store of a sweep was embedded from, so that a finished one is known without opening the encoder.

Beside every store lies its stamp, a small JSON file written when the store was complete. It holds what the
embedding depended on and what the store then held. While both are the same as now, nothing is embedded:
the encoder is not opened, no image is read, no variant is made. What is trusted then:

- A file (weights, with the configurations and vocabularies beside them; images; a variant's file) is the same
  while its name, its size, and its times of change of content and of state are. No program can set the
  latter, so a file that was replaced is noticed, also one with an old date; a file that was only touched
  costs one check.
- Weights from the model hub are the same while ``main`` of their repositories in the cache is, and its files.
- Other weights with no path in the spec (a tag that is an address), tokenizers that a configuration names,
  WordNet and spaCy models are the same while the spec and the versions of the packages are.
- The store is the same while its header and its sets' keys and counts are. Rows have checksums of their own.

Anything else, a stamp that is missing or unreadable included, leads to the whole check, as `--check` does. So
does an encoder that runs code of others (python:MODULE:OBJECT, a plug-in), which may depend on anything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from engine.corpus.corpus import Corpus
from engine.corpus.images import UnreadableImage, find_image
from engine.encoders.hub_cache import cached_files, cached_repositories
from engine.encoders.model_files import MODEL_FILES
from engine.encoders.registry import model_families, parse_spec
from engine.encoders.spec_paths import path_words
from engine.encoders.vocabulary import vocabulary_files
from engine.errors import InputError
from engine.evaluate.results import QUERY_MODALITY, Record
from engine.inputs import check_regular_file
from engine.outputs.own import write_own
from engine.packages import package_versions
from engine.store.embedding.report import EmbedReport
from engine.store.image_source import ImageFolder, ImageSource, NoImages, RegionImages, digest_images
from engine.store.reader import Store, open_store
from engine.store.schema import MODALITIES, ORIGINAL
from engine.sweeps.run_file.options import CheckpointSpec, RunFile
from engine.sweeps.run_file.variants import files_of_variant
from engine.variants.variant import Modality, Side, Variant, VariantItems

STAMP_HEAD = b'{\n  "inputs": {'  # how the file of a stamp begins
ABSENT = "not there"
PYTHON = "python"  # the family of our own whose models are code of the user's


class Measured(Record):
    """What went through a model when a store was embedded, and the seconds that images and texts took."""

    images: int
    image_seconds: float
    texts: int
    text_seconds: float

    @classmethod
    def of(cls, report: EmbedReport) -> Measured | None:
        """What a report says; None where nothing was embedded."""
        images, texts = report.forwarded.get("images", 0), report.forwarded.get("texts", 0)
        if not images or not texts or not report.images_per_second:
            return None
        image_seconds = images / report.images_per_second
        rest = report.seconds["total"] - report.seconds.get("plan", 0.0) - image_seconds
        return cls(images=images, image_seconds=image_seconds, texts=texts, text_seconds=max(rest, 0.0))

    def seconds(self, images: int, texts: int) -> float:
        """How long so many items take at this rate."""
        return images * self.image_seconds / self.images + texts * self.text_seconds / self.texts


class Stamp(Record):
    """What was embedded, topic by topic, and what it gave: the encoder's fingerprint, and each set's key and
    counts by label. How long it took is no part of that.

    `repositories` are those of the model hub that took part (`engine.encoders.hub_cache`).
    """

    inputs: dict[str, str]
    repositories: tuple[str, ...] = ()
    encoder_spec: str
    encoder_fingerprint: str
    sets: dict[str, str]
    measured: Measured | None = None


@dataclasses.dataclass(frozen=True)
class AppliedVariant:
    """A `Variant` applied to the one corpus of a sweep: its items are made once for all checkpoints."""

    name: str
    side: Side
    modality: Modality
    items: VariantItems

    def apply(self, corpus: Corpus) -> VariantItems:
        """The items."""
        return self.items


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What all checkpoints of a sweep share; what takes time is done when first asked for, and once."""

    run_file: RunFile
    corpus: Corpus
    variants: Sequence[Variant]

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """What stores hold: with an index, what asks in it."""
        if self.run_file.index is None:
            return MODALITIES
        asking = {QUERY_MODALITY[direction] for direction in self.run_file.directions}
        return tuple(one for one in MODALITIES if one in asking)

    @property
    def stored_variants(self) -> tuple[Variant, ...]:
        """The variants whose items stores hold: with an index, those of queries."""
        if self.run_file.index is None:
            return tuple(self.variants)
        return tuple(one for one in self.variants if one.side == "query" and one.modality in self.modalities)

    @cached_property
    def applied(self) -> tuple[AppliedVariant, ...]:
        """The stored variants with their items. Raises `InputError` as the variants do."""
        return tuple(
            AppliedVariant(one.name, one.side, one.modality, one.apply(self.corpus))
            for one in self.stored_variants
        )

    @cached_property
    def source(self) -> ImageSource:
        """The image files, or the region features; none where no images are embedded."""
        if "images" not in self.modalities:
            return NoImages()
        spec = self.run_file.corpus
        if spec.features is not None:
            return RegionImages(self.corpus, spec.features)
        assert spec.images is not None
        return ImageFolder(self.corpus, spec.images)

    @cached_property
    def image_digests(self) -> tuple[str, ...]:
        """SHA-256 of what every image is (`ImageSource.digest`)."""
        return digest_images(self.source, self.run_file.workers)

    @cached_property
    def shared(self) -> dict[str, str]:
        """The part of a stamp's inputs that no checkpoint changes."""
        space = self.run_file.space
        return {
            "versions": json.dumps(package_versions(), sort_keys=True),
            "corpus": self.corpus.fingerprint,
            "images": hashed(self.image_states() if "images" in self.modalities else ()),
            "variants": json.dumps([variant_state(one) for one in self.stored_variants]),
            **({} if space is None else {"space": space}),
            "influence": json.dumps([model_state(one) for one in self.run_file.influence]),
            "precision": self.precision,
            "skip_unreadable": str(self.run_file.skip_unreadable),
        }

    def image_states(self) -> Iterator[str]:
        """The states of the image files, or of the files of region features."""
        spec = self.run_file.corpus
        if spec.features is not None:
            return (file_state(file) for file in sorted(files_of(spec.features)))
        assert spec.images is not None
        folder = spec.images
        return (image_state(folder, image.file) for image in self.corpus.images)

    @property
    def precision(self) -> str:
        """The precision, and in half precision what else decides an embedding."""
        options = self.run_file
        if options.precision == "fp32":
            return options.precision
        return f"{options.precision} on {options.device}, {options.batch_size} a batch"

    def of(self, checkpoint: CheckpointSpec, repositories: Iterable[str] = ()) -> dict[str, str]:
        """The inputs of a checkpoint's stamp, as they are now; `repositories` are those of the stamp."""
        return {
            "model": checkpoint.model,
            "weights": model_state(checkpoint.model),
            "hub": hub_state(repositories),
            "preprocess": str(checkpoint.preprocess),
            **self.shared,
        }

    def models(self, checkpoint: CheckpointSpec) -> tuple[str, ...]:
        """The specs of all models that decide what the store of a checkpoint holds."""
        return (checkpoint.model, *self.run_file.influence)

    def repositories(self, checkpoint: CheckpointSpec) -> tuple[str, ...]:
        """The repositories of the model hub that its models are taken from, as far as they are cached."""
        return tuple(sorted({one for model in self.models(checkpoint) for one in cached_repositories(model)}))

    def can_be_known(self, checkpoint: CheckpointSpec) -> bool:
        """Whether files say all that its models depend on."""
        return not any(is_foreign(model) for model in self.models(checkpoint))

    @property
    def labels(self) -> list[str]:
        """The sets that a store of this sweep holds."""
        originals = [f"{modality}/{ORIGINAL}" for modality in self.modalities]
        return [*originals, *(f"{one.modality}/{one.name}" for one in self.stored_variants)]


def is_embedded(stamp_file: Path, store_file: Path, inputs: Inputs, checkpoint: CheckpointSpec) -> bool:
    """Whether the stamp says that the store of a checkpoint is complete, and of these inputs."""
    stamp = read_stamp(stamp_file) if inputs.can_be_known(checkpoint) else None
    if stamp is None or stamp.inputs != inputs.of(checkpoint, stamp.repositories):
        return False
    try:
        with open_store(store_file) as store:
            now = stamp_of(store, stamp.inputs, stamp.repositories, inputs.labels, stamp.measured)
    except InputError:  # missing or damaged: embedding says so, or mends it
        return False
    return stamp == now


def stamp_of(
    store: Store,
    inputs: dict[str, str],
    repositories: tuple[str, ...],
    labels: Sequence[str],
    measured: Measured | None,
) -> Stamp:
    """The stamp of an open store."""
    return Stamp(
        measured=measured,
        inputs=inputs,
        repositories=repositories,
        encoder_spec=store.header.encoder_spec,
        encoder_fingerprint=store.header.encoder_fingerprint,
        sets={
            info.label: f"{info.content_key}, {info.complete} complete, {info.skipped} skipped"
            for info in store.sets
            if info.label in labels
        },
    )


def read_stamp(file: Path) -> Stamp | None:
    """The stamp in a file; None when there is none that can be read."""
    try:
        check_regular_file(file, "a stamp")
        return Stamp.model_validate_json(file.read_bytes())
    except (InputError, OSError, ValidationError):
        return None


def write_stamp(stamp: Stamp, file: Path) -> None:
    """Write the stamp whole or not at all."""
    write_own(file, lambda temporary: temporary.write_text(stamp.model_dump_json(indent=2) + "\n"))


def file_state(file: Path) -> str:
    """A file's path, size and times of change, in nanoseconds."""
    try:
        found = file.stat()
    except OSError:
        return f"{file} {ABSENT}"
    return f"{file} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def image_state(folder: Path, file: str) -> str:
    """The `file_state` of a corpus' image."""
    try:
        return file_state(find_image(folder, file).path)
    except UnreadableImage:
        return f"{file} {ABSENT}"


def hashed(states: Iterable[str]) -> str:
    """One SHA-256 (hex) of many states."""
    digest = hashlib.sha256()
    for state in states:
        digest.update(state.encode(errors="surrogateescape") + b"\n")
    return digest.hexdigest()


def is_foreign(model: str) -> bool:
    """Whether a model runs code of the user's or a plug-in's."""
    family = parse_spec(model)[0]
    return family == PYTHON or family not in model_families()


def model_state(model: str) -> str:
    """The states of the files of a model, as one SHA-256 (hex)."""
    return hashed(file_state(file) for file in weight_files(model))


def hub_state(repositories: Iterable[str]) -> str:
    """The states of the files that repositories of the model hub stand for, as one SHA-256 (hex)."""
    return hashed(map(file_state, cached_files(repositories)))


def weight_files(model: str) -> list[Path]:
    """Every file that a model's spec may stand for: those it names or that lie beside them (configuration,
    vocabulary), and all in a folder that it names."""
    _, *parts = parse_spec(model)
    words = {word for part in parts if part for word in path_words(part)}
    return sorted({file for word in words for file in files_at(Path(word))})


def files_at(path: Path) -> Iterator[Path]:
    """The files in a folder and below, or a file and those that belong to its model, beside it.

    These are told by their names: checkpoints and logs, which a training run adds, decide nothing.
    """
    if path.is_file():
        yield path
        yield from (file for name in MODEL_FILES if (file := path.parent / name).is_file())
        yield from vocabulary_files([path.parent])
    elif path.is_dir():
        for folder, _, names in os.walk(path):
            yield from (Path(folder, name) for name in names)


def files_of(path: Path) -> Iterator[Path]:
    """A file itself, or the files in a folder."""
    return (file for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file())


def variant_state(variant: Variant) -> list[str]:
    """A variant's name and the states of its files."""
    return [variant.name, *(file_state(file) for file in files_of_variant(variant))]
