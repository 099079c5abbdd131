"""SGRAF as a `PairScorer`: ``saf:PATH``, ``sgr:PATH``, and their mean ``saf+sgr:SAF_PATH+SGR_PATH``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.encoders.device import arithmetic
from engine.encoders.families.sgraf import MEMBERS
from engine.encoders.forward import Forward, batches_by_length, open_forward, pad_features, pad_ids
from engine.encoders.opened import OpenedModel
from engine.encoders.options import checkpoint_paths, read_options
from engine.encoders.regions import ImageInput, check_regions
from engine.encoders.request import EncoderRequest
from engine.encoders.scorer import State
from engine.encoders.sgraf.model import Sgraf, load_sgraf
from engine.encoders.vocabulary import Vocabulary, choose_vocabulary, find_vocabularies
from engine.encoders.weights import hash_weights
from engine.encoders.words import lower_ascii, split_words
from engine.errors import InputError

_VALUES_A_STEP = 2**25  # of the largest activation (128 MB); a step holds a few of that size


def open_scorer(request: EncoderRequest) -> SgrafScorer:
    """Open one checkpoint, or one of each for the ensemble. Raises `InputError`.

    Vocabularies are looked for beside the first checkpoint where ``vocab`` is not given.
    """
    members = MEMBERS[request.family]
    paths = checkpoint_paths(request, len(members))
    if len(paths) != len(members):
        raise InputError(
            f"{request.spec}: expected {len(members)} checkpoints joined by + ({', '.join(members)})"
        )
    options = read_options(request)
    forward = open_forward(request)
    models = [load_sgraf(path, member) for path, member in zip(paths, members, strict=True)]
    first = models[0]
    if any((model.feature_dim, model.regions) != (first.feature_dim, first.regions) for model in models):
        raise InputError(
            f"{request.spec}: the two models read features of another shape; they do not belong together"
        )
    files = find_vocabularies(options.paths("vocab") or [paths[0].parent])
    words = [
        choose_vocabulary(files, model.words, str(path)) for path, model in zip(paths, models, strict=True)
    ]
    return SgrafScorer(request, forward, models, words)


def open_family(request: EncoderRequest) -> NoReturn:
    """Raise `InputError`: there is no encoder in this family."""
    raise InputError(
        f"{request.spec}: the family '{request.family}' scores pairs and gives no "
        "embedding; take a model that does"
    )


class SgrafScorer(OpenedModel):
    """SAF, SGR or their ensemble, whose score is the mean of the two. Scores are in (0, 1), no cosines.

    A state holds the states of all models, side by side: [regions, width of each and all] for an image,
    likewise the words of a text (both models read the same words, each by its own vocabulary). In bf16 and
    fp16 the states alone are computed so, the scores of pairs in fp32: else they would depend on the block
    they stand in (measured: 2e-3 in bf16).
    """

    reads: ImageInput = "regions"

    def __init__(
        self,
        request: EncoderRequest,
        forward: Forward,
        models: Sequence[Sgraf],
        words: Sequence[Vocabulary],
    ) -> None:
        super().__init__(request, forward, _identity(request, models, words))
        self._exact = replace(forward, precision="fp32")
        self._models, self._words = models, words
        self._widths = [model.image.fc.out_features for model in models]
        for model in models:
            for module in (model.image, model.text, model.similarity):
                module.to(forward.device)

    @property
    def description(self) -> Mapping[str, str]:
        """What a reader should know of it, in words, by topic."""
        first = self._models[0]
        return {
            "images": f"features of {first.feature_dim} values, {first.regions} regions in their order",
            "texts": f"words of {', '.join(words.source for words in self._words)}",
            "score": "of each pair, in (0, 1)"
            + (", the mean of two models" if len(self._models) > 1 else ""),
            "computed": self._forward.describe(),
        }

    def prepare_image(self, image: Any) -> NDArray[np.float32]:
        """The checked features float32 [regions, dim]; `InputError` for another number of regions."""
        return check_regions(image, self.spec, self._models[0].feature_dim, self._models[0].regions)

    def image_states(self, images: Sequence[Any]) -> list[State]:
        """float32 [regions, width] an image."""
        states: list[State] = []
        size = self._forward.batch_size
        for start in range(0, len(images), size):
            batch = images[start : start + size]
            features = self._forward.filled(pad_features(batch, self._forward.device)[0])
            with self._forward.passes():
                parts = [model.image(features).float() for model in self._models]
            states.extend(torch.cat(parts, dim=-1)[: len(batch)].cpu().numpy())
        return states

    def text_states(self, texts: Sequence[str]) -> list[State]:
        """float32 [words, width] a text; nothing is cut."""
        by_model = [
            self._word_states(model, words, texts)
            for model, words in zip(self._models, self._words, strict=True)
        ]
        return [np.concatenate(states, axis=-1) for states in zip(*by_model, strict=True)]

    def score_block(self, image_states: Sequence[State], text_states: Sequence[State]) -> NDArray[np.float32]:
        """float32 [images, texts]: scores of any images with any texts."""
        scores = np.empty((len(image_states), len(text_states)), dtype=np.float32)
        if not scores.size:
            return scores
        images = torch.from_numpy(np.stack(image_states)).to(self._forward.device)
        pairs = self._pairs_a_step(max(len(state) for state in text_states))
        step = max(1, pairs // len(images))
        for rows in batches_by_length([len(state) for state in text_states], step, equal=True):
            words = torch.from_numpy(np.stack([text_states[row] for row in rows])).to(self._forward.device)
            scores[:, rows] = self._mean_scores(images, words, pairs).cpu().numpy()
        return scores

    def _pairs_a_step(self, longest: int) -> int:
        return max(1, _VALUES_A_STEP // (longest * max(max(self._widths), self._models[0].regions)))

    def _mean_scores(self, images: Tensor, words: Tensor, step: int) -> Tensor:
        regions = torch.split(images, self._widths, dim=-1)
        tokens = torch.split(words, self._widths, dim=-1)
        total = torch.zeros(len(images), len(words), device=images.device)
        for model, mine, theirs in zip(self._models, regions, tokens, strict=True):
            for start in range(0, len(images), step):
                part = mine[start : start + step]
                with self._exact.passes():
                    vectors = model.similarity.global_image(part)
                    total[start : start + step] += model.similarity(part, vectors, theirs)
        return total / len(self._models)

    def _word_states(self, model: Sgraf, words: Vocabulary, texts: Sequence[str]) -> list[State]:
        tokens = [words.encode(split_words(lower_ascii(text))) for text in texts]
        states: dict[int, State] = {}
        for rows in self._forward.batches([len(ids) for ids in tokens]):
            ids, lengths = pad_ids([tokens[row] for row in rows], self._forward.device)
            with self._forward.passes():
                padded = model.text(self._forward.filled(ids), self._forward.filled(lengths))
            padded = padded.float().cpu().numpy()
            states.update((int(row), padded[n, : len(tokens[row])]) for n, row in enumerate(rows))
        return [states[row] for row in range(len(texts))]


def _identity(
    request: EncoderRequest, models: Sequence[Sgraf], words: Sequence[Vocabulary]
) -> dict[str, Any]:
    return {
        "family": request.family,
        "weights": [
            hash_weights(module) for model in models for module in (model.image, model.text, model.similarity)
        ],
        "norms": [(model.image.norm, model.text.norm) for model in models],
        "vocabularies": [vocabulary.fingerprint for vocabulary in words],
        **arithmetic(request),
    }
