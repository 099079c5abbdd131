"""The tokenizer of an open_clip model: built from its configuration, described for the fingerprint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from open_clip import tokenizer as tokenizers

from engine.encoders.identity import json_digest
from engine.encoders.library_errors import first_line
from engine.encoders.tokenizer_identity import describe_hub_tokenizer
from engine.errors import InputError

# others would name files, draw at random, or run code that came with a model
ALLOWED_SETTINGS = ("clean", "strip_sep_token", "language")
CLEANINGS = ("canonicalize", "lower", "whitespace")
CONTEXT_LENGTH = 77
MARKS = 2  # begin and end
CLIPS_MARKS = 3  # those, and the class token


def build_tokenizer(text_config: Mapping[str, Any], folder: Path | None, label: str) -> Any:
    """The tokenizer of a ``text_cfg``: list of texts to int64 ``[n, context_length]``, long texts cut.

    `folder` holds its files; without one a tokenizer that the configuration names is looked for in the cache
    of the model hub. Where none is named it is CLIP's own, which open_clip brings. Raises `InputError`.
    """
    settings = _settings(text_config, label)
    length = text_config.get("context_length", CONTEXT_LENGTH)
    if not isinstance(length, int) or length < 1:
        raise InputError(f"{label}: text_cfg.context_length is {length!r}, expected an integer above 0")
    name = text_config.get("hf_tokenizer_name")
    try:
        if not name:
            return tokenizers.SimpleTokenizer(context_length=length, **settings)
        tokenizer = tokenizers.HFTokenizer(
            str(folder) if folder else name,
            context_length=length,
            tokenizer_mode=text_config.get("tokenizer_mode"),
            trust_remote_code=False,
            **settings,
        )
    except Exception as error:  # whatever the tokenizer's library raises on files it cannot use
        raise InputError(_not_built(name, folder, label, error)) from error
    _check_special_tokens(tokenizer, label)
    return tokenizer


def _check_special_tokens(tokenizer: Any, label: str) -> None:
    """Raise `InputError` for a tokenizer without a token that every text gets."""
    needed = ["pad"]
    if tokenizer.tokenizer_mode == "clips":
        needed += ["bos", "eos", "cls"]
    if tokenizer.strip_sep_token:
        needed.append("sep")
    missing = [f"{name}_token" for name in needed if getattr(tokenizer.tokenizer, f"{name}_token") is None]
    if missing:
        raise InputError(
            f"{label}: the tokenizer has no {' and no '.join(missing)}; name it in tokenizer_config.json as "
            "the model was trained with it"
        )


def _settings(text_config: Mapping[str, Any], label: str) -> dict[str, Any]:
    settings = text_config.get("tokenizer_kwargs") or {}
    if not isinstance(settings, dict):
        raise InputError(f"{label}: text_cfg.tokenizer_kwargs is {settings!r}, expected an object")
    for field in settings:
        if field not in ALLOWED_SETTINGS:
            raise InputError(
                f"{label}: text_cfg.tokenizer_kwargs.{field} is not allowed in a checkpoint; "
                f"allowed: {', '.join(ALLOWED_SETTINGS)}"
            )
    if "clean" in settings and settings["clean"] not in CLEANINGS:
        raise InputError(
            f"{label}: tokenizer_kwargs.clean is {settings['clean']!r}, expected one of "
            f"{', '.join(CLEANINGS)}"
        )
    return settings


def _not_built(name: object, folder: Path | None, label: str, error: Exception) -> str:
    reason = f"({type(error).__name__}: {first_line(error)})"
    if not name:
        return f"{label}: CLIP's tokenizer cannot be built {reason}"
    if folder:
        return (
            f"{label}: {folder} holds no tokenizer that can be read {reason}; "
            "expected tokenizer.json and tokenizer_config.json"
        )
    return (
        f"{label}: needs the tokenizer {name!r}, which is not in the cache of the model hub {reason}; "
        f"run `hf download {name}` where there is a network, or put the weights, open_clip_config.json "
        "and the tokenizer's files in one folder and give open_clip:local-dir:FOLDER"
    )


def token_rows(tokenizer: Any, texts: Sequence[str]) -> list[NDArray[np.int32]]:
    """int32 [context_length] a text: the tokens that the model reads of it."""
    return list(tokenizer(list(texts)).numpy().astype(np.int32))


def is_cut(tokenizer: Any, text: str, row: NDArray[np.int32]) -> bool:
    """Whether a text has more tokens than its row of `token_rows`, those of its begin and end counted."""
    if is_padded(tokenizer, text, row):
        return False
    most: int = tokenizer.context_length
    cleaned = tokenizer.clean_fn(text)
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is not None:
        own_marks = tokenizer.tokenizer_mode != "clips"
        # the library's warning of long texts is of those that nobody cuts
        ids = inner(cleaned, truncation=False, verbose=False, add_special_tokens=own_marks)["input_ids"]
        return len(ids) + (0 if own_marks else CLIPS_MARKS) > most
    return len(tokenizer.encode(text)) + MARKS > most


def is_padded(tokenizer: Any, text: str, row: NDArray[np.int32]) -> bool:
    """Whether a row is known to end in padding, so that the text is whole; false where that is not sure."""
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is None:
        return bool(row[-1] == 0)  # the last token of a full row is the mark of the end
    if not text.isascii() or "&" in text:  # cleaning may write a mark that the text does not have
        return False
    marks = (inner.pad_token, inner.sep_token if tokenizer.strip_sep_token else None)
    if inner.padding_side != "right" or any(mark in text for mark in marks if mark is not None):
        return False
    # the last but one: at the very end there may be a class token, or a 0 where a mark was taken off
    return len(row) > 1 and bool(row[-2] == inner.pad_token_id)


def vocabulary_size(tokenizer: Any) -> int:
    """One more than the highest token a text can get."""
    inner = getattr(tokenizer, "tokenizer", None)
    return len(inner) if inner is not None else cast(int, tokenizer.vocab_size)


def describe_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """JSON-ready description: equal descriptions give equal tokens for every text."""
    description: dict[str, Any] = {
        "kind": type(tokenizer).__name__,
        "context_length": tokenizer.context_length,
        "clean": tokenizer.clean_fn.__name__,
    }
    inner = getattr(tokenizer, "tokenizer", None)
    if inner is None:
        return {
            **description,
            "vocabulary": json_digest(list(tokenizer.encoder)),
            "merges": json_digest(list(tokenizer.bpe_ranks)),
        }
    return {
        **description,
        "mode": tokenizer.tokenizer_mode,
        "strip_sep_token": tokenizer.strip_sep_token,
        **describe_hub_tokenizer(inner),
    }
