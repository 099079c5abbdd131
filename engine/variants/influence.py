"""Embedding influence of words: EI(w) = 1 - cos(f(C), f(C without w)), f a text encoder, C a caption.

The word's occurrence is deleted (`engine.variants.deletion.without_word`), so a word that stands twice has
two influences. Source: RoCOCO, "Making caption galleries ourselves", 2.

This layer lies below the encoders, so it asks for no more than `TextEncoder`; who has encoders hands them in
(`engine.variants.influence_binding`). The same captions and words give the same influences to the last bit on
one machine, whatever their order and whatever batch size embeds the corpus: the distinct texts are encoded in
an order of their own, in blocks of a fixed size, and influences are rounded to `DIGITS` decimals, far above
the 1e-6 to which encoders promise a row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import InputError
from engine.progress import Progress, Silent
from engine.stopwatch import Stopwatch
from engine.variants.deletion import without_word
from engine.variants.influence_cache import cache_file, read_influences, write_influences
from engine.variants.nouns import Noun

DIGITS = 5
BLOCK = 1024  # texts an encoder is given at once; fixed, because what is beside a text may move its last bits

Rows = NDArray[np.float32]
Scores = NDArray[np.float64]


class TextEncoder(Protocol):
    """As much of an encoder (`engine.encoders.encoder.Encoder`) as influence needs."""

    @property
    def spec(self) -> str:
        """The spec string it was found by."""

    @property
    def fingerprint(self) -> str:
        """Hex digest: equal means equal embeddings."""

    def encode_texts(self, texts: Sequence[str]) -> Rows:
        """float32 [n, dim], rows L2-normalised."""


@dataclass(frozen=True)
class Measured:
    """Influences of the candidate words of captions.

    `encoders` has (name, fingerprint) of every encoder, `scores` one float64 [candidates, encoders] a
    caption, rounded to `DIGITS` decimals. `asked` texts (captions, and captions without a word) were asked
    for, of which `distinct` differ and were encoded. `seconds` are wall seconds by stage: "open" (encoders),
    "encode" (inside them), "untracked" and "total".
    """

    encoders: tuple[tuple[str, str], ...]
    scores: tuple[Scores, ...]
    asked: int
    distinct: int
    seconds: Mapping[str, float]

    @property
    def deduplication(self) -> float:
        """How many texts were asked for by every one that was encoded."""
        return self.asked / self.distinct if self.distinct else 1.0

    def describe(self) -> str:
        """One line: how many texts, how often each was asked for, and where the time went."""
        total, inside = self.seconds["total"], self.seconds.get("encode")
        spent = "from the cache" if inside is None else f"{inside / total:.0%} of it inside the encoders"
        return (
            f"influence of {sum(map(len, self.scores)):,} words by {len(self.encoders)} encoder(s): "
            f"{self.asked:,} texts asked for, {self.distinct:,} of them different "
            f"({self.deduplication:.2f} each); {total:.1f} s, {spent}"
        )

    @property
    def record(self) -> Mapping[str, Any]:
        """JSON-ready: the encoders, and how many texts they were given; the same wherever their files lie."""
        return {
            "encoders": [
                {"model": model, "fingerprint": fingerprint} for model, fingerprint in self.encoders
            ],
            "texts": self.asked,
            "distinct_texts": self.distinct,
        }


class Influence:
    """Measures words with one or several encoders, each opened when it is needed and let go after.

    `models` are spec strings, `open_encoder` opens one; it must give each block of texts to the model in the
    same batches every time. `named` gives the spec of a model as records have it: the same wherever its files
    lie. `progress` has a task a model. Raises `InputError` for a model that is there twice: it would have two
    votes.
    """

    def __init__(
        self,
        models: Sequence[str],
        open_encoder: Callable[[str], TextEncoder],
        progress: Progress | None = None,
        named: Callable[[str], str] = str,
    ) -> None:
        repeated = next((model for model in models if list(models).count(model) > 1), None)
        if repeated is not None:
            raise InputError(f"influence: the model {repeated} is given twice; every encoder has one vote")
        if not models:
            raise InputError("influence: no model is given; expected one or several specs")
        self.models = tuple(models)
        self._open_encoder = open_encoder
        self._named = named
        self._progress = progress or Silent()
        self._measured: dict[str, Measured] = {}

    @property
    def measured(self) -> Sequence[Measured]:
        """What was measured so far, in order."""
        return tuple(self._measured.values())

    def measure(self, texts: Sequence[str], candidates: Sequence[Sequence[Noun]]) -> Measured:
        """The influence of every candidate word on its text; `candidates` has one sequence a text.

        The same texts and words are measured once, so that all variants of a corpus share it, and later
        processes where there is a cache (`engine.variants.influence_cache`). Raises `InputError` for encoders
        that cannot be opened, or are the same.
        """
        places = [[(noun.start, noun.end) for noun in nouns] for nouns in candidates]
        key = hashlib.sha256(json.dumps([list(texts), places]).encode()).hexdigest()
        if key not in self._measured:
            self._measured[key] = self._measure(texts, candidates, key)
        return self._measured[key]

    def _measure(self, texts: Sequence[str], candidates: Sequence[Sequence[Noun]], key: str) -> Measured:
        clock = Stopwatch()
        probes = [
            [without_word(text, noun) for noun in nouns]
            for text, nouns in zip(texts, candidates, strict=True)
        ]
        needed = [(text, found) for text, found in zip(texts, probes, strict=True) if found]
        asked = len(needed) + sum(len(found) for _, found in needed)
        distinct = sorted({one for text, found in needed for one in (text, *found)}, key=by_length)
        row = {text: number for number, text in enumerate(distinct)}
        whole = np.array([row[text] for text, found in needed for _ in found], dtype=np.int64)
        cut = np.array([row[probe] for _, found in needed for probe in found], dtype=np.int64)
        table = np.empty((len(whole), len(self.models)))
        identities: list[tuple[str, str]] = []
        for number, encoder in enumerate(self._opened(identities, clock)):
            file = cache_file(encoder.fingerprint, f"{DIGITS} {BLOCK} {key}")
            known = read_influences(file, len(whole))
            if known is None:
                label = f"influence {number + 1}/{len(self.models)}"
                known = influences(self._encoded(encoder, distinct, label, clock), whole, cut)
                write_influences(file, known)
            table[:, number] = known
        ends = np.cumsum([len(found) for found in probes])
        scores = tuple(np.split(table, ends[:-1])) if len(ends) else ()
        encoders = tuple((self._named(model), fingerprint) for model, fingerprint in identities)
        return Measured(encoders, scores, asked, len(distinct), clock.timings())

    def _opened(self, identities: list[tuple[str, str]], clock: Stopwatch) -> Iterator[TextEncoder]:
        """The encoder of every model, one at a time; fills `identities`. Raises `InputError` for twins."""
        for model in self.models:
            with clock.stage("open"):
                encoder = self._open_encoder(model)
            same = next((spec for spec, print_ in identities if print_ == encoder.fingerprint), None)
            if same is not None:
                raise InputError(
                    f"influence: {same} and {model} are the same encoder; every encoder has one vote"
                )
            identities.append((model, encoder.fingerprint))
            yield encoder

    def _encoded(self, encoder: TextEncoder, texts: Sequence[str], label: str, clock: Stopwatch) -> Rows:
        """The rows [texts, dim] of the texts."""
        rows = np.empty((0, 1), dtype=np.float32)
        with self._progress.task(label, len(texts), "texts") as advance:
            for start in range(0, len(texts), BLOCK):
                block = texts[start : start + BLOCK]
                with clock.stage("encode"):
                    found = encoder.encode_texts(block)
                if not start:
                    rows = np.empty((len(texts), found.shape[1]), dtype=np.float32)
                rows[start : start + len(block)] = found
                advance(len(block))
        return rows


def by_length(text: str) -> tuple[int, str]:
    """The order of encoding: texts of one length together, whatever order they came in."""
    return len(text), text


def influences(rows: Rows, whole: NDArray[np.int64], cut: NDArray[np.int64]) -> Scores:
    """float64 [pairs]: 1 - cosine of the rows `whole` and `cut` (int64 [pairs]), rounded to `DIGITS`.

    Computed in float64 from the rows as they are, their lengths included.
    """
    result = np.empty(len(whole))
    for start in range(0, len(whole), BLOCK):
        part = slice(start, start + BLOCK)
        one, other = rows[whole[part]].astype(np.float64), rows[cut[part]].astype(np.float64)
        lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        result[part] = 1 - np.einsum("ij,ij->i", one, other) / lengths
    rounded: Scores = np.round(result, DIGITS) + 0.0  # no negative zero
    return rounded
