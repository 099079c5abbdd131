"""`delete_random`, `delete_low_ei`, `delete_high_ei`: a noun is taken out, with no replacement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from engine.corpus.corpus import Corpus
from engine.corpus.wording import same_form
from engine.variants.caption_policy import CaptionPolicy, concepts_parameter
from engine.variants.checks import require_change
from engine.variants.deletion import without_word
from engine.variants.nouns import Noun, words_parameter
from engine.variants.parameters import Parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import NO_NOUN
from engine.variants.variant import VariantItem, VariantItems
from engine.variants.word_choice import HIGH_EI, LOW_EI, RANDOM, Choice

ONLY_NOUN = "nothing would be left"
ONLY_REPEATS = "every deletion would repeat a caption of the corpus"
PARAMETERS = (words_parameter(), concepts_parameter(), seed_parameter())


@dataclass(frozen=True)
class Deletion(CaptionPolicy):
    """One noun of every caption is deleted; which, is the family."""

    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order; who has no word to delete is in `left_out`.

        The word is the first in the chooser's order whose deletion leaves words, and says what no caption of
        the corpus says (`same_form`). Raises `InputError` when no caption can be changed.
        """
        groups, chooser, name = self.groups(), self.chooser(), self.name
        preferred = chooser.prefer(
            [(c.id, c.text) for c in corpus.captions], self.candidates(corpus, groups.concepts), self.seed
        )
        taken = {same_form(caption.text) for caption in corpus.captions}
        items: list[VariantItem] = []
        left_out: dict[int, str] = {}
        for row, (caption, preference) in enumerate(zip(corpus.captions, preferred.captions, strict=True)):
            word = first_deletable(caption.text, preference.order, taken)
            if isinstance(word, str):
                left_out[row] = word
                continue
            change = {
                "policy": self.policy,
                "word": word.text,
                "lemma": word.lemma,
                "position": word.token,
                "span": [word.start, word.end],
                "groups": [group.name for group in groups.concepts.groups_of(word.lemma)],
                "word_choice": chooser.name,
                **groups.record,
                **preference.record,
            }
            text = without_word(caption.text, word)
            items.append(VariantItem(f"{caption.id}@{name}", row, text, True, change))
        made_with = {**groups.record, **preferred.record}
        return require_change(name, VariantItems(tuple(items), left_out, made_with))


def first_deletable(text: str, words: Collection[Noun], taken: Collection[str]) -> Noun | str:
    """The first of the words whose deletion leaves a caption of its own, or why there is none."""
    reason = NO_NOUN
    for word in words:
        left = without_word(text, word)
        if not any(character.isalnum() for character in left):
            reason = ONLY_NOUN
        elif same_form(left) in taken:
            reason = ONLY_REPEATS
        else:
            return word
    return reason


@family("delete_random", *PARAMETERS)
@dataclass(frozen=True)
class DeleteRandom(Deletion):
    """One noun of every caption, drawn at random, is deleted (a dog on a beach to a on a beach).

    It is the noun that same_concept would replace with the same seed; words=all and concepts=FILE as there.
    It goes with the white space before it and everything else stays byte for byte, so this is the text that
    embedding influence is measured on. The next noun is taken where nothing would be left or another caption
    says the same; captions without such a noun are left out and counted. Source: RoCOCO, Table 3.
    """

    policy: ClassVar[str] = "delete_random"
    choice: Choice = RANDOM


@family("delete_low_ei", *PARAMETERS)
@dataclass(frozen=True)
class DeleteLowEi(Deletion):
    """The noun whose deletion moves the caption's embedding least is deleted; otherwise as delete_random.

    The noun is found by a vote of the encoders given with --influence, ties drawn with the seed; the
    influence of every noun is kept in the item's record. Source: RoCOCO, Table 3.
    """

    policy: ClassVar[str] = "delete_low_ei"
    choice: Choice = LOW_EI


@family("delete_high_ei", *PARAMETERS)
@dataclass(frozen=True)
class DeleteHighEi(Deletion):
    """The noun whose deletion moves the caption's embedding most is deleted; otherwise as delete_random.

    The noun is found by a vote of the encoders given with --influence, ties drawn with the seed; the
    influence of every noun is kept in the item's record. Source: RoCOCO, Table 3.
    """

    policy: ClassVar[str] = "delete_high_ei"
    choice: Choice = HIGH_EI
