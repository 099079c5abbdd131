"""What a run file's options must be beyond their types: names that there are, places that fit, parts that go
together. Every error names file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from engine.corpus.normalise import NORMALISATIONS
from engine.corpus.registry import READERS
from engine.corpus.shape import shorten
from engine.encoders.request import PRECISIONS, check_device_name
from engine.errors import unknown_name
from engine.evaluate.names import safe_name
from engine.store.distractors import parse_rows
from engine.sweeps.run_file.options import CorpusSpec, RunDocument
from engine.sweeps.run_file.yaml_document import Document, Place
from indexes.memory import parse_bytes
from indexes.registry import BACKENDS

RELATIVE = "paths are relative to this file"


def check_options(written: RunDocument, document: Document) -> None:
    """Raise `InputError` for a name that no registry holds, a direction given twice, and options that have
    no use without others."""
    for place, kind, name, known in (
        (("backend",), "search backend", written.backend, BACKENDS),
        (("precision",), "precision", written.precision, PRECISIONS),
    ):
        if name not in known:
            raise document.at(place, unknown_name(kind, name, known))
    with document.placing(("device",)):
        check_device_name(written.device)
    if written.memory_limit is not None:
        with document.placing(("memory_limit",)):
            parse_bytes(written.memory_limit)
    for number, direction in enumerate(written.directions):
        if direction in written.directions[:number]:
            raise document.error(("directions", number), f"is {direction} once more; give it once")
    check_belongings(written, document)


def check_belongings(written: RunDocument, document: Document) -> None:
    """Raise `InputError` for options that have no use without others, or exclude each other."""
    sizes = read_sizes(written, document)
    if written.distractor_set is not None and not any(sizes):
        raise document.error(
            ("distractor_set",), "belongs to distractors; say how many, such as distractors: [0, 10k]"
        )
    if written.allow_space_mismatch and written.index is None:
        raise document.error(("allow_space_mismatch",), "belongs to index; name one or leave it out")
    if written.relevance is not None and not written.ranked:
        raise document.error(("relevance",), "belongs to `ranked: true`; add it or leave it out")
    for number, entry in enumerate(written.checkpoints):
        if entry.rerank is not None and any(sizes):
            place: Place = ("checkpoints", number, "rerank")
            raise document.error(place, "and distractors exclude each other; leave one of them out")
    if written.ranked and any(sizes):
        raise document.error(("ranked",), "lists no distractors; leave one of ranked and distractors out")


def check_places(written: RunDocument, document: Document, folder: Path) -> None:
    """Raise `InputError` for outputs that are no folders, and for a store of relevance or an index that is
    not there."""
    for name, path in (("stores", written.stores), ("out", written.out)):
        target = folder / path
        there = next((one for one in (target, *target.parents) if one.exists()), target)
        if not there.is_dir():
            found = shorten(repr(str(path)), 200)
            raise document.error((name,), f"is {found}: {there} is no folder; name another place")
    if written.relevance is not None:
        check_there(document, ("relevance",), (folder / written.relevance).is_file())
    if written.index is not None:
        check_there(document, ("index",), (folder / written.index).is_dir())


def check_there(document: Document, place: Place, there: bool) -> None:
    """Raise `InputError` when what is named at a place is not there."""
    if not there:
        found = shorten(repr(str(document.value(place))), 200)
        raise document.error(place, f"{found} is not there; {RELATIVE}")


def read_sizes(written: RunDocument, document: Document) -> tuple[int, ...]:
    """The numbers of distractors, ascending; 0 alone where none are asked for. Raises `InputError`."""
    sizes = []
    for number, text in enumerate(written.distractors):
        with document.placing(("distractors", number)):
            sizes.append(parse_rows("distractors", text))
    for number, (size, later) in enumerate(pairwise(sizes), start=1):
        if later <= size:
            raise document.error(
                ("distractors", number), f"is {later:,} after {size:,}; give the sizes in ascending order"
            )
    return tuple(sizes) or (0,)


def read_corpora(
    written: RunDocument, document: Document, folder: Path
) -> tuple[tuple[str | None, CorpusSpec], ...]:
    """The corpora with their names, paths absolute; no name for a single one.

    Raises `InputError` for none and for both forms, a path that is not there, and names that fall together.
    """
    if (written.corpus is None) == (not written.corpora):
        found = "is missing" if written.corpus is None else "and corpora are both there"
        raise document.error(
            ("corpus",), f"{found}; expected corpus for one, or corpora, a list, for several"
        )
    asks_images = written.index is None or "i2t" in written.directions
    return tuple(
        (name, checked_corpus(spec, document, place, folder, asks_images=asks_images))
        for place, name, spec in corpora_of(written, document)
    )


def corpora_of(written: RunDocument, document: Document) -> Iterator[tuple[Place, str | None, CorpusSpec]]:
    """Place, name and spec of each corpus. Raises `InputError` when two would have the same folders."""
    if written.corpus is not None:
        yield ("corpus",), None, written.corpus
    seen: dict[str, str] = {}
    for number, one in enumerate(written.corpora):
        file = safe_name(one.name).casefold()
        if file in seen:
            raise document.error(
                ("corpora", number),
                f"has the name {one.name!r}, as {seen[file]!r} before; give each a name of its own",
            )
        seen[file] = one.name
        yield ("corpora", number), one.name, CorpusSpec(**one.model_dump(exclude={"name"}))


def checked_corpus(
    spec: CorpusSpec, document: Document, place: Place, folder: Path, *, asks_images: bool
) -> CorpusSpec:
    """A corpus with absolute paths. Raises `InputError` for what is unknown or not there.

    Its images may be left out where captions only are embedded.
    """
    named: tuple[tuple[str, str, str | None, Iterable[str]], ...] = (
        ("reader", "reader", spec.reader, READERS),
        ("normalisation", "text normalisation", spec.normalisation, NORMALISATIONS),
    )
    for key, kind, name, known in named:
        if name is not None and name not in known:
            raise document.at((*place, key), unknown_name(kind, name, known))
    has_none = spec.images is None and spec.features is None
    if (has_none and asks_images) or (spec.images is not None and spec.features is not None):
        found = "neither images nor features" if spec.images is None else "both images and features"
        raise document.error(place, f"has {found}; expected the one that the checkpoints read")
    paths = {"path": spec.path, "images": spec.images, "features": spec.features}
    absolute = {key: folder / path for key, path in paths.items() if path is not None}
    is_there = {"path": Path.is_file, "images": Path.is_dir, "features": Path.exists}
    for key, path in absolute.items():
        check_there(document, (*place, key), is_there[key](path))
    return spec.model_copy(update=absolute)
