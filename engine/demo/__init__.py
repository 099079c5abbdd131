"""The embedded corpus, drawn by our own renderer, and small checkpoints trained on other scenes of it."""

from engine.demo.dataset import checkpoints, write_corpus
from engine.demo.scenes import NOUNS

__all__ = ["NOUNS", "checkpoints", "write_corpus"]
