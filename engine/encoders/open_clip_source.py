"""Where an open_clip model comes from, with its configuration and preprocessing: a tag, a file, a folder.

- ``open_clip:ViT-B-32:openai``: a published tag of open_clip's own table. Only this may use the network.
- ``open_clip:ViT-B-16-quickgelu:/path/to/checkpoint.pt``: an architecture of open_clip and a file of weights.
  Preprocessing and activation are those of an ``open_clip_config.json`` beside the file, or named by the
  user, the activation by the model's name: ``-quickgelu``, or ``-gelu`` for what open_clip gives no suffix.
- ``open_clip:local-dir:/path``: a folder with ``open_clip_config.json``, weights, and the tokenizer's files
  where it has one of its own.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import open_clip
from huggingface_hub import HfApi
from open_clip import pretrained as published

from engine.encoders.model_files import check_model_files, read_object
from engine.encoders.offline import hub_cache, no_network
from engine.encoders.preprocess import PRESETS, Preprocess, parse_preprocess, preprocess_from_config
from engine.encoders.request import EncoderRequest
from engine.errors import InputError
from engine.inputs import check_regular_file

LOCAL_DIR = "local-dir"
SECONDS_TO_ANSWER = 10.0
CONFIG_FILE = "open_clip_config.json"
GELU, QUICK_GELU = "-gelu", "-quickgelu"  # the first is a suffix of ours, the second of open_clip's
TOKENIZER_FILE = "tokenizer.json"
WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pth", ".pt")
USUAL_WEIGHTS = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
    "model.safetensors",
    "pytorch_model.bin",
)


@dataclass(frozen=True)
class ModelSource:
    """What is needed to build a model: `label` names it in errors.

    `config` has open_clip's own form (``embed_dim``, ``vision_cfg``, ``text_cfg``, ...); `tokenizer_folder`
    holds the tokenizer's files, or is None where the configuration says which it is; `online` is true only
    where the user asked for published files.
    """

    label: str
    config: Mapping[str, Any]
    weights: Path
    preprocess: Preprocess
    tokenizer_folder: Path | None
    online: bool


def find_source(request: EncoderRequest) -> ModelSource:
    """The source of a request. Raises `InputError` for an unknown model or tag, and for what a file
    or folder lacks."""
    if request.weights is None:
        raise InputError(f"{request.spec}: names no weights; expected {_expected_weights(request.name)}")
    if request.name == LOCAL_DIR:
        return _from_folder(request, Path(request.weights).expanduser())
    config = _published_config(request.name)
    if tag := _tag(request):
        return _from_tag(request, config, tag)
    return _from_file(request, config, Path(request.weights).expanduser())


def check_source(request: EncoderRequest) -> None:
    """Raise `InputError` as `find_source` does, as far as nothing has to be downloaded."""
    tagged = request.weights is not None and request.name != LOCAL_DIR
    if tagged and _published_config(request.name) and _tag(request):
        return
    find_source(request)


def _tag(request: EncoderRequest) -> Mapping[str, Any]:
    """What open_clip says of the published weights; empty where the name is no tag."""
    found: Mapping[str, Any] = published.get_pretrained_cfg(request.name, request.weights)
    return found


def _expected_weights(name: str) -> str:
    if name == LOCAL_DIR:
        return f"{LOCAL_DIR}:FOLDER"
    _published_config(name)
    tags = published.list_pretrained_tags_by_model(name)
    known = f" ({', '.join(tags)})" if tags else ""
    return f"{name}:TAG{known} or {name}:FILE"


def _published_config(name: str) -> dict[str, Any]:
    plain = name.removesuffix(GELU)
    if name in open_clip.list_models() or leaves_activation_open(plain):
        config: dict[str, Any] = open_clip.get_model_config(plain)
        return config
    nearest = difflib.get_close_matches(name, [*open_clip.list_models(), LOCAL_DIR], n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ";"
    raise InputError(
        f"unknown open_clip model {name!r}{hint} open_clip.list_models() lists all; "
        f"a model of your own is open_clip:{LOCAL_DIR}:FOLDER"
    )


def leaves_activation_open(name: str) -> bool:
    """Whether open_clip has models of this name with GELU and with QuickGELU, which no weights tell apart."""
    return name + QUICK_GELU in open_clip.list_models()


def _from_tag(request: EncoderRequest, config: dict[str, Any], tag: Mapping[str, Any]) -> ModelSource:
    quick_gelu = bool(tag.get("quick_gelu", False))
    if config.get("quick_gelu", False) and not quick_gelu:
        raise InputError(
            f"{request.spec}: these weights were trained with GELU, {request.name} computes "
            "QuickGELU; take the name without"
        )
    if quick_gelu:
        config["quick_gelu"] = True
    preprocess = _named_or(
        request,
        lambda: Preprocess(tuple(tag["mean"]), tuple(tag["std"]), tag["interpolation"], tag["resize_mode"]),
    )
    return ModelSource(request.spec, config, _download(request, tag), preprocess, None, online=True)


def _download(request: EncoderRequest, tag: Mapping[str, Any]) -> Path:
    repository = str(tag.get("hf_hub", "")).rstrip("/")
    try:
        cached = cached_weights(tag) if repository else None
        if cached is not None:
            return cached
        if repository:  # one request that fails at once, where each file would be asked for six times
            HfApi().model_info(repository, timeout=SECONDS_TO_ANSWER)
        return Path(published.download_pretrained(tag))
    except Exception as error:  # whatever the transport raises
        fetch = f"`hf download {repository}`" if repository else f"download {tag.get('url')}"
        raise InputError(
            f"{request.spec}: the weights are not on this machine and could not be downloaded "
            f"({type(error).__name__}); looked in {hub_cache()}; run {fetch} where there is a network "
            "and bring "
            f"that folder here, or give a file: open_clip:{request.name}:/path/to/weights"
        ) from error


def cached_weights(tag: Mapping[str, Any]) -> Path | None:
    """The weights of a tag in the hub's cache; None where they are not. Not for a tag that is an address."""
    try:
        with no_network():
            return Path(published.download_pretrained(tag))
    except Exception:  # noqa: BLE001 - whatever the library raises for what it does not have
        return None


