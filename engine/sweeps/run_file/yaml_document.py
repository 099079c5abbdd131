"""A YAML file of a user's, validated: every error names file, line and key, what was found and expected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from engine.corpus.shape import describe, shorten
from engine.errors import InputError, unknown_name
from engine.evaluate.plain_words import expected
from engine.inputs import check_regular_file
from indexes.errors import SearchInputError

LARGEST_FILE = 1 << 20
DEEPEST = 16
LONGEST_NUMBER = 40
INTEGER = "tag:yaml.org,2002:int"

Place = tuple[str | int, ...]
"""The way to a value: keys, and numbers in lists."""

Model = TypeVar("Model", bound=BaseModel)


class Document:
    """A file as plain values (`data`) and as nodes that know their lines.

    Raises `InputError` when the file cannot be read, is not plain YAML, or gives a key twice.
    """

    def __init__(self, file: Path, kind: str) -> None:
        self.file, self._kind = file, kind
        text = read_text(file, kind)
        self._root = self._compose(text)
        self._check_keys()
        self._check_scalars()
        self.data: dict[str, Any] = self._load(text)

    def _compose(self, text: str) -> yaml.Node:
        try:
            self._check_plain(text)
            node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            raise self._not_yaml(error) from error
        except yaml.YAMLError as error:
            raise InputError(f"{self.file}: not YAML ({' '.join(str(error).split())})") from error
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{self.file}: expected {self._kind}, keys with values")
        return node

    def _check_plain(self, text: str) -> None:
        """Raise `InputError` for aliases and for deep nesting, before anything is made of the text.

        A few lines of either can stand for more values than any memory holds, or take for ever to read.
        """
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            place = f"{self.file} line {line_of(event.start_mark)}"
            if isinstance(event, yaml.AliasEvent):
                raise InputError(f"{place}: the alias *{event.anchor} is not supported; write the value out")
            if depth > DEEPEST:
                raise InputError(f"{place}: nested more than {DEEPEST} deep, expected {self._kind}")

    def _not_yaml(self, error: yaml.MarkedYAMLError) -> InputError:
        return InputError(f"{self.file} line {line_of(error.problem_mark)}: not YAML ({error.problem})")

    def _load(self, text: str) -> Any:
        try:
            return yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:  # such as a tag that names an object of Python
            raise self._not_yaml(error) from error
        except ValueError as error:  # such as the date 2024-13-01
            raise InputError(
                f"{self.file}: a value that YAML cannot read ({error}); put it in quotes"
            ) from error

    def _check_keys(self) -> None:
        """Raise `InputError` for a key that is given twice (YAML would quietly take the last)."""
        waiting: list[yaml.Node] = [self._root]
        while waiting:
            seen: set[str | int] = set()
            for key, value in children(waiting.pop()):
                if key in seen:
                    line = line_of(value.start_mark)
                    raise InputError(f"{self.file} line {line}: the key {key!r} is given twice; give it once")
                seen.add(key)
                waiting.append(value)

    def _check_scalars(self) -> None:
        """Raise `InputError` for what no value of any file is: a NUL character, a number of endless digits
        (Python reads those of base 16, and fails when they are to be written in base 10).
        """
        waiting: list[yaml.Node] = [self._root]
        while waiting:
            node = waiting.pop()
            waiting += [inner for _, inner in children(node)]
            if not isinstance(node, yaml.ScalarNode):
                continue
            place = f"{self.file} line {line_of(node.start_mark)}"
            if "\0" in node.value:
                raise InputError(f"{place}: {shorten(repr(node.value))} has a NUL character; leave it out")
            if node.tag == INTEGER and len(node.value) > LONGEST_NUMBER:
                raise InputError(
                    f"{place}: {shorten(node.value)} has {len(node.value):,} characters; "
                    f"expected a number of at most {LONGEST_NUMBER}"
                )

    def find(self, place: Place) -> tuple[Place, yaml.Node]:
        """The innermost of the places on the way to a value that the file has, and its node."""
        node, found = self._root, 0
        for step in place:
            inner = next((value for key, value in children(node) if key == step), None)
            if inner is None:
                break
            node, found = inner, found + 1
        return place[:found], node

    def value(self, place: Place) -> Any:
        """The text of a scalar."""
        return self.find(place)[1].value

    def at(self, place: Place, what: object) -> InputError:
        """The error with file and line before it."""
        return InputError(f"{self.file} line {line_of(self.find(place)[1].start_mark)}: {what}")

    def error(self, place: Place, what: str) -> InputError:
        """The error for a key."""
        return self.at(place, f"{dotted(place)} {what}")

    @contextmanager
    def placing(self, place: Place) -> Iterator[None]:
        """Put file and line before an error of input that is raised inside."""
        try:
            yield
        except (InputError, SearchInputError) as error:
            raise self.at(place, error) from error

    def validate(self, model: type[Model], model_of: Callable[[Place], type[BaseModel]]) -> Model:
        """The document's `data` as a model. `model_of` says which model a place inside it belongs to.

        Raises `InputError` for the first problem.
        """
        try:
            return model.model_validate_json(json.dumps(self.data, default=str))
        except ValidationError as error:
            raise self._problem(error, model_of) from error

    def _problem(self, error: ValidationError, model_of: Callable[[Place], type[BaseModel]]) -> InputError:
        problems = error.errors(include_url=False)
        # an unknown key is named first: it is often the missing one, misspelt
        problem = next((one for one in problems if one["type"] == "extra_forbidden"), problems[0])
        place: Place = problem["loc"]
        if problem["type"] == "extra_forbidden":
            return self.at(place, unknown_name("key", str(place[-1]), model_of(place).model_fields))
        if problem["type"] == "missing":
            return self.error(place, "is missing")
        found = describe(problem["input"])
        return self.error(self.find(place)[0], f"is {found}; expected {expected(problem)}")


def read_text(file: Path, kind: str) -> str:
    """The text of a file. Raises `InputError`."""
    size = check_regular_file(file, f"{kind} in YAML").st_size
    if size > LARGEST_FILE:
        raise InputError(f"{file}: {size:,} bytes, {kind} has at most {LARGEST_FILE:,}")
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); expected {kind} in YAML") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text; expected {kind} in YAML") from error


def line_of(mark: Any) -> int:
    """The line of a YAML mark, from 1; 1 where YAML does not know."""
    return 1 if mark is None else int(mark.line) + 1


def children(node: yaml.Node) -> Iterator[tuple[str | int, yaml.Node]]:
    """Keys (or numbers) and nodes inside a node."""
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        yield from enumerate(node.value)


def dotted(place: Place) -> str:
    """A place for people: ``checkpoints[0].model``."""
    parts = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return "".join(parts).removeprefix(".")
