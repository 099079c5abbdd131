"""`same_concept`: a noun becomes another word of its concept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from engine.variants.caption_policy import concepts_parameter
from engine.variants.concept_targets import ConceptTargets, PublishedConceptTargets
from engine.variants.concepts import ConceptGroup, Concepts
from engine.variants.nouns import words_parameter
from engine.variants.parameters import PAPER, Parameter, mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import Substitution, TargetPolicy
from engine.variants.word_choice import choice_parameter

POLICY = "same_concept"
PARAMETERS = (
    mode_parameter(),
    words_parameter(),
    choice_parameter(),
    concepts_parameter(),
    seed_parameter(),
)


def own_groups(concepts: Concepts, own: tuple[ConceptGroup, ...], modifier: bool) -> Iterable[ConceptGroup]:
    """The word's own groups; those of the other part of speech only when it has no other."""
    alike = [group for group in own if (group.part_of_speech == "adjective") == modifier]
    return alike or own


@family(POLICY, *PARAMETERS)
@dataclass(frozen=True)
class SameConcept(Substitution):
    """One noun of every caption becomes another word of the same concept (dog to horse, cup to kettle).

    choice=random draws the noun, alike for every caption policy with the same seed; choice=low_ei takes the
    one whose deletion moves the caption's embedding least, choice=high_ei most, by a vote of the encoders
    given with --influence, and the influence of every noun is kept in the item's record. words=all adds
    adjectives, adverbs and numbers of the groups color, direction, number, material, shape, event and
    vehicle_part (red to blue). The word is drawn from the noun's concept groups (concepts=FILE: your own),
    without words that may name the same thing (couch for sofa) or are too wide to be false (animal for dog).
    Number, case and a/an carry over; everything else stays byte for byte. Captions with no such noun are left
    out and counted. In paper mode every word of the groups is drawn, in either number, and replaces the noun
    wherever its letters stand in NLTK's tokens, lower-cased and without the final full stop; the paper chose
    the noun by choice=low_ei with four encoders. Source: RoCOCO, same-concept captions.
    """

    policy: ClassVar[str] = POLICY
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def targets(self, concepts: Concepts) -> TargetPolicy:
        """Words of the noun's groups."""
        kind = PublishedConceptTargets if self.mode == PAPER else ConceptTargets
        return kind(concepts, own_groups, foreign=False)
