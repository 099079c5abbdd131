"""The files of a model's folder, checked before a library reads them.

A library waits for ever for a pipe, and what it says of a folder, a cut-off file or JSON of another shape is
often about something else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.inputs import check_regular_file

OBJECTS = (
    "config.json",
    "open_clip_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
    "sentence_transformers_config.json",
)
OTHERS = (
    "modules.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
MODEL_FILES = (*OBJECTS, *OTHERS)
"""What libraries look for in a model's folder."""
LARGEST_JSON = 1 << 28  # bytes: several times the largest vocabulary there is


def check_model_files(folder: Path) -> None:
    """Raise `InputError` for a file that libraries look for in a folder and that is none, or no JSON object.

    What is not there is not missed.
    """
    for name in MODEL_FILES:
        if os.path.lexists(folder / name):
            check_regular_file(folder / name, "a file of the model")
            if name in OBJECTS:
                read_object(folder / name)


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises `InputError` for anything else."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise InputError(f"{file}: holds a JSON {type(value).__name__}; expected an object")
    return value


def read_json(file: Path) -> Any:
    """The JSON in a file. Raises `InputError` for what is none, or larger than `LARGEST_JSON`."""
    size = check_regular_file(file, "a JSON file of the model").st_size
    if size > LARGEST_JSON:
        raise InputError(f"{file}: {size:,} bytes; expected JSON of at most {LARGEST_JSON:,}")
    try:
        return json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not valid JSON ({error}); get the file again") from None
