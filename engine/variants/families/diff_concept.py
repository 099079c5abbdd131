"""`diff_concept[:seed=S]`: a noun becomes a word of another concept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from engine.corpus.corpus import Corpus
from engine.variants.concept_targets import ConceptTargets
from engine.variants.concepts import ConceptGroup, Concepts, default_concepts
from engine.variants.parameters import seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import substitute
from engine.variants.variant import Modality, Side, VariantItems
from engine.variants.word_choice import RandomWord

POLICY = "diff_concept"


def noun_groups(concepts: Concepts, own: tuple[ConceptGroup, ...]) -> Iterable[ConceptGroup]:
    """All groups of nouns; `ConceptTargets` refuses what shares a group with the noun."""
    return (group for group in concepts.groups if group.part_of_speech == "noun")


@family(POLICY, seed_parameter())
@dataclass(frozen=True)
class DiffConcept:
    """One noun of every caption becomes a word of a different concept (dog to kettle, cup to priest).

    The noun is drawn at random, alike for every caption policy with the same seed; the word is drawn from all
    nouns that share no concept group with it. Number, case and a/an carry over; everything else stays byte
    for byte. Captions with no noun of a known concept are left out and counted. Source: RoCOCO,
    different-concept captions, default mode.
    """

    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "captions"

    @property
    def name(self) -> str:
        """Such as ``diff_concept:seed=0``."""
        return f"{POLICY}:seed={self.seed}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order; see `engine.variants.substitution.substitute`."""
        policy = ConceptTargets(POLICY, default_concepts(), noun_groups, foreign=True)
        return substitute(corpus, self.name, self.seed, policy, RandomWord())
