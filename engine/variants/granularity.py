"""How fine-grained the captions of a corpus are: the eight features of the paper's Table 1, on two levels.

Caption length and words per caption are defined there and reproduced exactly. The others are not fully
defined; ours are in the docstrings of their functions, counted on spaCy's Penn Treebank tags and in WordNet
3.0. Source: `Assessing Brittleness of Image-Text Retrieval Benchmarks`, Table 1.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from engine.corpus.corpus import Corpus
from engine.variants.tagging import Tokens, tag
from engine.variants.wordnet import WordNet

TABLE = "brittleness_table1.csv"
CONTENT_TAGS = ("NN", "VB", "JJ", "RB")
"""How the tags of nouns, verbs, adjectives and adverbs begin."""
EXACT = ("Caption length", "Words per caption")
_BLOCK = 1024


@dataclass(frozen=True)
class TaggedCaption:
    """A caption's raw text and spaCy's tokens of it."""

    text: str
    tokens: Tokens

    def tagged(self, *beginnings: str) -> list[str]:
        """Lower-cased lemmas of the tokens whose tag begins with one of `beginnings`."""
        return [token.lemma.lower() for token in self.tokens if token.tag.startswith(beginnings)]


def adjectives(caption: TaggedCaption) -> Sequence[float]:
    """Adjectives of a caption: tokens tagged JJ, JJR or JJS."""
    return [len(caption.tagged("JJ"))]


def complement_phrases(caption: TaggedCaption) -> Sequence[float]:
    """Complement phrases of a caption, each by the word that opens it: tokens tagged IN.

    Prepositions (in, with, of) and subordinating conjunctions (while, that).
    """
    return [len(caption.tagged("IN"))]


def articles(caption: TaggedCaption) -> Sequence[float]:
    """Articles of a caption: tokens tagged DT.

    That is a, an and the with the other determiners (some, this, each): with them the figures are the
    paper's, without them about 0.07 lower.
    """
    return [len(caption.tagged("DT"))]


def quantifiers(caption: TaggedCaption) -> Sequence[float]:
    """Quantifiers of a caption: tokens tagged CD, the numerals (two, 3)."""
    return [len(caption.tagged("CD"))]


def caption_length(caption: TaggedCaption) -> Sequence[float]:
    """Characters of a caption as published, white space at its ends included."""
    return [len(caption.text)]


def words_per_caption(caption: TaggedCaption) -> Sequence[float]:
    """Words of a caption: what single spaces separate, so that a double space makes an empty word more."""
    return [len(caption.text.split(" "))]


def concept_depth(caption: TaggedCaption, wordnet: WordNet) -> Sequence[float]:
    """The depth of every noun that WordNet knows, which are averaged over all nouns of the corpus.

    A noun's depth is the largest over its noun synsets of the smallest depth in the hypernym tree (`entity`:
    0). The paper's figures are about 1 lower.
    """
    depths = (wordnet.depth(noun) for noun in caption.tagged("NN"))
    return [depth for depth in depths if depth is not None]


def concept_diversity(caption: TaggedCaption, wordnet: WordNet) -> Sequence[float]:
    """Different WordNet synsets of a caption's content words, of any part of speech, over these words.

    Content words are nouns, verbs, adjectives and adverbs; a caption without one does not count.
    """
    words = [token.text.lower() for token in caption.tokens if token.tag.startswith(CONTENT_TAGS)]
    synsets = set().union(*(wordnet.synsets(word) for word in words))
    return [len(synsets) / len(words)] if words else []


@dataclass(frozen=True)
class Feature:
    """A row of the table: its level ("NP" or "Caption"), its name, and what is averaged over the corpus."""

    level: str
    name: str
    values: Callable[[TaggedCaption], Sequence[float]] | None = None
    values_in_wordnet: Callable[[TaggedCaption, WordNet], Sequence[float]] | None = None

    def of(self, caption: TaggedCaption, wordnet: WordNet | None) -> Sequence[float] | None:
        """The values of one caption; None when the feature needs WordNet and there is none."""
        if self.values is not None:
            return self.values(caption)
        if self.values_in_wordnet is not None and wordnet is not None:
            return self.values_in_wordnet(caption, wordnet)
        return None


FEATURES: tuple[Feature, ...] = (
    Feature("NP", "Adjectives", adjectives),
    Feature("NP", "CPs", complement_phrases),
    Feature("NP", "Articles", articles),
    Feature("NP", "Quantifiers", quantifiers),
    Feature("NP", "Concept depth", values_in_wordnet=concept_depth),
    Feature("Caption", "Caption length", caption_length),
    Feature("Caption", "Words per caption", words_per_caption),
    Feature("Caption", "Concept diversity", values_in_wordnet=concept_diversity),
)
"""The rows in the order of the paper's table."""


def measure(
    corpus: Corpus, wordnet: WordNet | None, on_captions: Callable[[int], None] = lambda count: None
) -> Mapping[str, float | None]:
    """Every feature of a corpus by its name, in the order of `FEATURES`.

    None for a feature of WordNet when there is none, and for one that no caption has a value of.
    `on_captions` is told the number of captions done. Raises `InputError` when no English pipeline is
    installed.
    """
    sums = dict.fromkeys((feature.name for feature in FEATURES), 0.0)
    counts = dict.fromkeys(sums, 0)
    texts = [caption.text for caption in corpus.captions]
    for first in range(0, len(texts), _BLOCK):
        block = texts[first : first + _BLOCK]
        tagged = tag(block)
        for text in block:
            caption = TaggedCaption(text, tagged[text])
            for feature in FEATURES:
                values = feature.of(caption, wordnet) or ()
                sums[feature.name] += sum(values)
                counts[feature.name] += len(values)
        on_captions(len(block))
    return {name: sums[name] / counts[name] if counts[name] else None for name in sums}


@cache
def published_table() -> Mapping[str, Mapping[str, float]]:
    """The paper's Table 1: corpus to feature to value, rounded to two digits there."""
    text = resources.files("engine.variants").joinpath("data").joinpath(TABLE).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    corpora = [column for column in rows[0] if column not in ("level", "feature")]
    return {name: {row["feature"]: float(row[name]) for row in rows} for name in corpora}


def recognise(measured: Mapping[str, float | None]) -> str | None:
    """The corpus of the paper's table whose `EXACT` features are the measured ones, rounded as there."""
    for name, values in published_table().items():
        if all((m := measured[f]) is not None and abs(m - values[f]) <= 0.005 + 1e-9 for f in EXACT):
            return name
    return None
