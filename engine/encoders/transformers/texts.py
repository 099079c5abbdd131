"""Texts for a transformers model: its own tokenizer, its context length, its rule of padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import transformers
from numpy.typing import NDArray
from torch import Tensor, nn

from engine.encoders.library_errors import first_line
from engine.encoders.token_memory import TokenMemory
from engine.encoders.tokenizer_identity import describe_hub_tokenizer
from engine.encoders.transformers.towers import Towers, library_quiet
from engine.errors import InputError

# models trained with every text padded to the context length: their towers read the padding
PADDED_MODELS = ("siglip", "siglip2")
# of processors that cut earlier than tokenizer and positions would
PROCESSOR_LIMITS: Mapping[str, int] = {"align": 64, "siglip2": 64}
UNLIMITED = 10**6  # above it, a tokenizer's length means that none is known

Tokens = dict[str, list[int]]


@dataclass(frozen=True)
class TextInput:
    """A tokenizer, the longest text in tokens, and whether every text is padded to that."""

    tokenizer: Any
    limit: int
    padded: bool
    names: frozenset[str]

    def tokens(self, texts: Sequence[str]) -> list[Tokens]:
        """What the model reads of each text, by name; cut at `limit`, padded where the model wants it."""
        return [tokens for tokens, _ in self._memory(texts)]

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: which of them have more tokens than the model reads."""
        full = [
            text for text, (_, used) in zip(texts, self._memory(texts), strict=True) if used == self.limit
        ]
        if not full:
            return np.zeros(len(texts), dtype=np.bool_)
        with library_quiet():
            whole = self.tokenizer(full, truncation=False, padding=False)["input_ids"]
        cut = {text for text, ids in zip(full, whole, strict=True) if len(ids) > self.limit}
        return np.array([text in cut for text in texts], dtype=np.bool_)

    @cached_property
    def _memory(self) -> TokenMemory[tuple[Tokens, int]]:
        # a method in it would be a cycle, and the model would stay in memory when another takes its place
        return TokenMemory(partial(_tokenise, self.tokenizer, self.limit, self.padded, self.names))

    @cached_property
    def identity(self) -> dict[str, Any]:
        """JSON-ready: equal identities give equal tokens."""
        return {**describe_hub_tokenizer(self.tokenizer), "limit": self.limit, "padded": self.padded}

    def describe(self) -> str:
        """In words."""
        padding = ", padded to it" if self.padded else ""
        return f"{type(self.tokenizer).__name__}, cut at {self.limit} tokens{padding}"


def _tokenise(
    tokenizer: Any, limit: int, padded: bool, names: frozenset[str], texts: Sequence[str]
) -> list[tuple[Tokens, int]]:
    """What the model reads of each text, and how many of the tokens are no padding."""
    with library_quiet():
        encoded = tokenizer(
            list(texts),
            truncation=True,
            max_length=limit,
            padding="max_length" if padded else False,
            return_attention_mask=True,
        )
    default = tokenizer.model_input_names
    read = [name for name in encoded if name in names and name in default]
    used = [sum(mask) for mask in encoded["attention_mask"]]
    return [({name: encoded[name][row] for name in read}, used[row]) for row in range(len(texts))]


def read_text_input(folder: Path, towers: Towers, longest: int | None = None) -> TextInput:
    """The tokenizer in a folder, with the limits of the model, and `longest` where that is less.

    Raises `InputError` for a tokenizer that cannot be read, that has tokens the model does not embed, or
    when nothing says how long a text may be.
    """
    try:
        with library_quiet():
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # whatever the library raises on files it cannot use
        raise InputError(
            f"{folder}: the tokenizer cannot be read: {type(error).__name__}: {first_line(error)}"
        ) from error
    config = towers.network.config
    words = getattr(getattr(config, "text_config", config), "vocab_size", None)
    highest = _highest_token(tokenizer)
    if words is not None and highest >= words:
        raise InputError(
            f"{folder}: the tokenizer has {highest + 1:,} tokens, the model embeds {words:,}; "
            "the tokenizer is of another model"
        )
    padded = config.model_type in PADDED_MODELS
    if padded and tokenizer.pad_token is None:
        raise InputError(f"{folder}: the tokenizer has no padding token, which the model reads")
    return TextInput(tokenizer, _limit(tokenizer, towers, folder, longest), padded, towers.text.inputs)


def _highest_token(tokenizer: Any) -> int:
    """The highest id that a text gets; not counted: marks of other tasks, which some models do not embed."""
    beside = {"bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "unk_token"}
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    used = {token for name, token in special.items() if name in beside}
    unused = set(map(str, tokenizer.all_special_tokens)) - used
    return max(int(row) for token, row in tokenizer.get_vocab().items() if token not in unused)


def _limit(tokenizer: Any, towers: Towers, folder: Path, longest: int | None) -> int:
    config = towers.network.config
    positions = getattr(getattr(config, "text_config", config), "max_position_embeddings", None)
    known = [
        longest,
        tokenizer.model_max_length if tokenizer.model_max_length < UNLIMITED else None,
        None if positions is None else positions - _positions_before_first(towers.network),
        PROCESSOR_LIMITS.get(config.model_type),
    ]
    limits = [limit for limit in known if limit is not None]
    if not limits or min(limits) < 1:
        raise InputError(f"{folder}: neither tokenizer nor configuration says how long a text may be")
    return int(min(limits))


def _positions_before_first(network: nn.Module) -> int:
    """RoBERTa counts positions from behind that of padding, so fewer can be used."""
    tables = (
        module
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
    )
    return next((table.padding_idx + 1 for table in tables if table.padding_idx is not None), 0)


def stack_tokens(tokens: Sequence[Tokens]) -> dict[str, Tensor]:
    """int64 [n, length] by name, of texts of one length."""
    import torch

    return {name: torch.tensor([one[name] for one in tokens]) for name in tokens[0]}
