"""Where captions and images come from: stores and an image folder, named by the user or recorded in results.

Results are files from elsewhere: what they record is only looked for, and what is not there, or is of another
corpus, is said on the page. What the user names must be usable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

from engine.corpus.images import check_image_folder
from engine.errors import InputError
from engine.evaluate.collection import FoundRun
from engine.evaluate.indexed import AnySets, IndexedSets
from engine.evaluate.results import GALLERY_MODALITY, QUERY_MODALITY, Direction
from engine.evaluate.sets import variant_sets
from engine.report.attribution import check_store
from engine.store.reader import SetInfo, Store, open_store
from engine.store.same_items import key_with
from engine.store.schema import ORIGINAL
from engine.variants.variant import Modality

NAME_STORE = "name it with --store"
NAME_IMAGES = "name it with --images"
NO_STORE = "no store at hand holds the variant as it was evaluated"


@dataclass
class Sources:
    """Open stores of the results' corpus and the folder of its images; a context manager.

    `missing` says, a line each, what was looked for and not found.
    """

    stores: tuple[Store, ...]
    images: Path | None
    missing: tuple[str, ...]
    _opened: ExitStack
    _joined: dict[tuple[Path, Path, Direction], IndexedSets] = field(default_factory=dict)

    @classmethod
    def find(cls, found: Sequence[FoundRun], stores: Sequence[Path], images: Path | None) -> Sources:
        """Open the named stores, or else those that the results record, and find the folder of images.

        Raises `InputError` for a named store that cannot be read or is of another corpus, and for a named
        folder that is none.
        """
        missing: list[str] = []
        with ExitStack() as stack:
            opened: list[Store] = []
            for path in stores:
                store = stack.enter_context(open_store(path))
                check_store(found, store)
                opened.append(store)
            for path in [] if stores else recorded_stores(found):
                try:
                    store = stack.enter_context(open_store(path))
                    check_store(found, store)
                    opened.append(store)
                except InputError as error:
                    missing.append(f"Recorded store: {error}; {NAME_STORE}")
            if not opened and not missing:
                missing.append(
                    f"These results record no store; {NAME_STORE} to see captions and attributions."
                )
            folder = check_image_folder(images) if images is not None else recorded_images(found, missing)
            return cls(tuple(opened), folder, tuple(missing), stack.pop_all())
        raise AssertionError  # an ExitStack hides no error

    def __enter__(self) -> Sources:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def store_of(self, one: FoundRun) -> AnySets | None:
        """A store with the items of the run's variant: that of its encoder, else any; None for no variant.

        In an index what the store lacks is that of a store with the other originals.
        """
        made_from = (store for store in self.stores if is_made_from(store, one))
        others = (store for store in self.stores if holds_items(store, one))
        store = next(chain(made_from, others), None)
        if store is None or one.run.index is None:
            return store
        gallery = GALLERY_MODALITY[one.run.direction]
        asking = QUERY_MODALITY[one.run.direction]
        missing = asking if one.run.side == "gallery" else gallery
        other = next((one for one in self.stores if has_originals(one, missing)), None)
        if other is None:
            return store
        queries, galleries = (other, store) if one.run.side == "gallery" else (store, other)
        key = queries.path, galleries.path, one.run.direction
        return self._joined.setdefault(key, IndexedSets(queries, galleries, one.run.direction, one.run.index))


def has_originals(store: Store, modality: Modality) -> bool:
    """Whether a store has the originals of a modality."""
    return any((info.modality, info.name) == (modality, ORIGINAL) for info in store.sets)


def is_made_from(store: Store, one: FoundRun) -> bool:
    """Whether a run's key names the store's own set of the variant."""
    info = variant_info(store, one)
    return info is not None and is_key_of(info.content_key, one)


def holds_items(store: Store, one: FoundRun) -> bool:
    """Whether the store of another encoder has the run's variant, the same item by item."""
    info = variant_info(store, one)
    if info is None:
        return False
    index = one.run.index if one.run.side == "gallery" else None
    maker = one.provenance if index is None else index
    there = store.load(info.modality, info.name, complete=False)
    return is_key_of(key_with(there, maker.encoder_fingerprint), one)


def variant_info(store: Store, one: FoundRun) -> SetInfo | None:
    """The store's set of the run's variant, by name."""
    variant = one.run.variant
    return None if variant is None else variant_sets(store, one.run.direction).get(variant)


def is_key_of(content_key: str, one: FoundRun) -> bool:
    """Whether a set's content key is that of the run's variant, whichever rows were skipped."""
    return one.run.key.get("variant", "").partition(",")[0] == content_key


def recorded_stores(found: Sequence[FoundRun]) -> list[Path]:
    """Where the results say that their stores lie."""
    return [Path(file) for file in dict.fromkeys(file for one in found for file in one.provenance.stores)]


def recorded_images(found: Sequence[FoundRun], missing: list[str]) -> Path | None:
    """The folder of images that a sweep's run file names; what is wrong with it is added to `missing`."""
    named = dict.fromkeys(texts(corpus_config(one).get("images") for one in found))
    for folder in map(Path, named):
        if folder.is_dir():
            return folder
    if named:
        missing.append(f"The recorded image folder {next(iter(named))} is not there; {NAME_IMAGES}.")
    else:
        missing.append(f"These results record no image folder; {NAME_IMAGES} to see images.")
    return None


def corpus_config(one: FoundRun) -> Mapping[str, Any]:
    """What the options of a run say of its corpus."""
    corpus = one.provenance.config.get("corpus")
    return corpus if isinstance(corpus, dict) else {}


def texts(values: Iterable[Any]) -> list[str]:
    """Those that are texts."""
    return [value for value in values if isinstance(value, str)]
