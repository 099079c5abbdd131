"""Which files a model needs, and which of them are on this machine; nothing is downloaded or read.

`needed_files` asks the model's family; the other functions are what families answer with.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.encoders.family import NeededFile
from engine.encoders.offline import hub_cache
from engine.encoders.options import CheckpointOptions, checkpoint_paths, read_options
from engine.encoders.registry import model_families, parse_spec
from engine.encoders.request import EncoderRequest
from engine.encoders.vocabulary import vocabulary_files


def needed_files(spec: str) -> list[NeededFile] | None:
    """The files of a spec's model; None for a family that cannot say (a plug-in's). Raises `InputError`."""
    family, name, weights = parse_spec(spec)
    known = model_families().get(family)
    return None if known is None else known.needed_files(EncoderRequest(family, name, weights))


def needed_file(what: str, path: Path) -> NeededFile:
    """One file."""
    return NeededFile(what, str(path), path.is_file())


def not_cached(what: str, repository: str) -> NeededFile:
    """What a repository of the model hub has, which is not in the cache."""
    where = f"{repository} is not in {hub_cache()}; `hf download {repository}` gets it"
    return NeededFile(what, where, False)


def needed_in_folder(folder: Path) -> list[NeededFile]:
    """What a folder of transformers must hold."""
    from engine.encoders.transformers.source import wanted_files

    return [
        NeededFile(what.removeprefix("the "), f"{folder}/{names[0]}", there)
        for what, (names, there) in wanted_files(folder).items()
    ]


def with_word_pieces(request: EncoderRequest) -> list[NeededFile]:
    """A checkpoint, file or folder, and BERT's vocabulary."""
    (checkpoint,) = checkpoint_paths(request, 1)
    options = read_options(request)
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    found = NeededFile("checkpoint", str(checkpoint), checkpoint.exists())
    return [found, needed_file("BERT's vocabulary", options.path("vocab", folder / "vocab.txt"))]


def with_words(most: int) -> Callable[[EncoderRequest], list[NeededFile]]:
    """At most so many checkpoints, and a vocabulary of words."""

    def find(request: EncoderRequest) -> list[NeededFile]:
        checkpoints = checkpoint_paths(request, most)
        vocabulary = needed_words(read_options(request), checkpoints[0])
        return [*(needed_file("checkpoint", path) for path in checkpoints), vocabulary]

    return find


def needed_words(options: CheckpointOptions, checkpoint: Path) -> NeededFile:
    """The vocabulary of words, which the options name or which lies beside the checkpoint."""
    places = options.paths("vocab") or [checkpoint.parent]
    files = [str(file) for file in vocabulary_files(places)]
    there = bool(files) and all(Path(file).is_file() for file in files)
    looked = ", ".join(files) or f"{checkpoint.parent}/*vocab*.json, *vocab*.pkl"
    return NeededFile("vocabulary", looked, there)
