"""Captioned image sets: the `Corpus`, one reader per published format, text normalisation and images."""

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.read import LoadedCorpus, load_corpus, read_corpus, read_rococo
from engine.corpus.reader import AdversarialCaption

__all__ = [
    "AdversarialCaption",
    "Caption",
    "Corpus",
    "ImageItem",
    "LoadedCorpus",
    "load_corpus",
    "read_corpus",
    "read_rococo",
]
