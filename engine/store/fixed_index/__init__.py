"""Fixed indexes: gallery sets frozen once, with their fingerprints, for the queries of many checkpoints.

An index is a folder: ``index.json`` says what it is of and what its sets are (`record`), ``gallery.h5`` is an
ordinary store file that holds gallery sets only, so that checksums, integrity and everything that reads a
store serve it too. It is made whole or not at all and never written again.
"""

from engine.store.fixed_index.build import build_index
from engine.store.fixed_index.reader import FixedIndex, open_index
from engine.store.fixed_index.record import GALLERY_FILE, INDEX_FILE, IndexedSet, IndexRecord

__all__ = [
    "GALLERY_FILE",
    "INDEX_FILE",
    "FixedIndex",
    "IndexRecord",
    "IndexedSet",
    "build_index",
    "open_index",
]
