"""The folder of a transformers model: one that the user names, one in the hub's cache, or a download.

Only a name of the model hub whose files are not all on this machine uses the network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from engine.encoders.checkpoint import read_state_dict
from engine.encoders.model_files import check_model_files
from engine.encoders.offline import hub_cache
from engine.errors import InputError

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
SHARD_INDEX = ".index.json"
# any one of each: what a folder needs beside the configuration and the weights
IMAGE_PROCESSOR = ("preprocessor_config.json", "processor_config.json")
TOKENIZER = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model")
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_DESCRIPTIONS = ("*.json", "*.txt", "*.model")


@dataclass(frozen=True)
class Layout:
    """How the files of a model lie in a folder: what of them is missing, and what is not downloaded."""

    library: str
    missing: Callable[[Path], list[str]]
    ignored: Sequence[str] = ()


def find_folder(name: str, spec: str, layout: Layout | None = None) -> Path:
    """The folder of a name (``owner/model``) or path; downloads what a name lacks on this machine.

    The layout is that of transformers where none is given. Raises `InputError` for a folder that lacks
    files, and for a name that is neither here nor to be had.
    """
    layout = layout or TRANSFORMERS
    check_name(name, spec, layout)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    cached = cached_folder(name)
    if cached is not None and not layout.missing(cached):
        return cached
    return _download(name, spec, layout)


def check_name(name: str, spec: str, layout: Layout | None = None) -> None:
    """Raise `InputError` for what `find_folder` refuses before it looks for files elsewhere."""
    layout = layout or TRANSFORMERS
    folder = Path(name).expanduser()
    if folder.is_dir():
        check_model_files(folder)
        missing = layout.missing(folder)
        if missing:
            raise InputError(f"{folder}: lacks {'; '.join(missing)}; expected a folder of {layout.library}")
    elif not HUB_NAME.fullmatch(name):
        raise InputError(f"{spec}: {name!r} is neither a folder nor a name of the model hub (owner/model)")


def cached_folder(name: str) -> Path | None:
    """The folder of a hub name in the cache, whatever of it is there; None when nothing is."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError):
        return None


def wanted_files(folder: Path) -> dict[str, tuple[tuple[str, ...], bool]]:
    """What a model needs of a folder: the names that are there and whether any is, else all that will do."""
    wanted = {
        "the configuration": (CONFIG,),
        "the weights": (*WEIGHTS, *(name + SHARD_INDEX for name in WEIGHTS)),
        "the image processor": IMAGE_PROCESSOR,
        "the tokenizer": TOKENIZER,
    }
    there = {
        what: tuple(name for name in names if (folder / name).is_file()) for what, names in wanted.items()
    }
    return {what: (there[what] or names, bool(there[what])) for what, names in wanted.items()}


def missing_files(folder: Path) -> list[str]:
    """What a folder lacks, in words; empty when a model can be opened from it."""
    missing = [
        f"{what} ({' or '.join(names)})" for what, (names, there) in wanted_files(folder).items() if not there
    ]
    return missing or [f"the weights {file.name}" for file in weight_files(folder) if not file.is_file()]


TRANSFORMERS = Layout("transformers", missing_files, ignored=("*/*",))


def weight_files(folder: Path) -> list[Path]:
    """The files of the weights, safetensors before pickles; those that an index names, where there is one.

    Raises `InputError` for an index that is none, or that names files elsewhere.
    """
    for name in WEIGHTS:
        if (folder / name).is_file():
            return [folder / name]
        index = folder / (name + SHARD_INDEX)
        if index.is_file():
            return [folder / shard for shard in _shards(index)]
    return []


def _shards(index: Path) -> list[str]:
    try:
        names = set(json.loads(index.read_bytes())["weight_map"].values())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{index}: not an index of weights ({type(error).__name__}: {error})") from None
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise InputError(f"{index}: names the file {name!r}; expected files of the same folder")
    return sorted(names)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of all files of the weights, read without running code. Raises `InputError`."""
    tensors: dict[str, Tensor] = {}
    for file in weight_files(folder):
        tensors.update(read_state_dict(file))
    return tensors


def _download(name: str, spec: str, layout: Layout) -> Path:
    from huggingface_hub import snapshot_download

    reason = ""
    for patterns in _wanted_downloads():
        try:
            folder = Path(
                snapshot_download(name, allow_patterns=patterns, ignore_patterns=list(layout.ignored))
            )
        except Exception as error:  # noqa: BLE001 - whatever the transport raises
            reason = f" ({type(error).__name__})"
            break
        if not layout.missing(folder):
            return folder
    cached = cached_folder(name)
    there = "" if cached is None else f", where {'; '.join(layout.missing(cached))} is missing"
    raise InputError(
        f"{spec}: the model is not whole on this machine and could not be downloaded{reason}; looked in "
        f"{hub_cache()}{there}; run `hf download {name}` where there is a network and bring that folder "
        "here, or give the folder's path in place of the name"
    )


def _wanted_downloads() -> Iterator[list[str]]:
    """What to fetch, pickles only where there are no safetensors."""
    yield [*_DESCRIPTIONS, "model*.safetensors", "*/model*.safetensors"]
    yield [*_DESCRIPTIONS, "pytorch_model*.bin", "*/pytorch_model*.bin"]
