"""Distractor sets: rows that are neither originals nor made from one, in files beside the store.

A distractor set is one HDF5 file, ``STORE.distractors/<modality>.<name>.h5`` beside ``STORE.h5``, and not a
group of the store itself, which the design would have as one file. The reasons: a set is as large as the
store's whole sets are small, and adding any set to a store lays out a new file and copies what is there; it
belongs to a checkpoint, not to a corpus; its rows have no ids, texts or sources; and it is written from the
front to the end, so that one checksum and one state a block of rows do, where a store needs one a row. What
ties it to a store is the encoder's fingerprint, and to results its content key.
"""

from engine.store.distractors.layout import BLOCK_ROWS, DistractorHeader, set_file, set_folder
from engine.store.distractors.reader import DistractorSet, find_set, list_sets, open_set
from engine.store.distractors.sizes import parse_rows, parse_sizes
from engine.store.distractors.writer import write_set

__all__ = [
    "BLOCK_ROWS",
    "DistractorHeader",
    "DistractorSet",
    "find_set",
    "list_sets",
    "open_set",
    "parse_rows",
    "parse_sizes",
    "set_file",
    "set_folder",
    "write_set",
]
