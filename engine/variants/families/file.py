"""`file:PATH`: a variant that was made before, read from its file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.corpus.corpus import Corpus
from engine.variants.parameters import Parameter
from engine.variants.registry import family
from engine.variants.variant import Modality, Side, VariantItems
from engine.variants.variant_file import Header
from engine.variants.variant_file_reader import read_header, read_variant_file


@family("file", Parameter("path", Path, "the path of a variant's file", positional=True), whole_rest=True)
@dataclass(frozen=True)
class VariantFile:
    """The items of a file that `itrstress variants make` wrote, or anybody in its format.

    PATH is the rest of the spec, colons included. The variant has the name that the file's header holds, and
    the same items: in a store it is the same set, under the same content key, as the variant made from its
    own spec. The file must be of the corpus (ids, texts and their order, by its fingerprint). Files are not
    trusted: every line is checked, and what is wrong is named with its line.
    """

    path: Path

    @cached_property
    def header(self) -> Header:
        """The file's first line. Raises `InputError` when it is none."""
        return read_header(self.path)

    @property
    def name(self) -> str:
        """The name of the variant in the file."""
        return self.header.name

    @property
    def side(self) -> Side:
        """That of the variant in the file."""
        return self.header.side

    @property
    def modality(self) -> Modality:
        """That of the variant in the file."""
        return self.header.modality

    def apply(self, corpus: Corpus) -> VariantItems:
        """The items, in the order of the file; errors as `read_variant_file`."""
        return read_variant_file(self.path, corpus)[1]
