"""The BLIP family: ``blip:PATH[:vocab=vocab.txt,image_size=384]``, a published file or a saved folder."""

from __future__ import annotations

import re

from engine.encoders.blip.model import load_blip
from engine.encoders.captions import first_words
from engine.encoders.forward import open_forward
from engine.encoders.matching import MatchingEncoder, Recipe
from engine.encoders.options import checkpoint_paths, read_options
from engine.encoders.request import EncoderRequest
from engine.encoders.wordpiece import read_wordpiece

LONGEST_TEXT = 35
MOST_WORDS = 30
ADDED_TOKENS = 2  # [DEC] and [ENC], behind BERT's own
_TO_SPACE = re.compile(r"[.!\"()*#:;~]")


def open_family(request: EncoderRequest) -> MatchingEncoder:
    """Open a BLIP checkpoint with BERT's ``vocab.txt``, by default the one beside it. Raises `InputError`.

    The published evaluation of a pre-training checkpoint uses ``image_size=384``; without the option the
    image has the size of the checkpoint's positions.
    """
    (path,) = checkpoint_paths(request, 1)
    options = read_options(request)
    forward = open_forward(request)
    model = load_blip(
        path,
        image_size=options.number("image_size"),
        image_heads=options.number("image_heads"),
        text_heads=options.number("text_heads"),
    )
    folder = path if path.is_dir() else path.parent
    vocabulary = options.path("vocab", folder / "vocab.txt")
    tokenizer = read_wordpiece(vocabulary, model.words, path, ADDED_TOKENS)
    recipe = Recipe(clean_caption, min(LONGEST_TEXT, model.positions), "add")
    return MatchingEncoder(request, forward, model, model.network, tokenizer, recipe)


def clean_caption(text: str) -> tuple[str, bool]:
    """BLIP's caption cleaning, and whether it cut words (spec/models.md, section 5).

    Lower-case; some punctuation becomes spaces, commas, apostrophes, question marks, hyphens and slashes
    stay; at most 30 words.
    """
    return first_words(_TO_SPACE.sub(" ", text.lower()), MOST_WORDS)