def _from_file(request: EncoderRequest, config: dict[str, Any], weights: Path) -> ModelSource:
    if os.path.lexists(weights):
        check_regular_file(weights, "a checkpoint")
    else:
        tags = published.list_pretrained_tags_by_model(request.name)
        nearest = difflib.get_close_matches(str(request.weights), tags, n=1, cutoff=0.5)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f"; tags: {', '.join(tags)}" if tags else ""
        raise InputError(
            f"{request.spec}: {str(weights)!r} is neither a file nor a published tag of {request.name}{hint}"
        )
    beside = weights.parent / CONFIG_FILE
    if os.path.lexists(beside):  # else the folder may be any
        check_model_files(weights.parent)
    else:
        _check_activation(request, weights)
        return ModelSource(
            request.spec, config, weights, _named_or(request, _not_named(weights)), None, online=False
        )
    document = _read_config(beside)
    if document["model_cfg"] != config:
        raise InputError(
            f"{beside}: describes another architecture than {request.name}; "
            f"to use the one it describes give open_clip:{LOCAL_DIR}:{weights.parent}"
        )
    preprocess = _named_or(
        request, lambda: preprocess_from_config(document.get("preprocess_cfg"), str(beside))
    )
    return ModelSource(
        request.spec, config, weights, preprocess, _tokenizer_folder(weights.parent), online=False
    )


def _from_folder(request: EncoderRequest, folder: Path) -> ModelSource:
    if not folder.is_dir():
        raise InputError(f"{request.spec}: no such folder")
    check_model_files(folder)
    file = folder / CONFIG_FILE
    if not file.is_file():
        raise InputError(f"{folder}: holds no {CONFIG_FILE}, which says how the model is built")
    document = _read_config(file)
    preprocess = _named_or(request, lambda: preprocess_from_config(document.get("preprocess_cfg"), str(file)))
    return ModelSource(
        request.spec, document["model_cfg"], _find_weights(folder), preprocess, folder, online=False
    )


def _tokenizer_folder(folder: Path) -> Path | None:
    return folder if (folder / TOKENIZER_FILE).is_file() else None


def _named_or(request: EncoderRequest, own: Callable[[], Preprocess]) -> Preprocess:
    """The preprocessing that the user named, or the checkpoint's own."""
    return own() if request.preprocess is None else parse_preprocess(request.preprocess)


def _check_activation(request: EncoderRequest, weights: Path) -> None:
    """Raise `InputError` for a file of weights that fit two activations, where the model's name leaves it
    open."""
    name = request.name
    if leaves_activation_open(name):
        raise InputError(
            f"{weights}: nothing says whether it was trained with QuickGELU (OpenAI's weights and what is "
            "fine-tuned from them) or GELU, and a wrong guess would go unnoticed; name it as "
            f"{request.family}:{name}{QUICK_GELU}:FILE or {request.family}:{name}{GELU}:FILE, or put the "
            f"model's {CONFIG_FILE} beside the file"
        )


def _not_named(weights: Path) -> Callable[[], Preprocess]:
    def fail() -> Preprocess:
        raise InputError(
            f"{weights}: nothing says how its images are preprocessed, and a wrong guess would go "
            "unnoticed; name it with "
            f"--preprocess ({', '.join(PRESETS)}) or put the model's {CONFIG_FILE} beside the file"
        )

    return fail


def _read_config(file: Path) -> dict[str, Any]:
    """The document of a configuration file, with the parts that are read here checked."""
    document = read_object(file)
    config = document.get("model_cfg")
    if not isinstance(config, dict):
        raise InputError(f"{file}: has no object model_cfg, which says how the model is built")
    for field in ("vision_cfg", "text_cfg"):
        if not isinstance(config.get(field), dict):
            raise InputError(f"{file}: model_cfg.{field} is {config.get(field)!r}, expected an object")
    if not isinstance(config.get("embed_dim"), int) or config["embed_dim"] < 1:
        raise InputError(
            f"{file}: model_cfg.embed_dim is {config.get('embed_dim')!r}, expected an integer above 0"
        )
    return document


def _find_weights(folder: Path) -> Path:
    found = sorted(
        path.name for path in folder.iterdir() if path.suffix in WEIGHT_SUFFIXES and path.is_file()
    )
    usual = [name for name in USUAL_WEIGHTS if name in found]
    if usual:
        return folder / usual[0]
    if len(found) == 1:
        return folder / found[0]
    if not found:
        raise InputError(
            f"{folder}: holds no weights; expected {USUAL_WEIGHTS[0]} or one file "
            f"{', '.join(WEIGHT_SUFFIXES)}"
        )
    raise InputError(
        f"{folder}: holds several weights ({', '.join(found)}); name the right one {USUAL_WEIGHTS[0]} "
        "or leave one"
    )
