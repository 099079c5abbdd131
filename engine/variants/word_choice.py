"""Which word of a caption is replaced or deleted: at random, or by its embedding influence.

By influence, every encoder votes for its word of lowest (or highest) influence, and the word with most votes
is chosen; ties, of influences and of votes, are drawn with the seed. Source: RoCOCO, "Making caption
galleries ourselves", 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args

from engine.variants.influence import Influence, Scores
from engine.variants.nouns import Noun
from engine.variants.parameters import Parameter
from engine.variants.rng import item_rng

Choice = Literal["random", "low_ei", "high_ei"]
SHOWN_DIGITS = 12  # of an encoder's fingerprint, in the records of items

RANDOM: Choice = "random"
LOW_EI: Choice = "low_ei"
HIGH_EI: Choice = "high_ei"
CHOICES: tuple[Choice, ...] = get_args(Choice)


def parse_choice(text: str) -> Choice:
    """A member of `CHOICES`."""
    for choice in CHOICES:
        if text == choice:
            return choice
    raise ValueError(text)


def choice_parameter() -> Parameter:
    """``choice=low_ei``: the word that moves the caption's embedding least; ``high_ei``: most."""
    return Parameter("choice", parse_choice, " or ".join(CHOICES), default=RANDOM)


@dataclass(frozen=True)
class Preference:
    """The candidates of one caption, the preferred one first, and a JSON-ready record of why."""

    order: Sequence[Noun]
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Preferences:
    """One preference a caption, in order, and a JSON-ready record of what all share, such as encoders."""

    captions: Sequence[Preference]
    record: Mapping[str, Any] = field(default_factory=dict)


class WordChooser(Protocol):
    """Puts the candidate words of captions in order of preference; the first that can be replaced is."""

    @property
    def name(self) -> Choice:
        """What the change record calls it."""

    def prefer(
        self, captions: Sequence[tuple[str, str]], candidates: Sequence[Sequence[Noun]], seed: int
    ) -> Preferences:
        """For every caption (id, text) its candidates, the preferred one first.

        All captions come at once, so that a chooser which needs an encoder can batch. The outcome depends on
        (seed, id), the text and its candidates; with an encoder also on the other texts, which can move its
        last bits: influences are rounded far above that, yet one may lie at the edge of a rounding.
        """


class RandomWord:
    """Every order of a caption's candidates is as likely; the same for every policy with one seed."""

    name: ClassVar[Choice] = RANDOM

    def prefer(
        self, captions: Sequence[tuple[str, str]], candidates: Sequence[Sequence[Noun]], seed: int
    ) -> Preferences:
        """See `WordChooser.prefer`."""
        orders = [
            item_rng(seed, caption_id, "word").permutation(len(nouns))
            for (caption_id, _), nouns in zip(captions, candidates, strict=True)
        ]
        return Preferences(
            [Preference([nouns[i] for i in order]) for nouns, order in zip(candidates, orders, strict=True)]
        )


class InfluentialWord:
    """The word with the lowest or the highest embedding influence, by a vote of the encoders.

    A caption's record has the ``encoders`` (first digits of their fingerprints) and every candidate, in
    reading order, with its influences (``ei``, one an encoder) and the number of encoders that vote for it
    (``votes``). What comes after the chosen word is what the encoders
    choose when the words before it are struck out.
    """

    def __init__(self, choice: Choice, influence: Influence) -> None:
        self.name = choice
        self._influence = influence

    def prefer(
        self, captions: Sequence[tuple[str, str]], candidates: Sequence[Sequence[Noun]], seed: int
    ) -> Preferences:
        """See `WordChooser.prefer`. Raises `InputError` as `Influence.measure` does."""
        measured = self._influence.measure([text for _, text in captions], candidates)
        voters = [fingerprint[:SHOWN_DIGITS] for _, fingerprint in measured.encoders]
        return Preferences(
            [
                self._preference(caption_id, nouns, scores, voters, seed)
                for (caption_id, _), nouns, scores in zip(captions, candidates, measured.scores, strict=True)
            ],
            {"influence": measured.record},
        )

    def _preference(
        self, caption_id: str, nouns: Sequence[Noun], scores: Scores, voters: Sequence[str], seed: int
    ) -> Preference:
        order, votes = rank_by_vote(
            scores if self.name == LOW_EI else -scores, drawn_order(seed, caption_id, len(nouns))
        )
        words = [
            {"word": noun.text, "span": [noun.start, noun.end], "ei": ei.tolist(), "votes": votes[i]}
            for i, (noun, ei) in enumerate(zip(nouns, scores, strict=True))
        ]
        return Preference([nouns[i] for i in order], {"encoders": voters, "candidates": words})


def drawn_order(seed: int, caption_id: str, count: int) -> Sequence[int]:
    """The numbers 0 to count - 1 in an order drawn from (seed, caption id): of tied words the first wins."""
    return [int(one) for one in item_rng(seed, caption_id, "influence").permutation(count)]


def rank_by_vote(scores: Scores, drawn: Sequence[int]) -> tuple[list[int], Counter[int]]:
    """The candidates in the order of the vote, and the votes that each has.

    `scores` float64 [candidates, encoders]: every encoder votes for its lowest, the candidate with most votes
    comes first; then the same among the others. Of equal ones the first in `drawn` is taken.
    """
    left, columns = list(drawn), scores.T.tolist()
    first, order = Counter[int](), list[int]()
    while left:
        votes = Counter(min(left, key=column.__getitem__) for column in columns)
        first = first or votes
        order.append(max(left, key=votes.__getitem__))
        left.remove(order[-1])
    return order, first
