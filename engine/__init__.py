"""itrstress: stress tests for image-text retrieval.

For notebooks: `engine.evaluate("store.h5")`, `engine.sweep("run.yaml")`, `engine.load("results")`
(`engine.api`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import indexes as indexes  # first: it sets the BLAS kernel before numpy is loaded
from engine.version import VERSION as __version__

if TYPE_CHECKING:
    from engine.api import Evaluation, load, sweep

__all__ = ["Evaluation", "__version__", "load", "sweep"]


def __dir__() -> list[str]:
    """What is there, and what comes when it is first used."""
    return sorted({*globals(), *__all__, "evaluate"})


def __getattr__(name: str) -> Any:
    """`engine.api` is imported when it is first used: the command line does not wait for it."""
    if name == "evaluate":  # a package that can be called
        return import_module("engine.evaluate")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("engine.api"), name)
