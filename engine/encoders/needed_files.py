"""Which files a model needs, and which of them are on this machine; nothing is downloaded or read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.encoders.offline import hub_cache
from engine.encoders.options import CheckpointOptions, checkpoint_paths, read_options
from engine.encoders.registry import EncoderRequest, parse_spec
from engine.encoders.vocabulary import vocabulary_files
from engine.errors import InputError


@dataclass(frozen=True)
class NeededFile:
    """A file: what it is, where it is or is looked for, and whether it is there."""

    what: str
    where: str
    there: bool


def needed_files(spec: str) -> list[NeededFile] | None:
    """The files of a spec's model; None for a family that cannot say (a plug-in's). Raises `InputError`."""
    family, name, weights = parse_spec(spec)
    find = _FINDERS.get(family)
    return None if find is None else find(EncoderRequest(family, name, weights))


_NOT_CACHED = "{0} is not in {1}; `hf download {0}` gets it"


def _file(what: str, path: Path) -> NeededFile:
    return NeededFile(what, str(path), path.is_file())


# ---------------------------------------------------------------- research checkpoints


_MATCHING_OPTIONS = ("vocab", "image_size", "image_heads", "text_heads")
_VSE_OPTIONS = ("vocab", "image_size", "text_heads")


def _with_word_pieces(request: EncoderRequest) -> list[NeededFile]:
    (checkpoint,) = checkpoint_paths(request, 1)
    options = read_options(request, _MATCHING_OPTIONS)
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    found = NeededFile("checkpoint", str(checkpoint), checkpoint.exists())
    return [found, _file("BERT's vocabulary", options.path("vocab", folder / "vocab.txt"))]


def _with_words(most: int) -> Callable[[EncoderRequest], list[NeededFile]]:
    def find(request: EncoderRequest) -> list[NeededFile]:
        checkpoints = checkpoint_paths(request, most)
        options = read_options(request, ("vocab",))
        return [*(_file("checkpoint", path) for path in checkpoints), _words(options, checkpoints[0])]

    return find


def _words(options: CheckpointOptions, checkpoint: Path) -> NeededFile:
    places = options.paths("vocab") or [checkpoint.parent]
    files = [str(file) for file in vocabulary_files(places)]
    there = bool(files) and all(Path(file).is_file() for file in files)
    looked = ", ".join(files) or f"{checkpoint.parent}/*vocab*.json, *vocab*.pkl"
    return NeededFile("vocabulary", looked, there)


def _vse_infty(request: EncoderRequest) -> list[NeededFile]:
    """The checkpoint says whether its text side is BERT or a GRU; one of both vocabularies is enough."""
    (checkpoint,) = checkpoint_paths(request, 1)
    options = read_options(request, _VSE_OPTIONS)
    words = _words(options, checkpoint)
    pieces = checkpoint.parent / "vocab.txt"
    if words.there or options.values.get("vocab") is not None or not pieces.is_file():
        where = words.where if words.there else f"{words.where}, or BERT's {pieces}"
        return [_file("checkpoint", checkpoint), NeededFile("vocabulary", where, words.there)]
    return [_file("checkpoint", checkpoint), _file("BERT's vocabulary", pieces)]


# ---------------------------------------------------------------- libraries


def _open_clip(request: EncoderRequest) -> list[NeededFile]:
    from open_clip import pretrained

    from engine.encoders.open_clip_source import CONFIG_FILE, LOCAL_DIR, WEIGHT_SUFFIXES, cached_weights

    if request.weights is None:
        raise InputError(f"{request.spec}: names no weights; expected open_clip:NAME:TAG or :FILE")
    place = Path(request.weights).expanduser()
    if request.name == LOCAL_DIR:
        found = sorted(str(file) for suffix in WEIGHT_SUFFIXES for file in place.glob(f"*{suffix}"))
        looked = ", ".join(found) or f"{place}/*.safetensors, ..."
        return [_file("configuration", place / CONFIG_FILE), NeededFile("weights", looked, bool(found))]
    tag = pretrained.get_pretrained_cfg(request.name, request.weights)
    if not tag:
        beside = place.parent / CONFIG_FILE
        shown = str(beside) if beside.is_file() else f"{beside}, or named with --preprocess"
        return [_file("weights", place), NeededFile("preprocessing", shown, beside.is_file())]
    if not tag.get("hf_hub"):
        return [NeededFile("weights", f"downloaded from {tag.get('url')}", False)]
    cached = cached_weights(tag)
    repository = str(tag["hf_hub"]).rstrip("/")
    where = _NOT_CACHED.format(repository, hub_cache()) if cached is None else str(cached)
    return [NeededFile("weights", where, cached is not None)]


def _transformers(request: EncoderRequest) -> list[NeededFile]:
    from engine.encoders.transformers.source import HUB_NAME, cached_folder, wanted_files

    folder = Path(request.name).expanduser()
    if folder.is_dir():
        return _in_folder(wanted_files(folder), str(folder))
    if not HUB_NAME.fullmatch(request.name):
        return [NeededFile("the model", f"{request.name}: no such folder", False)]
    cached = cached_folder(request.name)
    if cached is None:
        return [NeededFile("the model", _NOT_CACHED.format(request.name, hub_cache()), False)]
    return _in_folder(wanted_files(cached), str(cached))


def _sentence_transformers(request: EncoderRequest) -> list[NeededFile]:
    from engine.encoders.sentence_transformers import MODULES, hub_name, model_folder
    from engine.encoders.transformers.source import cached_folder, wanted_files

    name = hub_name(request)
    root = Path(name).expanduser()
    if not root.is_dir():
        cached = cached_folder(name)
        if cached is None:
            return [NeededFile("the model", _NOT_CACHED.format(name, hub_cache()), False)]
        root = cached
    modules = _file("list of modules", root / MODULES)
    if not modules.there:
        return [modules]
    folder = model_folder(root)
    return [modules, *_in_folder(wanted_files(folder), str(folder))]


def _in_folder(wanted: Mapping[str, tuple[tuple[str, ...], bool]], folder: str) -> list[NeededFile]:
    return [
        NeededFile(what.removeprefix("the "), f"{folder}/{names[0]}", there)
        for what, (names, there) in wanted.items()
    ]


def _python(request: EncoderRequest) -> list[NeededFile]:
    if not request.name.endswith(".py"):
        return []
    return [_file("module", Path(request.name).expanduser())]


_FINDERS: Mapping[str, Callable[[EncoderRequest], list[NeededFile]]] = {
    "albef": _with_word_pieces,
    "blip": _with_word_pieces,
    "open_clip": _open_clip,
    "python": _python,
    "saf": _with_words(1),
    "saf+sgr": _with_words(2),
    "sgr": _with_words(1),
    "sentence_transformers": _sentence_transformers,
    "transformers": _transformers,
    "vse_infty": _vse_infty,
    "vsrn": _with_words(8),
}
