"""`synonym_noun`, `synonym_adj`: one word of every query becomes a synonym of WordNet's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from engine.corpus.corpus import Corpus
from engine.corpus.word_tokens import word_tokens
from engine.variants.inflection import match_case, pluralise, replace_noun
from engine.variants.nouns import Noun
from engine.variants.parameters import PAPER, mode_parameter
from engine.variants.queries import Perturbed, QueryPerturbation, Rule
from engine.variants.registry import family
from engine.variants.tagging import ADJECTIVE_TAGS, NOUN_TAGS, Token, pipeline_version, tag
from engine.variants.treebank import (
    TAGGER,
    has_tagger,
    tagger_digest,
    tags_by_nltk,
    tags_by_spacy,
)
from engine.variants.wordnet import PartOfSpeech, WordNet, open_wordnet, wordnet_digest

PROPER_TAGS = frozenset({"NNP", "NNPS"})
_Tagger = Callable[[str, Sequence[str]], Sequence[str]]


def _nltk_tags(text: str, tokens: Sequence[str]) -> Sequence[str]:
    return tags_by_nltk(tokens)


def _spacy_tags(text: str, tokens: Sequence[str]) -> Sequence[str]:
    return tags_by_spacy(text, tokens, tag([text])[text])


@dataclass(frozen=True)
class Synonym(QueryPerturbation):
    """The first word of one part of speech that has a synonym; nothing is drawn, so there is no seed."""

    part: ClassVar[PartOfSpeech]
    published_tags: ClassVar[frozenset[str]]
    tags: ClassVar[frozenset[str]]
    kind: ClassVar[str]

    def rule(self, corpus: Corpus) -> Rule:
        """Tags the captions and opens WordNet. Raises `InputError` when it is not there."""
        wordnet = open_wordnet()
        by_nltk = self._by_nltk()
        made_with = {"wordnet": wordnet.version, **self.made_with()}
        if not by_nltk:
            tag(caption.text for caption in corpus.captions)
        if self.mode == PAPER:
            tagger = _nltk_tags if by_nltk else _spacy_tags
            return lambda caption: self._published(caption.text, wordnet, made_with, tagger)
        return lambda caption: self._in_english(caption.text, wordnet, made_with)

    def tools(self) -> str:
        """The files of WordNet, and of NLTK's tagger where it tags."""
        return f"{wordnet_digest()} {tagger_digest() if self._by_nltk() else ''}"

    def made_with(self) -> Mapping[str, Any]:
        """The tagger."""
        return {"tagger": "nltk" if self._by_nltk() else pipeline_version()}

    def note(self) -> str:
        """In paper mode, that another tagger than the study's was used."""
        if self.mode != PAPER or self._by_nltk():
            return ""
        return (
            f"{self.name}: tagged by {pipeline_version()}; the study's NLTK tagger has no data here, so some "
            f"queries differ from its own (python -m nltk.downloader {PurePosixPath(TAGGER).name} gets them)"
        )

    def _by_nltk(self) -> bool:
        return self.mode == PAPER and has_tagger()

    def _published(
        self, text: str, wordnet: WordNet, made_with: Mapping[str, Any], tagger: _Tagger
    ) -> Perturbed:
        tokens = list(word_tokens(text))
        tags = tagger(text, tokens)
        for place, (word, its_tag) in enumerate(zip(tokens, tags, strict=True)):
            if its_tag not in self.published_tags:
                continue
            found = next((name for name in wordnet.lemma_names(word) if name.lower() != word.lower()), None)
            if found is not None:
                tokens[place] = found
                return Perturbed(" ".join(tokens), {**made_with, "word": word, "synonym": found})
        return Perturbed(" ".join(tokens), made_with, unchanged=self._reason(self.published_tags, tags))

    def _in_english(self, text: str, wordnet: WordNet, made_with: Mapping[str, Any]) -> Perturbed:
        tokens = tag([text])[text]
        for place, token in enumerate(tokens):
            if token.tag not in self.tags or not token.text.isalpha():
                continue
            found = self._synonym(token, wordnet)
            if found is not None:
                noun = Noun(token.text, token.lemma, place, token.start, token.end, token.is_plural)
                change = {"word": token.text, "span": [token.start, token.end]}
                change["synonym"] = match_case(found, token.text)
                return Perturbed(replace_noun(text, noun, found), {**made_with, **change})
        reason = self._reason(self.tags, [token.tag for token in tokens])
        return Perturbed(text, made_with, unchanged=reason)

    def _synonym(self, token: Token, wordnet: WordNet) -> str | None:
        lemma = token.lemma.lower()
        if token.is_plural and lemma == token.text.lower():
            return None
        own = {token.text.lower(), lemma} | ({pluralise(lemma)} if self.part == "n" else set())
        names = wordnet.first_sense(lemma, self.part)
        if token.tag not in PROPER_TAGS:
            names = tuple(name for name in names if name.islower())
        found = next((name for name in names if name.lower() not in own), None)
        return pluralise(found) if token.is_plural and found is not None else found

    def _reason(self, wanted: frozenset[str], tags: Sequence[str]) -> str:
        return f"no {self.kind} with a synonym" if wanted & set(tags) else f"no {self.kind}"


@family("synonym_noun", mode_parameter())
@dataclass(frozen=True)
class SynonymNoun(Synonym):
    """The first noun that has a synonym becomes it (a man on two bikes to an adult male on two bikes).

    The synonym is the first lemma of the noun's commonest sense in WordNet that is not the noun itself, and
    no name (H2O for water) unless the noun is one; other senses would say something else (Gunter Grass for
    grass). Number, case and a/an carry over, everything else stays byte for byte. A plural that looks like
    its singular (people) is passed over. A caption without such a noun stays as it is, is listed as unchanged
    and counted. In paper mode synsets of every sense and part of speech are searched for the word as it
    stands, and the result is NLTK's tokens joined by spaces. Needs WordNet (`itrstress setup wordnet`).
    """

    perturbation: ClassVar[str] = "synonym_noun"
    part: ClassVar[PartOfSpeech] = "n"
    published_tags: ClassVar[frozenset[str]] = NOUN_TAGS
    tags: ClassVar[frozenset[str]] = NOUN_TAGS
    kind: ClassVar[str] = "noun"


@family("synonym_adj", mode_parameter())
@dataclass(frozen=True)
class SynonymAdj(Synonym):
    """The first adjective that has a synonym becomes it (a large group to a big group).

    The synonym is the first lemma of the adjective's commonest sense in WordNet that is not the adjective
    itself and may stand before a noun; other senses would say something else (respective for several). Case
    and a/an carry over, everything else stays byte for byte. Comparatives and superlatives are passed over.
    A caption without such an adjective stays as it is, is listed as unchanged and counted. In paper mode
    synsets of every sense and part of speech are searched for the word as it stands (blue to blueness), and
    the result is NLTK's tokens joined by spaces. Needs WordNet (`itrstress setup wordnet`).
    """

    perturbation: ClassVar[str] = "synonym_adj"
    part: ClassVar[PartOfSpeech] = "a"
    published_tags: ClassVar[frozenset[str]] = ADJECTIVE_TAGS
    tags: ClassVar[frozenset[str]] = frozenset({"JJ"})
    kind: ClassVar[str] = "adjective"
