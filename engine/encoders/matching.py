"""ALBEF and BLIP as a `Reranker`: two towers for the first stage, and a matching head for its shortlist."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL.Image import Image, Resampling
from torch import Tensor, nn

from engine.encoders.device import arithmetic
from engine.encoders.forward import Forward, Rows, pad_features, pad_ids
from engine.encoders.opened import OpenedEncoder
from engine.encoders.request import EncoderRequest
from engine.encoders.scorer import PUBLISHED_SHORTLISTS, Join, State
from engine.encoders.token_memory import TokenMemory
from engine.encoders.weights import hash_weights
from engine.encoders.wordpiece import WordPiece

# of CLIP; both families resize to a square, bicubic, whatever the aspect
_MEAN = np.array((0.48145466, 0.4578275, 0.40821073), dtype=np.float32)
_STD = np.array((0.26862954, 0.26130258, 0.27577711), dtype=np.float32)
_JOINS: Mapping[Join, str] = {"add": "its logit and the cosine", "replace": "its logit alone"}
MATCH = 1  # column of the logit that says "these belong together"


class TowerOutput(Protocol):
    """Tokens [n, tokens, width] and the projected first token [n, dim]."""

    @property
    def hidden(self) -> Tensor:
        """[n, tokens, width]."""

    @property
    def projected(self) -> Tensor:
        """[n, dim]."""


class MatchingModel(Protocol):
    """The tensors of a family: what `engine.encoders.albef.model` and `engine.encoders.blip.model` load."""

    @property
    def dim(self) -> int:
        """Length of an embedding."""

    @property
    def image_size(self) -> int:
        """Side of an image in pixels."""

    @property
    def heads(self) -> tuple[int, int]:
        """Attention heads of the image tower and of the text tower."""

    def encode_image(self, pixels: Tensor) -> TowerOutput:
        """float32 [n, 3, image_size, image_size]."""

    def encode_text(self, ids: Tensor, mask: Tensor) -> TowerOutput:
        """int64 [n, tokens] and a mask, 1 for true tokens."""

    def text_states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[n, tokens, width]: what `fuse` needs of texts; int64 [n, tokens] and a mask, 1 for true tokens."""

    def fuse(self, image: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        """Logits [n, 2] of image tokens [1 or n, tokens, width] and n texts of `text_states`."""


@dataclass(frozen=True)
class Recipe:
    """What a family does around its tensors.

    `clean` gives the caption that is tokenised and whether words were cut; `longest` is in tokens.
    """

    clean: Callable[[str], tuple[str, bool]]
    longest: int
    join: Join


class MatchingEncoder(OpenedEncoder):
    """A `Reranker` of one family.

    In fp32 the result for an item is the same in every batch to 1e-6: padding is masked out exactly. For the
    other precisions see `engine.encoders.forward.Forward`.
    """

    reads = "images"

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        model: MatchingModel,
        module: nn.Module,
        tokenizer: WordPiece,
        recipe: Recipe,
    ) -> None:
        parts = _identity(request, model, module, tokenizer, recipe)
        super().__init__(request, forward, parts, model.dim)
        self._tokenizer, self._recipe = tokenizer, recipe
        # a method in it would be a cycle, and the model would stay in memory when another takes its place
        self._tokens = TokenMemory(partial(_tokenise, tokenizer, recipe))
        module.to(forward.device)
        self._model = model

    @property
    def join(self) -> Join:
        """How a matching score joins the cosine of the first stage."""
        return self._recipe.join

    @property
    def shortlist(self) -> Mapping[str, int]:
        """Published shortlist lengths by data set."""
        return PUBLISHED_SHORTLISTS

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        side = self._model.image_size
        return {
            "images": f"{side} x {side}, squashed, bicubic, CLIP's mean and std",
            "texts": f"{self._tokenizer.path.name} ({len(self._tokenizer):,} word pieces), cut at "
            f"{self._recipe.longest} tokens",
            "reranking": f"matching head: {_JOINS[self.join]}",
            "computed": self._forward.describe(),
        }

    def prepare_image(self, image: Image) -> Tensor:
        """float32 [3, side, side] of an RGB image: squashed to the model's size, normalised as CLIP's."""
        side = self._model.image_size
        pixels = np.asarray(image.resize((side, side), Resampling.BICUBIC), dtype=np.float32) / 255
        return torch.from_numpy(((pixels - _MEAN) / _STD).transpose(2, 0, 1).copy())

    def image_states(self, images: Sequence[Any]) -> list[State]:
        """float32 [tokens, width] an image, for `score_pairs`."""
        states: list[State] = []
        for rows, output in self._image_outputs(images):
            states.extend(output.hidden[: len(rows)].float().cpu().numpy())
        return states

    def text_states(self, texts: Sequence[str]) -> list[State]:
        """float32 [tokens, width] a text: all that a pair's score needs of it, for `score_pairs`."""
        states: dict[int, State] = {}
        for rows, ids, mask in self._token_batches(texts):
            with self._forward.passes():
                batch = self._model.text_states(ids, mask).float().cpu().numpy()
            lengths = mask.sum(dim=1).tolist()
            # copies: a view would keep the whole batch in memory
            states |= {int(row): batch[n, : lengths[n]].copy() for n, row in enumerate(rows)}
        return [states[row] for row in range(len(texts))]

    def score_pairs(self, image_state: State, text_states: Sequence[State]) -> NDArray[np.float32]:
        """float32 [texts]: the logit of the matching head for the image with each text."""
        device = self._forward.device
        image = torch.from_numpy(image_state[None]).to(device)
        scores = np.empty(len(text_states), dtype=np.float32)
        for rows in self._forward.batches([len(state) for state in text_states]):
            words, lengths = pad_features([text_states[row] for row in rows], device)
            words, mask = self._forward.filled(words), self._forward.filled(true_tokens(words, lengths))
            with self._forward.passes():
                logits = self._model.fuse(image, words, mask)
            scores[rows] = logits[: len(rows), MATCH].float().cpu().numpy()
        return scores

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        """bool [texts]: which of them the model reads without their end."""
        return np.array([cut for _, cut in self._tokens(texts)], dtype=np.bool_)

    def _image_vectors(self, images: Sequence[Any]) -> Iterator[tuple[Rows, Tensor]]:
        for rows, output in self._image_outputs(images):
            yield rows, output.projected[: len(rows)]

    def _image_outputs(self, images: Sequence[Any]) -> Iterator[tuple[Rows, TowerOutput]]:
        for rows, pixels in self._forward.image_batches(images):
            with self._forward.passes():
                output = self._model.encode_image(pixels)
            yield rows, output

    def _text_vectors(self, texts: Sequence[str]) -> Iterator[tuple[Rows, Tensor]]:
        for rows, ids, mask in self._token_batches(texts):
            with self._forward.passes():
                vectors = self._model.encode_text(ids, mask).projected
            yield rows, vectors[: len(rows)]

    def _token_batches(self, texts: Sequence[str]) -> Iterator[tuple[Rows, Tensor, Tensor]]:
        """The rows of a batch, and its ids and mask, `filled`."""
        tokens = [ids for ids, _ in self._tokens(texts)]
        for rows in self._forward.batches([len(ids) for ids in tokens]):
            ids, lengths = pad_ids([tokens[row] for row in rows], self._forward.device)
            yield rows, self._forward.filled(ids), self._forward.filled(true_tokens(ids, lengths))


def true_tokens(padded: Tensor, lengths: Tensor) -> Tensor:
    """int64 [n, tokens]: 1 where a row of padded [n, tokens, ...] has one of its `lengths` own."""
    places = torch.arange(padded.shape[1], device=padded.device)
    return (places < lengths.to(padded.device)[:, None]).to(torch.int64)


def _tokenise(tokenizer: WordPiece, recipe: Recipe, texts: Sequence[str]) -> list[tuple[list[int], bool]]:
    """The ids of each text, and whether it was cut."""
    found = []
    for text in texts:
        cleaned, words_cut = recipe.clean(text)
        ids, pieces_cut = tokenizer.encode(cleaned, recipe.longest)
        found.append((ids, words_cut or pieces_cut))
    return found


def _identity(
    request: EncoderRequest, model: MatchingModel, module: nn.Module, tokenizer: WordPiece, recipe: Recipe
) -> dict[str, Any]:
    return {
        "family": request.family,
        "weights": hash_weights(module),
        "heads": model.heads,
        "image_size": model.image_size,
        "longest_text": recipe.longest,
        "vocabulary": tokenizer.fingerprint,
        **arithmetic(request),
    }
