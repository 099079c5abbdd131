"""CLIP models saved by sentence-transformers: ``sentence_transformers:NAME`` or a folder.

Such a folder is a list of modules, and a CLIP model is one module of transformers (and perhaps a
normalisation, which is done anyway). So it is opened as the transformers family opens one, key by key;
sentence-transformers itself is not needed. A name without an owner is one of theirs, as in their library.
"""

from __future__ import annotations

from pathlib import Path

from engine.encoders.forward import check_no_preprocess, open_forward
from engine.encoders.model_files import check_model_files, read_json, read_object
from engine.encoders.request import EncoderRequest
from engine.encoders.transformers.encoder import TransformersEncoder, open_folder
from engine.encoders.transformers.source import Layout, check_name, find_folder, missing_files
from engine.errors import InputError

OWNER = "sentence-transformers"
MODULES = "modules.json"
SETTINGS = "config_sentence_transformers.json"
MODULE_SETTINGS = ("sentence_bert_config.json", "sentence_transformers_config.json")
_MODEL_KINDS = ("CLIPModel", "Transformer")
_NEUTRAL_KINDS = ("Normalize",)


def open_family(request: EncoderRequest) -> TransformersEncoder:
    """Open a model by its name or from a folder. Raises `InputError`, also for a model that is more than
    two towers: a pooling, a projection of its own, a prompt."""
    check_request(request)
    root = find_folder(hub_name(request), request.spec, LAYOUT)
    _refuse_prompt(root)
    folder = model_folder(root)
    return open_folder(request, open_forward(request), folder, _longest_text(folder))


def check_request(request: EncoderRequest) -> None:
    """Raise `InputError` for what can be known to be wrong without a download or reading weights."""
    if request.weights is not None:
        raise InputError(f"{request.spec}: has a third part; expected {request.family}:NAME or a FOLDER")
    check_no_preprocess(request)
    check_name(hub_name(request), request.spec, LAYOUT)


def hub_name(request: EncoderRequest) -> str:
    """The folder or the full name of the hub."""
    bare = not Path(request.name).expanduser().is_dir() and "/" not in request.name
    return f"{OWNER}/{request.name}" if bare else request.name


def _missing(root: Path) -> list[str]:
    check_model_files(root)
    if not (root / MODULES).is_file():
        return [f"the list of modules ({MODULES})"]
    folder = model_folder(root)
    check_model_files(folder)
    return missing_files(folder)


LAYOUT = Layout("sentence-transformers", _missing)


def model_folder(root: Path) -> Path:
    """The folder of the one module that is a model. Raises `InputError` when there is more to it."""
    file = root / MODULES
    modules = read_json(file)
    if not isinstance(modules, list) or not modules or not all(isinstance(one, dict) for one in modules):
        raise InputError(f"{file}: not a list of modules")
    kinds = [str(one.get("type")).rpartition(".")[2] for one in modules]
    beside = [kind for kind in kinds[1:] if kind not in _NEUTRAL_KINDS]
    if kinds[0] not in _MODEL_KINDS or beside:
        raise InputError(
            f"{file}: the modules are {', '.join(kinds)}; expected a CLIP model: "
            f"{' or '.join(_MODEL_KINDS)}, then nothing but {', '.join(_NEUTRAL_KINDS)}"
        )
    path = modules[0].get("path")
    if not isinstance(path, str) or (path and Path(path).name != path):
        raise InputError(f"{file}: the path of the model is {path!r}; expected a folder in this one")
    return root / path


def _refuse_prompt(root: Path) -> None:
    settings = read_object(root / SETTINGS) if (root / SETTINGS).is_file() else {}
    if prompt := settings.get("default_prompt_name"):
        raise InputError(
            f"{root / SETTINGS}: puts the prompt {prompt!r} before every text, which is not supported"
        )


def _longest_text(folder: Path) -> int | None:
    for name in MODULE_SETTINGS:
        if (folder / name).is_file():
            longest = read_object(folder / name).get("max_seq_length")
            if isinstance(longest, int) and longest > 0:
                return longest
    return None
