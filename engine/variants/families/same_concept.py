"""`same_concept[:seed=S]`: a noun becomes another word of its concept."""

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

POLICY = "same_concept"


def own_groups(concepts: Concepts, own: tuple[ConceptGroup, ...]) -> Iterable[ConceptGroup]:
    """The noun's own groups; adjective groups only when it has no other."""
    nominal = [group for group in own if group.part_of_speech == "noun"]
    return nominal or own


@family(POLICY, seed_parameter())
@dataclass(frozen=True)
class SameConcept:
    """One noun of every caption becomes another word of the same concept (dog to horse, cup to kettle).

    The noun is drawn at random, alike for every caption policy with the same seed; the word is drawn from the
    noun's concept groups, without words that may name the same thing (couch for sofa) or are too wide to be
    false (animal for dog). Number, case and a/an carry over; everything else stays byte for byte. Captions
    with no such noun are left out and counted. Source: RoCOCO, same-concept captions, default mode.
    """

    seed: int = 0
    side: ClassVar[Side] = "gallery"
    modality: ClassVar[Modality] = "captions"

    @property
    def name(self) -> str:
        """Such as ``same_concept:seed=3``."""
        return f"{POLICY}:seed={self.seed}"

    def apply(self, corpus: Corpus) -> VariantItems:
        """At most one item a caption, in corpus order; see `engine.variants.substitution.substitute`."""
        policy = ConceptTargets(POLICY, default_concepts(), own_groups, foreign=False)
        return substitute(corpus, self.name, self.seed, policy, RandomWord())
