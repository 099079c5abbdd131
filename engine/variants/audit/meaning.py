"""Whether a replaced word still means the same: near-synonyms and wider words among pairs, by WordNet.

A fake with a near-synonym, or with a wider word (a dog becomes an animal), is a true caption of its image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.variants.wordnet import WordNet


@dataclass(frozen=True)
class Meaning:
    """Replaced words by what WordNet says of the pair, counted by use.

    `pairs` are those of two nouns of WordNet, of which `near_synonyms` have a commonest sense of one among
    the senses of the other, and in `wider` (not counted there) the commonest sense of the new word is above
    that of the old one. `unknown` pairs have a word that is no noun there. `examples` are the most used near-
    synonyms and wider words, as (old, new).
    """

    pairs: int
    near_synonyms: int
    wider: int
    unknown: int
    examples: tuple[tuple[str, str], ...]


def audit_meaning(pairs: Mapping[tuple[str, str], int], wordnet: WordNet, shown: int) -> Meaning:
    """What the pairs (old word, new word) with their numbers of uses mean; at most `shown` examples."""
    near = {pair: count for pair, count in pairs.items() if is_near_synonym(*pair, wordnet)}
    wider = {pair: count for pair, count in pairs.items() if pair not in near and is_wider(*pair, wordnet)}
    known = sum(count for pair, count in pairs.items() if all(map(wordnet.noun_senses, pair)))
    alike = sorted((near | wider).items(), key=lambda one: (-one[1], one[0]))
    return Meaning(
        pairs=known,
        near_synonyms=sum(near.values()),
        wider=sum(wider.values()),
        unknown=sum(pairs.values()) - known,
        examples=tuple(pair for pair, _ in alike[:shown]),
    )


def is_near_synonym(old: str, new: str, wordnet: WordNet) -> bool:
    """Whether the commonest sense of one noun is a sense of the other."""
    before, after = wordnet.noun_senses(old), wordnet.noun_senses(new)
    return bool(before and after) and (before[0] in after or after[0] in before)


def is_wider(old: str, new: str, wordnet: WordNet) -> bool:
    """Whether the commonest sense of the new noun is above that of the old one."""
    before, after = wordnet.noun_senses(old), wordnet.noun_senses(new)
    return bool(before and after) and after[0] in wordnet.ancestors(before[0])
