"""The open_clip family: every dual encoder that open_clip can build, from a tag, a file or a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from open_clip.coca_model import CoCa
from open_clip.convert import convert_state_dict
from open_clip.model import CLIP, CustomTextCLIP, convert_to_custom_text_state_dict
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL.Image import Image
from torch import Tensor

from engine.encoders.checkpoint import read_state_dict
from engine.encoders.device import arithmetic
from engine.encoders.forward import Forward, Rows, resolve_forward
from engine.encoders.library_errors import first_line
from engine.encoders.offline import no_network
from engine.encoders.open_clip_source import ModelSource, check_source, find_source
from engine.encoders.open_clip_text import encode_text, is_causal, needed_lengths
from engine.encoders.open_clip_tokenizer import (
    build_tokenizer,
    describe_tokenizer,
    is_cut,
    token_rows,
    vocabulary_size,
)
from engine.encoders.opened import OpenedEncoder
from engine.encoders.preprocess import Preprocess
from engine.encoders.request import EncoderRequest
from engine.encoders.token_memory import TokenMemory
from engine.encoders.weights import Weights, hash_weights
from engine.errors import InputError

Tower = Callable[[Tensor], Tensor]

OPENAI_ENTRIES = (
    "input_resolution",
    "context_length",
    "vocab_size",
)  # only OpenAI's own state dicts hold these
POSITION_IDS = "text.transformer.embeddings.position_ids"  # dropped by transformers 4.31


check_request = check_source


def open_family(request: EncoderRequest) -> OpenClipEncoder:
    """Open ``open_clip:...`` (see `engine.encoders.open_clip_source` for the forms). Raises `InputError`.

    Only a published tag may use the network; files and folders are opened with it forbidden.
    """
    forward = resolve_forward(request)
    source = find_source(request)
    with nullcontext() if source.online else no_network():
        model = build_model(source)
        tokenizer = build_tokenizer(source.config["text_cfg"], source.tokenizer_folder, source.label)
    check_vocabulary(tokenizer, model, source)
    tensors = fit_names(read_state_dict(source.weights), model, source)
    Weights(request.family, str(source.weights), tensors).fill(model)
    return OpenClipEncoder(request, forward, source, model, tokenizer)


def build_model(source: ModelSource) -> torch.nn.Module:
    """The architecture of a configuration with random weights, none of them loaded from anywhere.

    Raises `InputError` for a configuration that open_clip cannot build.
    """
    config = deepcopy(dict(source.config))
    if config["vision_cfg"].get("timm_model_name"):
        config["vision_cfg"]["timm_model_pretrained"] = False
    language_model = config["text_cfg"].get("hf_model_name")
    if language_model:
        config["text_cfg"]["hf_model_pretrained"] = False
    custom_text = config.pop("custom_text", False) or language_model
    kind = CoCa if "multimodal_cfg" in config else CustomTextCLIP if custom_text else CLIP
    try:
        return cast(torch.nn.Module, kind(**config).eval().requires_grad_(False))
    except Exception as error:  # whatever open_clip, timm or transformers raise on values they cannot use
        hub = (
            f" (it needs the configuration of {language_model!r} from the model hub)"
            if language_model
            else ""
        )
        raise InputError(
            f"{source.label}: open_clip cannot build this configuration{hub}: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error


def check_vocabulary(tokenizer: Any, model: torch.nn.Module, source: ModelSource) -> None:
    """Raise `InputError` when the tokenizer can give tokens that the model has no embedding for."""
    text = getattr(model, "text", model)
    rows = getattr(text, "vocab_size", None) or source.config["text_cfg"].get("vocab_size")
    if rows and vocabulary_size(tokenizer) > rows:
        raise InputError(
            f"{source.label}: the tokenizer has {vocabulary_size(tokenizer):,} tokens, the model "
            f"embeds {rows:,}; "
            "the tokenizer is of another model"
        )


def fit_names(tensors: dict[str, Tensor], model: torch.nn.Module, source: ModelSource) -> dict[str, Tensor]:
    """The tensors under the names that open_clip uses now; nothing is resized or made up.

    Raises `InputError` for OpenAI's own weights in a model with another activation: they would load and be
    wrong.
    """
    if any(name in tensors for name in OPENAI_ENTRIES):
        if not source.config.get("quick_gelu", False):
            raise InputError(
                f"{source.weights}: OpenAI's own weights, which were trained with QuickGELU; "
                "take the model name that ends in -quickgelu"
            )
        tensors = {name: tensor for name, tensor in tensors.items() if name not in OPENAI_ENTRIES}
    tensors = convert_state_dict(model, tensors)
    if "positional_embedding" in tensors and not hasattr(model, "positional_embedding"):
        tensors = convert_to_custom_text_state_dict(tensors)
    expected = model.state_dict()
    if POSITION_IDS not in expected:
        tensors.pop(POSITION_IDS, None)
    for name in ("logit_scale", "logit_bias"):  # a number and a vector of one number say the same
        if name in tensors and name in expected and tensors[name].numel() == expected[name].numel() == 1:
            tensors[name] = tensors[name].reshape(expected[name].shape)
    return tensors


class OpenClipEncoder(OpenedEncoder):
    """An open_clip model as an `Encoder`.

    Texts of one length go through the model together (`engine.encoders.open_clip_text`); towers that are
    not CLIP's own see every text padded to the context length. `engine.encoders.forward.Forward` says how
    far a row depends on its batch.
    """

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        source: ModelSource,
        model: torch.nn.Module,
        tokenizer: Any,
    ) -> None:
        size = cast(Any, model.visual).image_size
        parts = _identity(request, source, model, tokenizer, size)
        super().__init__(request, forward, parts, source.config["embed_dim"])
        self._tokenizer, self._tokens = tokenizer, TokenMemory(partial(token_rows, tokenizer))
        self._transform = _transform(source.preprocess, size)
        self._description = _describe(forward, source, model, tokenizer, size)
        self._model: Any = model.to(forward.device)

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        return self._description

    def prepare_image(self, image: Image) -> Tensor:
        """float32 [3, height, width]: the model's own evaluation transform; keeps no state, so
        threads may share it."""
        return self._transform(image)

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: which of them the model reads without their end."""
        rows = self._tokens(texts)
        return np.array(
            [is_cut(self._tokenizer, *one) for one in zip(texts, rows, strict=True)], dtype=np.bool_
        )

    def _image_vectors(self, images: Sequence[Tensor]) -> Iterator[tuple[Rows, Tensor]]:
        for rows, batch in self._forward.image_batches(images):
            yield rows, self._run(self._model.encode_image, batch)[: len(rows)]

    def _text_vectors(self, texts: Sequence[str]) -> Iterator[tuple[Rows, Tensor]]:
        if not texts:
            return
        tokens = torch.from_numpy(np.stack(self._tokens(texts))).long()
        if is_causal(self._model):
            lengths, tower = needed_lengths(self._model, tokens), partial(encode_text, self._model)
        else:
            lengths, tower = torch.full((len(tokens),), tokens.shape[1]), self._model.encode_text
        for rows in self._forward.batches(lengths.tolist(), equal=True):
            batch = self._forward.filled(tokens[rows, : lengths[rows[0]]]).to(self._forward.device)
            yield rows, self._run(tower, batch)[: len(rows)]

    def _run(self, tower: Tower, batch: Tensor) -> Tensor:
        with self._forward.passes():
            return tower(batch)


