"""How far encoders agree on the word of a caption that moves its embedding least.

For reports (`itrstress variants audit`): call `influence_agreement` with a corpus and an
`engine.variants.influence.Influence` of the encoders, or `recorded_agreement` with the change records of a
variant made with ``choice=low_ei`` or ``high_ei``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.corpus.corpus import Corpus
from engine.variants.influence import Influence
from engine.variants.nouns import nouns_of
from engine.variants.word_choice import drawn_order, rank_by_vote


@dataclass(frozen=True)
class Agreement:
    """Captions by how many of the `encoders` vote for the word with most votes.

    ``counts[n - 1]`` captions have n encoders on one word; `single` of all are captions with one candidate,
    where there is nothing to disagree about. Captions without a candidate do not count.
    """

    encoders: int
    counts: tuple[int, ...]
    single: int

    @property
    def captions(self) -> int:
        """Captions with a candidate."""
        return sum(self.counts)

    @property
    def shares(self) -> tuple[float, ...]:
        """``shares[n - 1]``: share in [0, 1] of the captions with n encoders on one word; zeros if none."""
        return tuple(count / self.captions if self.captions else 0.0 for count in self.counts)

    def at_least(self, encoders: int) -> float:
        """Share in [0, 1] of the captions with so many encoders or more on one word."""
        return sum(self.shares[encoders - 1 :])


def influence_agreement(corpus: Corpus, influence: Influence, seed: int = 0) -> Agreement:
    """The agreement on the noun with the lowest embedding influence in every caption of a corpus.

    This is the paper's model consensus (RoCOCO: over 70% of the captions have two of four encoders or more
    on the same word). An encoder's ties are drawn with the seed. Raises `InputError` as `Influence.measure`,
    or when no English pipeline is installed.
    """
    texts = [caption.text for caption in corpus.captions]
    nouns = nouns_of(texts)
    candidates = [nouns[text] for text in texts]
    measured = influence.measure(texts, candidates)
    votes = [
        list(rank_by_vote(scores, drawn_order(seed, caption.id, len(scores)))[1].values())
        for caption, scores in zip(corpus.captions, measured.scores, strict=True)
    ]
    single = sum(len(words) == 1 for words in candidates)
    return count_votes(votes, len(influence.models), single)


def recorded_agreement(changes: Iterable[Mapping[str, Any]]) -> Agreement | None:
    """The agreement in the change records of a variant's items, by the votes that chose their words.

    Of a ``high_ei`` variant it is on the highest influence. None when no record has influences; records come
    from files, and what has not the shape of one does not count.
    """
    votes, encoders, single = [], 0, 0
    for change in changes:
        words = change.get("candidates")
        if not isinstance(words, list) or not words or not all(map(is_candidate, words)):
            continue
        votes.append([word["votes"] for word in words])
        encoders = max(encoders, sum(votes[-1]))
        single += len(words) == 1
    return count_votes(votes, encoders, single) if encoders else None


def is_candidate(word: Any) -> bool:
    """Whether a value is one candidate word with its votes and influences."""
    if not isinstance(word, Mapping):
        return False
    votes, scores = word.get("votes"), word.get("ei")
    return type(votes) is int and isinstance(scores, list) and 0 <= votes <= len(scores)


def count_votes(votes: Iterable[Sequence[int]], encoders: int, single: int) -> Agreement:
    """The agreement from the votes of every caption's candidates."""
    most = Counter(max(one) for one in votes if any(one))
    return Agreement(encoders, tuple(most[number] for number in range(1, encoders + 1)), single)
