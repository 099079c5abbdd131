"""`distraction_true`, `distraction_false`: words that say nothing, added to every query."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from engine.corpus.corpus import Caption, Corpus
from engine.variants.parameters import PAPER, mode_parameter
from engine.variants.queries import Perturbed, QueryPerturbation, Rule
from engine.variants.registry import family

NO_WORD = "no word to distract from"
_SENTENCE_END = re.compile(r"[.!?\u2026][\"'\u201d\u2019)\]]*\Z")


@dataclass(frozen=True)
class Distraction(QueryPerturbation):
    """A clause added to the caption; nothing is drawn, so there is no seed."""

    published: ClassVar[str]
    clause: ClassVar[str]

    def rule(self, corpus: Corpus) -> Rule:
        """The caption with the clause."""
        return self._published if self.mode == PAPER else self._in_english

    def _published(self, caption: Caption) -> Perturbed:
        return Perturbed(caption.text.strip(".") + self.published, {"added": self.published})

    def _in_english(self, caption: Caption) -> Perturbed:
        said = caption.text.rstrip().rstrip(".").rstrip()
        if not any(character.isalnum() for character in said):
            return Perturbed(caption.text, unchanged=NO_WORD)
        rest = caption.text[len(said) :]
        if not _SENTENCE_END.search(said):
            added = f" and {self.clause}"
        else:
            added = f" {self.clause.capitalize()}{'' if rest.lstrip().startswith('.') else '.'}"
        return Perturbed(said + added + rest, {"added": added})


@family("distraction_true", mode_parameter())
@dataclass(frozen=True)
class DistractionTrue(Distraction):
    """A clause that is always true is added ("and true is true"), before the caption's final full stop.

    After a caption that ends as a sentence otherwise ("!", a quotation) it is a sentence of its own. A
    caption without a word stays as it is, is listed as unchanged and counted. In paper mode the full stops
    around the caption go and " and true it true." (as published) follows.
    """

    perturbation: ClassVar[str] = "distraction_true"
    published: ClassVar[str] = " and true it true."
    clause: ClassVar[str] = "true is true"


@family("distraction_false", mode_parameter())
@dataclass(frozen=True)
class DistractionFalse(Distraction):
    """A clause about the false is added ("and false is false"), before the caption's final full stop.

    After a caption that ends as a sentence otherwise ("!", a quotation) it is a sentence of its own. A
    caption without a word stays as it is, is listed as unchanged and counted. In paper mode the full stops
    around the caption go and " and false is false." follows.
    """

    perturbation: ClassVar[str] = "distraction_false"
    published: ClassVar[str] = " and false is false."
    clause: ClassVar[str] = "false is false"