def _transform(preprocess: Preprocess, size: Any) -> Callable[[Image], Tensor]:
    config = PreprocessCfg(size=size, mode="RGB", **preprocess.describe())
    return cast("Callable[[Image], Tensor]", image_transform_v2(config, is_train=False))


def _identity(
    request: EncoderRequest, source: ModelSource, model: torch.nn.Module, tokenizer: Any, size: Any
) -> dict[str, Any]:
    return {
        "family": request.family,
        "weights": hash_weights(model),
        "model": source.config,
        "preprocess": {**source.preprocess.describe(), "size": size},
        "tokenizer": describe_tokenizer(tokenizer),
        **arithmetic(request),
    }


def _describe(
    forward: Forward, source: ModelSource, model: torch.nn.Module, tokenizer: Any, size: Any
) -> dict[str, str]:
    height, width = size if isinstance(size, tuple | list) else (size, size)
    p = source.preprocess
    return {
        "weights": f"{source.weights} ({sum(x.numel() for x in model.parameters()):,} parameters)",
        "activation": "QuickGELU" if source.config.get("quick_gelu", False) else "GELU",
        "images": (
            f"{height} x {width}, resized by {p.resize_mode}, {p.interpolation}, "
            f"mean {_numbers(p.mean)}, std {_numbers(p.std)}"
        ),
        "texts": f"{type(tokenizer).__name__}, cut at {tokenizer.context_length} tokens",
        "computed": forward.describe(),
    }


def _numbers(values: Sequence[float]) -> str:
    return "/".join(f"{value:.3g}" for value in values)
