"""Encoders that others wrote: checked when they are opened and at every batch, errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from engine.encoders.library_errors import first_line
from engine.errors import InputError, ItrstressError

METHODS = ("prepare_image", "encode_images", "encode_texts")
UNIT_TOLERANCE = 1e-3  # of a row's length; half precision stays below it


class CheckedEncoder:
    """An encoder of another's, whose answers are checked; what else it has is passed on.

    Raises `InputError` for an object that is no `Encoder`, for rows of another shape, not finite or not of
    length 1, and for whatever its own code raises.
    """

    def __init__(self, encoder: Any, spec: str) -> None:
        self._encoder, self._name = encoder, spec
        missing = [name for name in METHODS if not callable(getattr(encoder, name, None))]
        missing += [name for name in ("spec", "dim", "fingerprint") if not hasattr(encoder, name)]
        if missing:
            raise InputError(
                f"{spec}: gives {_kind(encoder)}, which lacks {', '.join(missing)}; expected an encoder "
                "(engine.encoders.encoder.Encoder)"
            )
        if not _is_count(encoder.dim):
            raise InputError(f"{spec}: dim is {encoder.dim!r}; expected a whole number above 0")
        for name in ("spec", "fingerprint"):
            if not isinstance(getattr(encoder, name), str) or not getattr(encoder, name):
                raise InputError(f"{spec}: {name} is {getattr(encoder, name)!r}; expected text")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    @property
    def spec(self) -> str:
        """The spec string it was found by, as the encoder says."""
        return str(self._encoder.spec)

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return int(self._encoder.dim)

    @property
    def fingerprint(self) -> str:
        """The encoder's own; equal must mean equal embeddings."""
        return str(self._encoder.fingerprint)

    def prepare_image(self, image: Image) -> Any:
        """As the encoder prepares an image."""
        return self._call("prepare_image", image)

    def encode_images(self, images: Sequence[Any]) -> NDArray[np.float32]:
        """float32 [n, dim], checked."""
        return self._rows("encode_images", images)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, dim], checked."""
        return self._rows("encode_texts", texts)

    def _call(self, method: str, argument: Any) -> Any:
        return call(f"{self._name}: {method}", getattr(self._encoder, method), argument)

    def _rows(self, method: str, items: Sequence[Any]) -> NDArray[np.float32]:
        rows = self._call(method, items)
        where = f"{self._name}: {method}"
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "f":
            found = f"an array of {rows.dtype}" if isinstance(rows, np.ndarray) else _kind(rows)
            raise InputError(f"{where} gives {found}; expected a float32 array")
        if rows.shape != (len(items), self.dim):
            raise InputError(
                f"{where} gives the shape {list(rows.shape)} for {len(items)} items; expected "
                f"{[len(items), self.dim]}"
            )
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) < UNIT_TOLERANCE))
        if len(wrong):
            raise InputError(
                f"{where} gives item {wrong[0]} of {len(items)} a row of length {lengths[wrong[0]]:.4g}; "
                "expected L2-normalised rows"
            )
        return rows.astype(np.float32, copy=False)


def call(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What another's function gives. Raises `InputError` for whatever it raises, other than our errors."""
    try:
        return function(*arguments)
    except ItrstressError:
        raise
    except Exception as error:
        raise InputError(
            f"{where} raised {type(error).__name__}: {first_line(error)} (--debug shows where)"
        ) from error


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
