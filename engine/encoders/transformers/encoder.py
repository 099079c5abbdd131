"""The transformers family: ``transformers:owner/model`` (a name of the hub) or ``transformers:FOLDER``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image as images_module
from PIL.Image import Image
from torch import Tensor

from engine.encoders.device import arithmetic
from engine.encoders.forward import Forward, Rows, check_no_preprocess, open_forward
from engine.encoders.library_errors import first_line
from engine.encoders.model_files import check_model_files, read_object
from engine.encoders.offline import no_network
from engine.encoders.opened import OpenedEncoder
from engine.encoders.request import EncoderRequest
from engine.encoders.transformers.source import CONFIG, check_name, find_folder
from engine.encoders.transformers.texts import TextInput, read_text_input, stack_tokens
from engine.encoders.transformers.towers import Tower, Towers, library_quiet, load_towers
from engine.encoders.weights import hash_weights
from engine.errors import InputError

# of a configuration: what says nothing about an embedding
_VOLATILE = ("transformers_version", "_name_or_path", "_commit_hash", "torch_dtype", "dtype", "auto_map")
_PROBE_SIDE = 64  # pixels of the image that finds out the dimensions


def open_family(request: EncoderRequest) -> TransformersEncoder:
    """Open a model by its hub name or from a folder; code that comes with a model is never run.

    Raises `InputError` for what cannot be found, read or built, and for towers that do not fit together.
    """
    check_request(request)
    return open_folder(request, open_forward(request), find_folder(request.name, request.spec))


def check_request(request: EncoderRequest) -> None:
    """Raise `InputError` for what can be known to be wrong without a download or reading weights."""
    if request.weights is not None:
        raise InputError(f"{request.spec}: has a third part; expected {request.family}:NAME or a FOLDER")
    check_no_preprocess(request)
    check_name(request.name, request.spec)


def open_folder(
    request: EncoderRequest, forward: Forward, folder: Path, longest_text: int | None = None
) -> TransformersEncoder:
    """The encoder in a folder of transformers, whose texts are cut at `longest_text` tokens or earlier."""
    check_model_files(folder)
    with no_network():
        towers = load_towers(folder)
        texts = read_text_input(folder, towers, longest_text)
        processor = _read_image_processor(folder)
    return TransformersEncoder(request, forward, folder, towers, texts, processor)


def _read_image_processor(folder: Path) -> Any:
    try:
        with library_quiet():
            return transformers.AutoImageProcessor.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # whatever the library raises on files it cannot use
        raise InputError(
            f"{folder}: the image processor cannot be read: {type(error).__name__}: {first_line(error)}"
        ) from error


class TransformersEncoder(OpenedEncoder):
    """A dual encoder of transformers as an `Encoder`, with its own image processor and tokenizer.

    Texts of one length go through the model together and none is padded, unless the model was trained with
    padding to its context length. `engine.encoders.forward.Forward` says how far a row depends on its batch.
    """

    reads = "images"

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        folder: Path,
        towers: Towers,
        texts: TextInput,
        processor: Any,
    ) -> None:
        super().__init__(request, forward, _identity(request, folder, towers, texts, processor), 0)
        self._towers, self._texts, self._processor = towers, texts, processor
        towers.network.to(forward.device)
        self._dim = self._find_dim()

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        network, unused = self._towers.network, self._towers.unused
        count = sum(parameter.numel() for parameter in network.parameters())
        described = {
            "weights": f"{type(network).__name__} ({count:,} parameters)",
            "images": _describe_processor(self._processor),
            "texts": self._texts.describe(),
            "computed": self._forward.describe(),
        }
        if unused:
            described["not used"] = f"{len(unused)} tensors of the checkpoint, such as {unused[0]}"
        return described

    def prepare_image(self, image: Image) -> dict[str, Tensor]:
        """What the model's own image processor makes of an RGB image, by name; each without a batch axis."""
        prepared = self._processor(images=[image], return_tensors="pt")
        return {name: prepared[name][0] for name in prepared if name in self._towers.image.inputs}

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: which of them the model reads without their end."""
        return self._texts.is_cut(texts)

    def _image_vectors(self, images: Sequence[Mapping[str, Tensor]]) -> Iterator[tuple[Rows, Tensor]]:
        """A batch has images of one size: some image processors keep an image's own."""
        by_shape: dict[tuple[torch.Size, ...], list[int]] = defaultdict(list)
        for row, image in enumerate(images):
            by_shape[tuple(part.shape for part in image.values())].append(row)
        size = self._forward.batch_size
        for group in by_shape.values():
            for start in range(0, len(group), size):
                rows = np.array(group[start : start + size], dtype=np.int64)
                parts = {name: torch.stack([images[row][name] for row in rows]) for name in images[rows[0]]}
                yield rows, self._run(self._towers.image, parts, len(rows))

    def _text_vectors(self, texts: Sequence[str]) -> Iterator[tuple[Rows, Tensor]]:
        tokens = self._texts.tokens(texts)
        for rows in self._forward.batches([len(one["input_ids"]) for one in tokens], equal=True):
            yield rows, self._run(self._towers.text, stack_tokens([tokens[row] for row in rows]), len(rows))

    def _run(self, tower: Tower, parts: Mapping[str, Tensor], rows: int) -> Tensor:
        moved = {name: self._forward.filled(part).to(self._forward.device) for name, part in parts.items()}
        with self._forward.passes():
            return tower.run(**moved)[:rows]

    def _find_dim(self) -> int:
        """The dimension of both towers, found by one small image and one text through the model."""
        image = self.prepare_image(images_module.new("RGB", (_PROBE_SIDE, _PROBE_SIDE), "gray"))
        try:
            (_, of_image), (_, of_text) = next(self._image_vectors([image])), next(self._text_vectors(["a"]))
        except Exception as error:  # whatever the library raises on inputs that do not fit its model
            raise InputError(
                f"{self.spec}: the model cannot encode what its image processor and tokenizer make: "
                f"{type(error).__name__}: {first_line(error)}"
            ) from error
        if of_image.ndim != 2 or of_image.shape[1:] != of_text.shape[1:]:
            raise InputError(
                f"{self.spec}: the image tower gives vectors of shape {list(of_image.shape[1:])}, the text "
                f"tower {list(of_text.shape[1:])}; expected one space, [dim] for both"
            )
        return int(of_image.shape[1])


def _describe_processor(processor: Any) -> str:
    settings = processor.to_dict()
    size = settings.get("crop_size") if settings.get("do_center_crop") else settings.get("size")
    numbers = "/".join(f"{name}={value}" for name, value in dict(size or {}).items() if value is not None)
    return f"{type(processor).__name__}, {numbers or 'an image keeps its size'}"


def _identity(
    request: EncoderRequest, folder: Path, towers: Towers, texts: TextInput, processor: Any
) -> dict[str, Any]:
    settings = {**processor.to_dict(), "class": type(processor).__name__}
    return {
        "family": request.family,
        "class": type(towers.network).__name__,
        "config": _without_volatile(read_object(folder / CONFIG)),
        "weights": hash_weights(towers.network),
        "images": _without_volatile(settings),
        "texts": texts.identity,
        **arithmetic(request),
    }


def _without_volatile(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: part for key, part in value.items() if key not in _VOLATILE}
        return {str(key): _without_volatile(part) for key, part in kept.items()}
    return value
