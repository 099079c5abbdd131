"""itrstress: stress tests for image-text retrieval.

For notebooks: `engine.evaluate("store.h5")`, `engine.sweep("run.yaml")`, `engine.load("results")`
(`engine.api`). `engine.evaluate` is also the package of that name: it is made callable here, above all
layers, because every import of it runs this file first. To type checkers it is the function.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import indexes as indexes  # first: it sets the BLAS kernel before numpy is loaded
from engine.version import VERSION as __version__

if TYPE_CHECKING:
    from engine.api import Evaluation, evaluate, load, sweep

__all__ = ["Evaluation", "__version__", "evaluate", "load", "sweep"]


def __dir__() -> list[str]:
    """What is there, and what comes when it is first used."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """`engine.api` is imported when it is first used: the command line does not wait for it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("engine.api"), name)


class CallablePackage(ModuleType):
    """`engine.evaluate`; a call evaluates a store."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """See `engine.api.evaluate`."""
        return import_module("engine.api").evaluate(*arguments, **options)

    @property
    def __signature__(self) -> Any:
        """That of `engine.api.evaluate`, for the help of notebooks."""
        from inspect import signature

        return signature(import_module("engine.api").evaluate)


import_module("engine.evaluate").__class__ = CallablePackage
