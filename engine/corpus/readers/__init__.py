"""One file per published layout; `engine.corpus.registry` lists them."""
