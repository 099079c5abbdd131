"""Shared fixtures: where the published data and WordNet lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import InputError

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test never waits for a network


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of published data (`ITRSTRESS_DATA`, else ``../shared/data``); skips where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ITRSTRESS_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no published data at {folder}; set ITRSTRESS_DATA")
    return folder


@pytest.fixture(scope="session")
def wordnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """WordNet, ready to be opened: the user's, or built from Debian's packages; skips where neither is."""
    from engine.variants.wordnet import find_wordnet
    from engine.variants.wordnet_setup import install_from

    with pytest.MonkeyPatch.context() as patch:
        found = find_wordnet()
        if found is None:
            patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
            try:
                found = install_from(Path("/usr/share/wordnet"))
            except InputError as error:
                pytest.skip(f"no WordNet: {error}")
        yield found
