"""Which repositories in the model hub's cache a model is taken from, and which files they stand for now.

Where the files of a named model lie only its library knows, so `cached_repositories` may import that;
`cached_files` looks into the cache alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

PREFIX = "models--"


def cached_repositories(spec: str) -> tuple[str, ...]:
    """The folders of the cache, such as ``models--owner--name``, that hold files of a spec's model.

    Raises `InputError` as `engine.encoders.needed_files` does.
    """
    from engine.encoders.needed_files import needed_files

    cache = _cache()
    places = (Path(file.where) for file in needed_files(spec) or ())
    found = {place.relative_to(cache).parts[0] for place in places if place.is_relative_to(cache)}
    return tuple(sorted(one for one in found if one.startswith(PREFIX)))


def cached_files(repositories: Iterable[str]) -> Iterator[Path]:
    """The reference ``main`` of each repository, and the files of the commit that it names."""
    for name in repositories:
        repository = _cache() / name
        reference = repository / "refs" / "main"
        yield reference
        if reference.is_file():
            yield from sorted((repository / "snapshots" / reference.read_text().strip()).rglob("*"))


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)
