"""What all policies on captions share: their parameters, candidate words, word choice, and canonical name."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from engine.corpus.corpus import Corpus
from engine.errors import InputError
from engine.variants.concepts import Concepts, default_concepts, load_concepts
from engine.variants.influence import Influence
from engine.variants.nouns import NOUNS, Noun, Words, words_of
from engine.variants.parameters import Parameter, canonical_name, file_label, parse_file
from engine.variants.variant import Modality, Side
from engine.variants.word_choice import RANDOM, Choice, InfluentialWord, RandomWord, WordChooser


def concepts_parameter() -> Parameter:
    """``concepts=FILE``: the user's own concept groups (`engine.variants.concepts`)."""
    return Parameter(
        "concepts", parse_file, "the path of a concept file", default=None, format=file_label, is_file=True
    )


@dataclass(frozen=True)
class Groups:
    """Concept groups, and a JSON-ready record of the user's file that they are from (none: ours)."""

    concepts: Concepts
    record: Mapping[str, Any]


@dataclass(frozen=True)
class CaptionPolicy(ABC):
    """A gallery variant of captions: one altered caption an original, or none.

    `parameters` are those that a spec of the family takes; the other fields keep their defaults.
    `influence` is put in by `engine.variants.influence_binding.bind_influence`; it is no part of equality.
    """

    words: Words = NOUNS
    choice: Choice = RANDOM
    concepts: Path | None = None
    seed: int = 0
    influence: Influence | None = field(default=None, compare=False, repr=False)
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "captions"
    policy: ClassVar[str]
    parameters: ClassVar[Sequence[Parameter]]

    @property
    def name(self) -> str:
        """The policy, what is not the default, and the seed: ``same_concept:choice=low_ei:seed=3``."""
        return canonical_name(self.policy, self.parameters, self)

    @property
    def by_influence(self) -> bool:
        """Whether words are chosen by embedding influence, for which encoders are needed."""
        return self.choice != RANDOM

    def chooser(self) -> WordChooser:
        """What puts the candidate words in order.

        Raises `InputError` when words are chosen by influence and no encoders were put in.
        """
        if not self.by_influence:
            return RandomWord()
        if self.influence is None:
            raise InputError(
                f"variant {self.name!r} chooses words by embedding influence, which needs encoders; write it "
                "to a file with `itrstress variants make --influence MODEL` and take file:PATH in its place"
            )
        return InfluentialWord(self.choice, self.influence)

    def groups(self) -> Groups:
        """The concept groups. Raises `InputError` for a user's file that is none."""
        if self.concepts is None:
            return Groups(default_concepts(), {})
        concepts, file = load_concepts(self.concepts)
        return Groups(concepts, {"concepts": file.record})

    def candidates(self, corpus: Corpus, concepts: Concepts) -> Sequence[Sequence[Noun]]:
        """The candidate words of every caption. Raises `InputError` when no English pipeline is installed."""
        found = words_of((caption.text for caption in corpus.captions), self.words, concepts)
        return [found[caption.text] for caption in corpus.captions]
