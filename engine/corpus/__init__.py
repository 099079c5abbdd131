"""Captioned image sets: the `Corpus` and one reader per published format."""
