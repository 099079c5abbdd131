"""From the layouts of BLIP files to the keys of the library's `BlipForImageTextRetrieval`."""

from __future__ import annotations

import re

from engine.encoders.weights import Weights

# momentum copies, queues, temperature, the captioning decoder of pre-training: scoring uses none of them
_UNUSED = (
    r"_m\.",
    r"^(image|text|idx)_queue$",
    r"^(queue_ptr|ptr_queue)$",
    r"^temp$",
    r"^text_decoder\.",
    r"\.position_ids$",
)
_VISION_KEYS = (
    (r"^visual_encoder\.norm\.", "vision_model.post_layernorm."),
    (r"^visual_encoder\.cls_token$", "vision_model.embeddings.class_embedding"),
    (r"^visual_encoder\.pos_embed$", "vision_model.embeddings.position_embedding"),
    (r"^visual_encoder\.patch_embed\.proj\.", "vision_model.embeddings.patch_embedding."),
    (
        r"^visual_encoder\.blocks\.(\d+)\.attn\.proj\.",
        r"vision_model.encoder.layers.\1.self_attn.projection.",
    ),
    (r"^visual_encoder\.blocks\.(\d+)\.attn\.", r"vision_model.encoder.layers.\1.self_attn."),
    (r"^visual_encoder\.blocks\.(\d+)\.norm([12])\.", r"vision_model.encoder.layers.\1.layer_norm\2."),
    (r"^visual_encoder\.blocks\.(\d+)\.", r"vision_model.encoder.layers.\1."),
)


def library_layout(weights: Weights) -> Weights:
    """The weights under the library's keys; a file in the library's own format passes unchanged."""
    return weights.without(*_UNUSED).renamed(_library_key)


def _library_key(key: str) -> str:
    for pattern, replacement in _VISION_KEYS:
        renamed, found = re.subn(pattern, replacement, key)
        if found:
            return renamed
    return key
