"""A causal text tower over the tokens that count, and no padding.

In CLIP's text tower a token sees only those before it, and the embedding is read at the end-of-text token. So
what follows that token changes nothing, and padding every text to the context length (77 tokens, where a COCO
caption has about 13) spends most of the time on nothing. Texts are put together by length, rounded up to
`STEP` tokens, so that a row depends on its own length and not on the texts beside it.
"""

from __future__ import annotations

from typing import Any

import open_clip
import torch
from open_clip.transformer import text_global_pool
from torch import Tensor

STEP = 8


def is_causal(model: torch.nn.Module) -> bool:
    """Whether the model's text tower is CLIP's own: causal, and read at the end-of-text token."""
    return type(model) is open_clip.CLIP and model.text_pool_type in ("argmax", "eos")


def needed_lengths(model: Any, tokens: Tensor) -> Tensor:
    """int64 [n]: how many of the tokens int64 [n, context] count, rounded up to `STEP`, at most all."""
    if model.text_pool_type == "argmax":
        ends = tokens.argmax(dim=-1)
    else:
        ends = (tokens == model.text_eos_id).int().argmax(dim=-1)
    return torch.clamp((ends // STEP + 1) * STEP, max=tokens.shape[1])


def encode_text(model: Any, tokens: Tensor) -> Tensor:
    """What ``model.encode_text`` gives, for tokens [n, length] cut to a length that all of them need."""
    length = tokens.shape[1]
    dtype = model.transformer.get_cast_dtype()
    hidden = model.token_embedding(tokens).to(dtype) + model.positional_embedding[:length].to(dtype)
    hidden = model.ln_final(model.transformer(hidden, attn_mask=model.attn_mask[:length, :length]))
    eos = getattr(model, "text_eos_id", None)
    pooled: Tensor = text_global_pool(hidden, tokens, model.text_pool_type, eos_token_id=eos)
    if isinstance(model.text_projection, torch.nn.Linear):
        pooled = model.text_projection(pooled)
    elif model.text_projection is not None:
        pooled = pooled @ model.text_projection
    return pooled
