"""Shared fixtures: where the published data lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test never waits for a network


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of published data (`ITRSTRESS_DATA`, else ``../shared/data``); skips where there is none."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ITRSTRESS_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no published data at {folder}; set ITRSTRESS_DATA")
    return folder
