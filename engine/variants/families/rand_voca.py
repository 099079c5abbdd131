"""`rand_voca`: a noun becomes a random English word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from engine.variants.caption_policy import concepts_parameter
from engine.variants.concepts import Concepts
from engine.variants.nouns import words_parameter
from engine.variants.parameters import PAPER, Parameter, mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import Substitution, TargetPolicy
from engine.variants.vocabulary import open_vocabulary, vocabulary_parameter
from engine.variants.vocabulary_targets import VocabularyTargets
from engine.variants.word_choice import choice_parameter

POLICY = "rand_voca"
PARAMETERS = (
    mode_parameter(),
    words_parameter(),
    choice_parameter(),
    concepts_parameter(),
    vocabulary_parameter(),
    seed_parameter(),
)


@family(POLICY, *PARAMETERS)
@dataclass(frozen=True)
class RandVoca(Substitution):
    """One noun of every caption becomes a random word of the English vocabulary (dog to outrage).

    The word is drawn evenly from the whole words of a vocabulary (English letters only, 2 to 17):
    vocabulary=FILE takes BERT's vocab.txt or a tokenizer.json of word pieces, vocabulary=bert the cached
    bert-base-uncased, vocabulary=wordfreq the most frequent words of that package; without it they are
    wordfreq's, in paper mode the cached BERT's, as the paper's; the record names the source. The noun is
    chosen as for same_concept (words, choice), alike with the same seed. Case and a/an carry over; the number
    does not, because the word can be of any kind. Everything else stays byte for byte. Captions with no noun
    are left out and counted. In paper mode the word replaces the noun wherever its letters stand in NLTK's
    tokens, lower-cased and without the final full stop. Source: RoCOCO, random-vocabulary captions.
    """

    vocabulary: Path | str | None = None
    policy: ClassVar[str] = POLICY
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def targets(self, concepts: Concepts) -> TargetPolicy:
        """Words of the vocabulary."""
        published = self.mode == PAPER
        vocabulary = open_vocabulary(self.vocabulary, published=published)
        return VocabularyTargets(vocabulary, concepts, published=published)
