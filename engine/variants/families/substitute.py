"""`substitute:N`: several words become random English words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from engine.corpus.corpus import Caption, Corpus
from engine.corpus.wording import same_form
from engine.variants.caption_policy import CaptionPolicy, concepts_parameter
from engine.variants.checks import require_change
from engine.variants.inflection import match_case, replace_noun
from engine.variants.nouns import Noun, plain_words_of
from engine.variants.parameters import Parameter, canonical_name, seed_parameter
from engine.variants.registry import family
from engine.variants.rng import item_rng
from engine.variants.substitution import NO_TARGET, ONLY_REPEATS, Target, draw_without_replacement
from engine.variants.variant import VariantItem, VariantItems
from engine.variants.vocabulary import open_vocabulary, vocabulary_parameter
from engine.variants.vocabulary_targets import VocabularyTargets

POLICY = "substitute"
FEWEST, MOST = 2, 5
ATTEMPTS = 20  # at texts that no caption of the corpus has; with a vocabulary of any size the first is one


def parse_count(text: str) -> int:
    """2, 3, 4 or 5."""
    if text not in {str(count) for count in range(FEWEST, MOST + 1)}:
        raise ValueError(text)
    return int(text)


PARAMETERS = (
    Parameter("count", parse_count, f"how many words, {FEWEST} to {MOST}", positional=True),
    concepts_parameter(),
    vocabulary_parameter(),
    seed_parameter(),
)


@family(POLICY, *PARAMETERS)
@dataclass(frozen=True)
class Substitute(CaptionPolicy):
    """N words of every caption, 2 to 5, become random words of the English vocabulary.

    Any word of two letters or more can be drawn, not nouns only; each becomes a word of its own, drawn as for
    rand_voca (vocabulary=FILE; concepts=FILE says which words may name the same thing). Case and a/an carry
    over; everything else stays byte for byte. Captions with fewer than N such words are left out and counted.
    Source: RoCOCO, Table 4.
    """

    count: int = FEWEST
    vocabulary: Path | str | None = None
    policy: ClassVar[str] = POLICY
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    @property
    def name(self) -> str:
        """Such as ``substitute:3:seed=0``."""
        return canonical_name(f"{POLICY}:{self.count}", PARAMETERS, self)

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order; who has too few words is in `left_out`.

        Words and targets are drawn from (seed, caption id), again when the result would say the same
        (`same_form`) as a caption of the corpus. Raises `InputError` when no caption can be changed, or for a
        user's file that cannot be used.
        """
        groups = self.groups()
        targets = VocabularyTargets(open_vocabulary(self.vocabulary), groups.concepts)
        words = plain_words_of(caption.text for caption in corpus.captions)
        taken = {same_form(caption.text) for caption in corpus.captions}
        items: list[VariantItem] = []
        left_out: dict[int, str] = {}
        for row, caption in enumerate(corpus.captions):
            drawn = self._drawn(caption, words[caption.text], targets, taken)
            if isinstance(drawn, str):
                left_out[row] = drawn
                continue
            change = {"policy": POLICY, **targets.record, **groups.record}
            change["replaced"] = [record(noun, target) for noun, target in drawn]
            text = replace_all(caption.text, drawn)
            items.append(VariantItem(f"{caption.id}@{self.name}", row, text, True, change))
        made_with = {**groups.record, **targets.record}
        return require_change(self.name, VariantItems(tuple(items), left_out, made_with))

    def _drawn(
        self, caption: Caption, words: Sequence[Noun], targets: VocabularyTargets, taken: Collection[str]
    ) -> list[tuple[Noun, Target]] | str:
        """The words to replace, in reading order, with their targets; or why there are none."""
        if len(words) < self.count:
            return f"fewer than {self.count} words"
        rng = item_rng(self.seed, caption.id, POLICY)
        for _ in range(ATTEMPTS):
            places = sorted(rng.choice(len(words), self.count, replace=False).tolist())
            chosen = [words[place] for place in places]
            found = [draw_target(rng, word, caption.text, targets) for word in chosen]
            drawn = [(word, target) for word, target in zip(chosen, found, strict=True) if target]
            if len(drawn) < self.count:
                return NO_TARGET
            if same_form(replace_all(caption.text, drawn)) not in taken:
                return drawn
        return ONLY_REPEATS


def draw_target(rng: np.random.Generator, word: Noun, text: str, targets: VocabularyTargets) -> Target | None:
    """A target that may stand for the word, evenly drawn; None when the vocabulary has none."""
    pool = targets.pool(word, text)
    allowed = (pool[place] for place in draw_without_replacement(rng, len(pool)))
    return next((target for target in allowed if targets.allows(word, target)), None)


def replace_all(text: str, drawn: Sequence[tuple[Noun, Target]]) -> str:
    """The text with every target for its word; the last first, so that places hold."""
    for noun, target in reversed(drawn):
        text = replace_noun(text, noun, target.form)
    return text


def record(noun: Noun, target: Target) -> dict[str, object]:
    """What the change record says of one word."""
    return {
        "word": noun.text,
        "position": noun.token,
        "span": [noun.start, noun.end],
        "target": match_case(target.form, noun.text),
    }
