"""ALBEF's tensors: from a checkpoint to embeddings and matching logits."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.albef.vision import VisionSizes, VisionTransformer, read_vision_sizes
from engine.encoders.bert import Bert, BertSizes, read_bert_sizes
from engine.encoders.checkpoint import flat_weights, read_checkpoint
from engine.encoders.positions import fit_to_image
from engine.encoders.weights import Weights
from engine.errors import InputError

FAMILY = "albef"
# momentum copies, queues, temperature, word-prediction head: scoring uses none of them
_UNUSED = (r"_m\.", r"^(image|text|idx)_queue$", r"^(queue_ptr|ptr_queue)$", r"^temp$")
_UNUSED_IN_TEXT = (r"\.cls\.", r"\.position_ids$", r"\.pooler\.")


class TextOutput(NamedTuple):
    """Text states [n, tokens, width] before the fusion layers, and the projected first token [n, dim]."""

    hidden: Tensor
    projected: Tensor


class ImageOutput(NamedTuple):
    """Image tokens [n, tokens, width] and the projected first token [n, dim]."""

    hidden: Tensor
    projected: Tensor


class Albef(nn.Module):
    """Both towers, their projections, and the matching head over the fusion layers of the text tower."""

    def __init__(self, vision: VisionSizes, text: BertSizes, dim: int) -> None:
        super().__init__()
        self.image_size = 0
        self.heads = (vision.heads, text.heads)
        self.sizes = text
        self.dim = dim
        self.visual_encoder = VisionTransformer(vision)
        self.text_encoder = Bert(text)
        self.vision_proj = nn.Linear(vision.width, dim)
        self.text_proj = nn.Linear(text.width, dim)
        self.itm_head = nn.Linear(text.width, 2)

    def encode_image(self, pixels: Tensor) -> ImageOutput:
        """float32 [n, 3, image_size, image_size]; `functional.normalize` of `projected` is the embedding."""
        hidden = self.visual_encoder(pixels)
        return ImageOutput(hidden, self.vision_proj(hidden[:, 0]))

    def encode_text(self, ids: Tensor, mask: Tensor) -> TextOutput:
        """int64 [n, tokens] and its mask (1 for true tokens); only the layers before the fusion run."""
        embedded = self.text_encoder.embed(ids)
        hidden = self.text_encoder.run(embedded, mask, 0, self.sizes.first_cross_layer)
        return TextOutput(hidden, self.text_proj(hidden[:, 0]))

    def match(self, image: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits [n, 2] (no match, match) of image tokens, one image for all or one a text, and n texts."""
        return self.fuse(image, self.text_states(ids, mask), mask)

    def text_states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[n, tokens, width]: the texts before the fusion layers, which depends on no image."""
        return self.encode_text(ids, mask).hidden

    def fuse(self, image: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """`match` for `text_states`: the fusion layers alone."""
        first, stop = self.sizes.first_cross_layer, self.sizes.layers
        fused = self.text_encoder.run(text, mask, first, stop, image)
        logits: Tensor = self.itm_head(fused[:, 0])
        return logits


def load_albef(
    path: Path,
    *,
    image_size: int | None = None,
    image_heads: int | None = None,
    text_heads: int | None = None,
) -> Albef:
    """The model in a checkpoint of ALBEF, fine-tuned or pre-training layout.

    `image_size` (pixels) interpolates the positions; None keeps the trained size. The heads default to one
    for every 64 of a tower's width. Raises `InputError` for a key that is missing, unexpected or wrongly
    shaped.
    """
    weights = _usual_layout(flat_weights(read_checkpoint(path), FAMILY, path))
    text = read_bert_sizes(weights.below("text_encoder."), text_heads)
    if text.first_cross_layer in (0, text.layers):
        raise InputError(
            f"{path}: {'every' if text.layers and not text.first_cross_layer else 'no'} text layer has a "
            f"cross-attention; expected it in the later ones (family '{FAMILY}')"
        )
    patch = weights.shape("visual_encoder.patch_embed.proj.weight", 4)[2]
    weights, size = fit_to_image(weights, "visual_encoder.pos_embed", patch, image_size)
    vision = read_vision_sizes(weights.below("visual_encoder."), image_heads)
    dim = weights.shape("vision_proj.weight", 2)[0]
    model: Albef = weights.build(lambda: Albef(vision, text, dim))
    model.image_size = size
    return model


def normalised(projected: Tensor) -> Tensor:
    """Rows of length 1 (ALBEF and BLIP divide by the norm, at least 1e-12)."""
    return functional.normalize(projected, dim=-1)


def _usual_layout(weights: Weights) -> Weights:
    """Pre-training files hold the text tower one level deeper, beside the word-prediction head."""
    return weights.without(*_UNUSED).renamed(_usual_key).without(*_UNUSED_IN_TEXT)


def _usual_key(key: str) -> str:
    return key.replace("bert.", "")
