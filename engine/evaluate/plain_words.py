"""What pydantic finds wrong with a value, in plain words: found, expected."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import ErrorDetails, PydanticCustomError

EMPTY_PATH = "empty_path"

# type of a problem -> what was expected, with the numbers and words of its context
EXPECTED: Mapping[str, str] = {
    "string_type": "text, in quotes",
    "string_too_short": "text that is not empty",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "names with values",
    "model_type": "names with values",
    "too_short": "at least {min_length} in the list",
    "too_long": "at most {max_length} in the list",
    "path_type": "a path",
    EMPTY_PATH: "a path",
}
ABSENT_OR_UNKNOWN: Mapping[str, str] = {"missing": "is missing", "extra_forbidden": "is no known field"}


def expected(problem: ErrorDetails) -> str:
    """What a value should have been."""
    known = EXPECTED.get(problem["type"])
    return problem["msg"] if known is None else known.format(**problem.get("ctx", {}))


def not_empty(value: Any) -> Any:
    """Refuse the empty text, which would be the folder one happens to be in."""
    if value == "":
        raise PydanticCustomError(EMPTY_PATH, "empty")
    return value


def having(*names: str) -> AfterValidator:
    """Numbers by name that have one for each of these."""

    def check(values: Mapping[str, float | None]) -> Mapping[str, float | None]:
        for name in names:
            if values.get(name) is None:
                raise PydanticCustomError("lacking", "a number for {name} in it", {"name": name})
        return values

    return AfterValidator(check)


FilePath = Annotated[Path, BeforeValidator(not_empty)]
"""A path that is not empty."""
