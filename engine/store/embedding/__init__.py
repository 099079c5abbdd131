"""Stores that a model fills: with the embeddings of a corpus, or with the scores of its pairs."""
