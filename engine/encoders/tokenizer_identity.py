"""What a Hugging Face tokenizer is, for fingerprints."""

from __future__ import annotations

import json
from typing import Any

from engine.encoders.identity import json_digest


def describe_hub_tokenizer(tokenizer: Any) -> dict[str, Any]:
    """JSON-ready description: equal descriptions give equal tokens for every text."""
    return {
        "class": type(tokenizer).__name__,
        "special_tokens": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "padding_side": tokenizer.padding_side,
        "truncation_side": tokenizer.truncation_side,
        "model": json_digest(_pipeline(tokenizer)),
    }


def _pipeline(tokenizer: Any) -> Any:
    """Everything a fast tokenizer does; of a slow one its vocabulary and settings."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return [sorted(tokenizer.get_vocab().items()), repr(sorted(tokenizer.init_kwargs.items()))]
    pipeline = json.loads(backend.to_str())
    # set by every call, so they would depend on what was encoded before
    return {part: value for part, value in pipeline.items() if part not in ("padding", "truncation")}
