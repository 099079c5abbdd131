"""VSE-infinity, from the published checkpoints."""

from __future__ import annotations

from engine.encoders.family import IMAGES, REGIONS, Family, FamilyFacts, NeededFile
from engine.encoders.needed_files import needed_file, needed_words
from engine.encoders.options import checkpoint_paths, read_options
from engine.encoders.request import EncoderRequest


def needed_files(request: EncoderRequest) -> list[NeededFile]:
    """The checkpoint says whether its text side is BERT or a GRU; one of both vocabularies is enough."""
    (checkpoint,) = checkpoint_paths(request, 1)
    options = read_options(request)
    words = needed_words(options, checkpoint)
    pieces = checkpoint.parent / "vocab.txt"
    if words.there or options.values.get("vocab") is not None or not pieces.is_file():
        where = words.where if words.there else f"{words.where}, or BERT's {pieces}"
        return [needed_file("checkpoint", checkpoint), NeededFile("vocabulary", where, words.there)]
    return [needed_file("checkpoint", checkpoint), needed_file("BERT's vocabulary", pieces)]


FAMILIES = (
    Family(
        "vse_infty",
        "engine.encoders.vse_infty.encoder",
        FamilyFacts(
            ("vse_infty:FILE[:vocab=FILE,image_size=512]",),
            f"{IMAGES} (grid) or {REGIONS}",
            "cosine",
            "VSE-infinity: region or grid, BERT or BiGRU",
        ),
        needed_files,
        names_files=True,
        options=("vocab", "image_size", "text_heads"),
        signature=("gpool.linear.weight", "image_encoder.gpool.linear.weight"),
    ),
)
