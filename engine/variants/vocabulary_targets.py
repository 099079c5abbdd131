"""Target words out of a vocabulary: what `rand_voca` and `substitute` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.variants.concepts import Concepts
from engine.variants.inflection import pluralise
from engine.variants.nouns import Noun
from engine.variants.substitution import Target
from engine.variants.vocabulary import Vocabulary


class VocabularyTargets:
    """Every word of a vocabulary but the noun's own forms and the words that may name the same thing.

    With `published`, every word but the noun as it stands.
    """

    def __init__(self, vocabulary: Vocabulary, concepts: Concepts, *, published: bool = False) -> None:
        self._words = tuple(Target(word, word) for word in vocabulary.words)
        self._concepts = concepts
        self._published = published
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
        if self._published:
            return target.form != noun.text.lower()
        key = (noun.text.lower(), noun.lemma)
        if key not in self._refused:
            lemmas = {noun.lemma} | self._concepts.alike(noun.lemma)
            self._refused[key] = frozenset({key[0]} | lemmas | {pluralise(lemma) for lemma in lemmas})
        return target.form not in self._refused[key]
