"""How WordNet 3.0 gets into our NLTK data folder: copied, or fetched by NLTK's downloader.

Nothing here reaches for the network but `download`.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import InputError, ItrstressError
from engine.variants.wordnet import (
    RESOURCE,
    VERSION,
    WAYS,
    data_folder,
    open_folder,
    read_wordnet,
    register_folder,
)

DATABASE_FILES = (
    *("cntlist.rev", "index.sense"),
    *(f"{kind}.{part}" for kind in ("index", "data") for part in ("adj", "adv", "noun", "verb")),
    *(f"{part}.exc" for part in ("adj", "adv", "noun", "verb")),
)
"""What NLTK reads of a WordNet database folder, beside `lexnames`, which a database lacks."""
LEXICOGRAPHER_FILES: tuple[tuple[str, str], ...] = (
    ("adj", "all pert"),
    ("adv", "all"),
    (
        "noun",
        "Tops act animal artifact attribute body cognition communication event feeling food group location "
        "motive object person phenomenon plant possession process quantity relation shape state substance "
        "time",
    ),
    (
        "verb",
        "body change cognition communication competition consumption contact creation emotion motion "
        "perception possession social stative weather",
    ),
    ("adj", "ppl"),
)
"""The lexicographer files by part of speech, in the order of their numbers (lexnames(5) of its manual)."""
_POS_NUMBER = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}


def install_from(source: Path, *, force: bool = False) -> Path:
    """Copy a WordNet 3.0 database folder into our NLTK data folder, with the `lexnames` that NLTK wants.

    Returns the folder made. It is tried before it takes its place. Raises `InputError` when `source` lacks a
    file, is of another version or cannot be read as WordNet, or when there is one already and not `force`.
    """
    missing = [name for name in DATABASE_FILES if not (source / name).is_file()]
    if missing:
        raise InputError(
            f"--from {source}: no WordNet database folder: {', '.join(missing[:3])}"
            f"{f' and {len(missing) - 3} more' if len(missing) > 3 else ''} missing; expected "
            f"{len(DATABASE_FILES)} files such as data.noun and index.sense"
        )
    _check_version(source)
    with _new_folder(force) as folder:
        for name in DATABASE_FILES:
            shutil.copyfile(source / name, folder / name)
        (folder / "lexnames").write_text(lexnames(), encoding="ascii")
    return installed_folder()


def download(*, force: bool = False) -> Path:
    """Let NLTK's downloader fetch its WordNet data into our NLTK data folder: the only use of the network.

    Raises `InputError` when there is one already and not `force`, `ItrstressError` when it cannot be fetched.
    """
    import nltk.downloader

    with _new_folder(force) as folder:
        loader = nltk.downloader.Downloader(download_dir=str(folder.parent.parent))
        try:
            loader.download("wordnet", quiet=True, raise_on_error=True)
        except (ValueError, OSError) as error:
            raise ItrstressError(f"WordNet cannot be downloaded: {error}; {WAYS}") from None
        archive = folder.with_suffix(".zip")
        if archive.is_file() and not any(folder.iterdir()):
            shutil.unpack_archive(archive, folder.parent)
    return installed_folder()


def installed_folder() -> Path:
    """Where `install_from` and `download` put WordNet."""
    return data_folder() / RESOURCE


def lexnames() -> str:
    """The table of the 45 lexicographer files: number, name, part of speech."""
    names = [(part, name) for part, group in LEXICOGRAPHER_FILES for name in group.split()]
    return "".join(f"{n:02d}\t{part}.{name}\t{_POS_NUMBER[part]}\n" for n, (part, name) in enumerate(names))


def _check_version(source: Path) -> None:
    with (source / "data.noun").open(encoding="utf-8", errors="replace") as lines:
        head = "".join(line for line, _ in zip(lines, range(30), strict=False))
    found = re.search(r"WordNet (\d+(?:\.\d+)*) Copyright", head)
    if found is None or found[1] != VERSION:
        version = f"WordNet {found[1]}" if found else "no WordNet version in data.noun"
        raise InputError(f"--from {source}: {version}; expected WordNet {VERSION}")


@contextmanager
def _new_folder(force: bool) -> Iterator[Path]:
    """A folder ``.../corpora/wordnet`` to fill, which takes its place when it can be read as WordNet."""
    target = installed_folder()
    if target.exists() and not force:
        raise InputError(f"{target}: WordNet is there already; add --force to replace it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wordnet-", dir=data_folder()) as temporary:
        folder = Path(temporary) / RESOURCE
        folder.mkdir(parents=True)
        register_folder(data_folder())
        yield folder
        read_wordnet(str(folder))
        _replace(folder, target, Path(temporary))
    open_folder.cache_clear()


def _replace(folder: Path, target: Path, aside: Path) -> None:
    if target.exists():
        target.rename(aside / "old")
    folder.rename(target)
