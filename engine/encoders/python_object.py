"""The python family: ``python:MODULE:OBJECT``, an encoder in a module of the user's.

MODULE is a dotted name, looked for in the working folder first, or a path to a ``.py`` file. OBJECT is an
`Encoder`, or a function (or class) of one argument, the `EncoderRequest`, that gives one. Importing a module
runs it: name only what you wrote or trust.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

from engine.encoders.encoder import Encoder
from engine.encoders.foreign import METHODS, CheckedEncoder, call
from engine.encoders.library_errors import first_line
from engine.encoders.request import EncoderRequest
from engine.errors import InputError, unknown_name
from engine.inputs import check_regular_file

SUFFIX = ".py"  # what ends so is a file


def open_family(request: EncoderRequest) -> Encoder:
    """The encoder that the spec names. Raises `InputError` for whatever goes wrong on the way to it."""
    check_request(request)
    assert request.weights is not None
    module = _import(request)
    public = [name for name in vars(module) if not name.startswith("_")]
    if not hasattr(module, request.weights):
        raise unknown_name(f"object of the module {request.name}", request.weights, public)
    found = getattr(module, request.weights)
    is_encoder = not isinstance(found, type) and all(hasattr(found, method) for method in METHODS)
    if callable(found) and not is_encoder:
        found = call(request.spec, found, request)
    return CheckedEncoder(found, request.spec)


def check_request(request: EncoderRequest) -> None:
    """Raise `InputError` for what can be known to be wrong without running anything."""
    if request.weights is None:
        raise InputError(f"{request.spec}: names no object; expected python:MODULE:OBJECT")
    if request.preprocess is not None:
        raise InputError(
            f"{request.spec}: the preprocessing of an encoder in Python is its own; leave --preprocess out"
        )
    if request.name.endswith(SUFFIX):
        check_regular_file(Path(request.name).expanduser(), f"a Python module ({request.spec})")


def _import(request: EncoderRequest) -> ModuleType:
    """The module, with the working folder before all others while it is imported."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        if request.name.endswith(SUFFIX):
            return _import_file(Path(request.name).expanduser(), request.spec)
        return import_module(request.name)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"{request.spec}: the module {request.name} cannot be imported: {type(error).__name__}: "
            f"{first_line(error)} (--debug shows where)"
        ) from error
    finally:
        sys.path.remove(here)


def _import_file(file: Path, spec: str) -> ModuleType:
    name = f"itrstress_python_{hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:16]}"
    found = importlib.util.spec_from_file_location(name, file)
    if found is None or found.loader is None:
        raise InputError(f"{spec}: {file}: not a Python module")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # as an import does: data classes and pickles look themselves up there
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
