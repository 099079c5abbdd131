"""BLIP's tensors: from a checkpoint to embeddings and matching logits, computed by the library's model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BlipConfig, BlipForImageTextRetrieval

from engine.encoders.bert import head_count
from engine.encoders.blip.layout import library_layout
from engine.encoders.checkpoint import flat_weights, read_checkpoint
from engine.encoders.model_files import check_model_files, read_object
from engine.encoders.positions import fit_to_image
from engine.encoders.weights import Weights
from engine.errors import InputError

FAMILY = "blip"
# the library's default of 1e-5 for the image moves matching logits by 5e-5
IMAGE_NORM_EPS = 1e-6
TEXT_NORM_EPS = 1e-12
_POSITIONS = "vision_model.embeddings.position_embedding"
_WEIGHT_FILES = ("model.safetensors", "pytorch_model.bin")


class Output(NamedTuple):
    """Tokens [n, tokens, width] of a tower's last layer, and the projected first token [n, dim]."""

    hidden: Tensor
    projected: Tensor


@dataclass(frozen=True)
class Blip:
    """The library's model in evaluation mode. `words` counts the rows of its token embeddings."""

    network: Any
    image_size: int
    dim: int
    words: int

    @property
    def heads(self) -> tuple[int, int]:
        """Attention heads of the image tower and of the text tower."""
        config = self.network.config
        return config.vision_config.num_attention_heads, config.text_config.num_attention_heads

    @property
    def positions(self) -> int:
        """The longest text in tokens."""
        return int(self.network.config.text_config.max_position_embeddings)

    @property
    def match_token(self) -> int:
        """The id of ``[ENC]``, the last word, which stands first in a text that is matched with an image."""
        return self.words - 1

    def encode_image(self, pixels: Tensor) -> Output:
        """float32 [n, 3, image_size, image_size]; `normalised` of `projected` is the embedding.

        The projection reads the last hidden state: the library's pooled output applies the final norm twice.
        """
        hidden = self.network.vision_model(pixel_values=pixels).last_hidden_state
        return Output(hidden, self.network.vision_proj(hidden[:, 0]))

    def encode_text(self, ids: Tensor, mask: Tensor) -> Output:
        """int64 [n, tokens] that begin with ``[CLS]``, and their mask; cross-attention is left out."""
        hidden = self.network.text_encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        return Output(hidden, self.network.text_proj(hidden[:, 0]))

    def text_states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """float32 [n, tokens, 1]: the ids themselves, exact below 2**24; every layer looks at the image."""
        return ids[..., None].float()

    def fuse(self, image: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """`match` for `text_states`."""
        return self.match(image, text[..., 0].long(), mask)

    def match(self, image: Tensor, ids: Tensor, mask: Tensor, *, keep_first: bool = False) -> Tensor:
        """Logits [n, 2] (no match, match) of image tokens, one image for all or one a text, and n texts.

        The first id is replaced by ``[ENC]`` as in the published evaluation; `keep_first` leaves ``[CLS]``
        there, which is what the library does, and gives other scores.
        """
        if not keep_first:
            ids = torch.cat([torch.full_like(ids[:, :1], self.match_token), ids[:, 1:]], dim=1)
        states = self.network.text_encoder(
            input_ids=ids,
            attention_mask=mask,
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.int64, device=image.device),
        ).last_hidden_state
        logits: Tensor = self.network.itm_head(states[:, 0])
        return logits


def normalised(projected: Tensor) -> Tensor:
    """Rows of length 1 (divided by the norm, at least 1e-12)."""
    return functional.normalize(projected, dim=-1)


def load_blip(
    path: Path,
    *,
    image_size: int | None = None,
    image_heads: int | None = None,
    text_heads: int | None = None,
) -> Blip:
    """The model in a checkpoint of BLIP, or in a folder in the library's own format.

    `image_size` (pixels) interpolates the positions; None keeps the trained size. The heads come from a
    folder's ``config.json``, else they default to one for every 64 of a tower's width. Raises `InputError`
    for a key that is missing, unexpected or wrongly shaped.
    """
    file, heads = _find_files(path)
    weights = library_layout(flat_weights(read_checkpoint(file), FAMILY, file))
    width, _, patch, _ = weights.shape("vision_model.embeddings.patch_embedding.weight", 4)
    weights, size = fit_to_image(weights, _POSITIONS, patch, image_size)
    config = _read_config(
        weights,
        size,
        head_count(weights, "image_heads", width, image_heads or heads.get("vision_config")),
        text_heads or heads.get("text_config"),
    )
    network = weights.build(lambda: BlipForImageTextRetrieval(config))
    _fill_position_ids(network)
    return Blip(network, size, config.image_text_hidden_size, config.text_config.vocab_size)


def _read_config(weights: Weights, image_size: int, image_heads: int, text_heads: int | None) -> BlipConfig:
    """The library's configuration with the sizes of the tensors."""
    words, text_width = weights.shape("text_encoder.embeddings.word_embeddings.weight", 2)
    width, _, patch, _ = weights.shape("vision_model.embeddings.patch_embedding.weight", 4)
    return BlipConfig(
        vision_config={
            "hidden_size": width,
            "intermediate_size": weights.shape("vision_model.encoder.layers.0.mlp.fc1.weight", 2)[0],
            "num_hidden_layers": weights.count("vision_model.encoder.layers.{}."),
            "num_attention_heads": image_heads,
            "image_size": image_size,
            "patch_size": patch,
            "layer_norm_eps": IMAGE_NORM_EPS,
        },
        text_config={
            "vocab_size": words,
            "bos_token_id": words - 2,
            "sep_token_id": None,
            "hidden_size": text_width,
            "encoder_hidden_size": width,
            "intermediate_size": weights.shape("text_encoder.encoder.layer.0.intermediate.dense.weight", 2)[
                0
            ],
            "num_hidden_layers": weights.count("text_encoder.encoder.layer.{}."),
            "num_attention_heads": head_count(weights, "text_heads", text_width, text_heads),
            "max_position_embeddings": weights.shape("text_encoder.embeddings.position_embeddings.weight", 2)[
                0
            ],
            "layer_norm_eps": TEXT_NORM_EPS,
        },
        image_text_hidden_size=weights.shape("vision_proj.weight", 2)[0],
    )


def _fill_position_ids(network: Any) -> None:
    """The one buffer that no file holds, empty until now because the model was made without storage."""
    embeddings = network.text_encoder.embeddings
    embeddings.position_ids = torch.arange(embeddings.position_embeddings.num_embeddings)[None]


def _find_files(path: Path) -> tuple[Path, Mapping[str, int]]:
    """The file of weights, and the attention heads of a folder's configuration by its section."""
    if not path.is_dir():
        return path, {}
    check_model_files(path)
    file = next((path / name for name in _WEIGHT_FILES if (path / name).is_file()), None)
    if file is None:
        raise InputError(f"{path}: no {' or '.join(_WEIGHT_FILES)} in this folder; expected a saved model")
    return file, _read_heads(path / "config.json")


def _read_heads(config: Path) -> dict[str, int]:
    content = read_object(config)
    try:
        return {part: int(content[part]["num_attention_heads"]) for part in ("vision_config", "text_config")}
    except (ValueError, TypeError) as error:
        raise InputError(f"{config}: not a configuration of BLIP ({error})") from None
    except KeyError as error:
        raise InputError(f"{config}: {error} is missing; expected a configuration of BLIP") from None
