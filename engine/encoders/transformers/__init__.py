"""Dual encoders of the transformers library, by the name of a model or from a folder."""
