"""`diff_concept`: a noun becomes a word of another concept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from engine.variants.caption_policy import concepts_parameter
from engine.variants.concept_targets import ConceptTargets, PublishedConceptTargets
from engine.variants.concepts import ADDED_GROUPS, ConceptGroup, Concepts
from engine.variants.nouns import words_parameter
from engine.variants.parameters import PAPER, Parameter, mode_parameter, seed_parameter
from engine.variants.registry import family
from engine.variants.substitution import Substitution, TargetPolicy
from engine.variants.word_choice import choice_parameter

POLICY = "diff_concept"
PARAMETERS = (
    mode_parameter(),
    words_parameter(),
    choice_parameter(),
    concepts_parameter(),
    seed_parameter(),
)


def foreign_groups(
    concepts: Concepts, own: tuple[ConceptGroup, ...], modifier: bool
) -> Iterable[ConceptGroup]:
    """All groups of nouns, or the added ones for a modifier; `ConceptTargets` refuses what shares a group."""
    if modifier:
        return (group for group in concepts.groups if group.name in ADDED_GROUPS)
    return (group for group in concepts.groups if group.part_of_speech == "noun")


@family(POLICY, *PARAMETERS)
@dataclass(frozen=True)
class DiffConcept(Substitution):
    """One noun of every caption becomes a word of a different concept (dog to kettle, cup to priest).

    The word is drawn from all nouns that share no concept group with the replaced one. The noun is chosen as
    for same_concept (words, choice, concepts), alike with the same seed. Number, case and a/an carry over;
    everything else stays byte for byte. Captions with no noun of a known concept are left out and counted. In
    paper mode every word of the other groups is drawn, in either number, and replaces the noun wherever its
    letters stand in NLTK's tokens, lower-cased and without the final full stop. Source: RoCOCO,
    different-concept captions.
    """

    policy: ClassVar[str] = POLICY
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS

    def targets(self, concepts: Concepts) -> TargetPolicy:
        """Words of the groups that the noun is not in."""
        kind = PublishedConceptTargets if self.mode == PAPER else ConceptTargets
        return kind(concepts, foreign_groups, foreign=True)
