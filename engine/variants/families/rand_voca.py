"""`rand_voca[:seed=S]`: a noun becomes a random English word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from engine.corpus.corpus import Corpus
from engine.variants.concepts import Concepts, default_concepts
from engine.variants.inflection import pluralise
from engine.variants.nouns import Noun
from engine.variants.parameters import seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import Target, substitute
from engine.variants.variant import Modality, Side, VariantItems
from engine.variants.vocabulary import Vocabulary, default_vocabulary
from engine.variants.word_choice import RandomWord

POLICY = "rand_voca"


class VocabularyTargets:
    """Every word of a vocabulary but the noun's own forms and the words that may name the same thing."""

    name = POLICY

    def __init__(self, vocabulary: Vocabulary, concepts: Concepts) -> None:
        self._words = tuple(Target(word, word) for word in vocabulary.words)
        self._concepts = concepts
        self._refused: dict[tuple[str, str], frozenset[str]] = {}
        self.record: Mapping[str, Any] = {"vocabulary": vocabulary.source}

    def source_groups(self, noun: Noun) -> tuple[str, ...]:
        """Names of the lemma's groups."""
        return tuple(group.name for group in self._concepts.groups_of(noun.lemma))

    def pool(self, noun: Noun, text: str) -> Sequence[Target]:
        """All words."""
        return self._words

    def allows(self, noun: Noun, target: Target) -> bool:
        """Whether the word is neither a form of the noun nor of a lemma that may name the same thing."""
        key = (noun.text.lower(), noun.lemma)
        if key not in self._refused:
            lemmas = {noun.lemma} | self._concepts.alike(noun.lemma)
            self._refused[key] = frozenset({key[0]} | lemmas | {pluralise(lemma) for lemma in lemmas})
        return target.form not in self._refused[key]


@family(POLICY, seed_parameter())
@dataclass(frozen=True)
class RandVoca:
    """One noun of every caption becomes a random word of the English vocabulary (dog to outrage).

    The noun is drawn at random, alike for every caption policy with the same seed; the word is drawn evenly
    from the most frequent words of the package wordfreq (English letters only, 2 to 17; the record names
    version and size). Case and a/an carry over; the number does not, because the word can be of any kind.
    Everything else stays byte for byte. Captions with no noun are left out and counted. Source: RoCOCO,
    random-vocabulary captions, default mode.
    """

    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "captions"

    @property
    def name(self) -> str:
        """Such as ``rand_voca:seed=0``."""
        return f"{POLICY}:seed={self.seed}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order; see `engine.variants.substitution.substitute`."""
        policy = VocabularyTargets(default_vocabulary(), default_concepts())
        return substitute(corpus, self.name, self.seed, policy, RandomWord())
