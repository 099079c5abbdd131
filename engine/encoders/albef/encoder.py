"""The ALBEF family: ``albef:PATH[:vocab=vocab.txt,image_size=384]``."""

from __future__ import annotations

import re

from engine.encoders.albef.model import load_albef
from engine.encoders.captions import first_words
from engine.encoders.forward import open_forward
from engine.encoders.matching import MatchingEncoder, Recipe
from engine.encoders.options import checkpoint_paths, read_options
from engine.encoders.request import EncoderRequest
from engine.encoders.wordpiece import read_wordpiece

LONGEST_TEXT = 30
MOST_WORDS = 30
_DELETED = re.compile(r"[,.'!?\"()*#:;~]")


def open_family(request: EncoderRequest) -> MatchingEncoder:
    """Open an ALBEF checkpoint with BERT's ``vocab.txt``, by default the one beside it. Raises `InputError`.

    The published evaluation of a pre-training checkpoint uses ``image_size=384``; without the option the
    image has the size of the checkpoint's positions.
    """
    (path,) = checkpoint_paths(request, 1)
    options = read_options(request)
    forward = open_forward(request)
    model = load_albef(
        path,
        image_size=options.number("image_size"),
        image_heads=options.number("image_heads"),
        text_heads=options.number("text_heads"),
    )
    tokenizer = read_wordpiece(options.path("vocab", path.parent / "vocab.txt"), model.sizes.words, path)
    recipe = Recipe(clean_caption, min(LONGEST_TEXT, model.sizes.positions), "replace")
    return MatchingEncoder(request, forward, model, model, tokenizer, recipe)


def clean_caption(text: str) -> tuple[str, bool]:
    """ALBEF's caption cleaning, and whether it cut words (spec/models.md, section 4).

    Lower-case; punctuation is deleted, hyphens and slashes become spaces; at most 30 words.
    """
    kept = _DELETED.sub("", text.lower()).replace("-", " ").replace("/", " ").replace("<person>", "person")
    return first_words(kept, MOST_WORDS)
