"""The families of variants, and the way from a spec string to a `Variant`.

Grammar: ``name[:positional...][:key=value...]``, for instance ``mix:0.9:seed=1``. A family whose one
parameter is a path (``rococo:FILE``) takes the rest of the string, colons included; a path that is one
parameter of several (``concepts=FILE``) goes on to the next ``key=``. A new family is one new file in
`engine.variants.families`; nothing else needs to know it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, get_args

from engine.errors import InputError, unknown_name
from engine.variants import families
from engine.variants.parameters import Parameter
from engine.variants.variant import Modality, Side, Variant

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True)
class Family:
    """A registered kind of variant: `make` takes the parameters by name and gives a `Variant`.

    `whole_rest` says that the one parameter is everything after ``name:``.
    """

    name: str
    make: Callable[..., Variant]
    parameters: tuple[Parameter, ...]
    whole_rest: bool
    doc: str

    @property
    def usage(self) -> str:
        """How its spec is written, such as ``mix:LEVEL[:seed=0]``."""
        return ":".join([self.name, *(p.name.upper() for p in self.parameters if p.required)]) + "".join(
            f"[:{p.name}={'FILE' if p.is_file else p.default}]" for p in self.parameters if not p.required
        )

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return self.doc.split("\n", 1)[0]

    @property
    def acts_on(self) -> tuple[Side, Modality] | None:
        """The side and the modality of all its variants; None where each has its own."""
        side: Any = getattr(self.make, "side", None)
        modality: Any = getattr(self.make, "modality", None)
        if side not in get_args(Side) or modality not in get_args(Modality):
            return None
        return side, modality


_FAMILIES: dict[str, Family] = {}


def family(name: str, *parameters: Parameter, whole_rest: bool = False) -> Callable[[_Class], _Class]:
    """Class decorator: makes the class, whose keyword arguments are `parameters`, the variant family `name`.

    The class' docstring is what `itrstress variants list` shows. Raises ValueError for a name that is taken.
    """

    def register(member: _Class) -> _Class:
        if name in _FAMILIES:
            raise ValueError(f"two variant families are called {name!r}")
        _FAMILIES[name] = Family(name, member, parameters, whole_rest, inspect.getdoc(member) or "")
        return member

    return register


@cache
def variant_families() -> Mapping[str, Family]:
    """Every family by its name, in alphabetical order."""
    for module in pkgutil.iter_modules(families.__path__):
        importlib.import_module(f"{families.__name__}.{module.name}")
    return dict(sorted(_FAMILIES.items()))


def make_variant(spec: str) -> Variant:
    """The variant that `spec` describes. Raises `InputError` as `parse_spec`."""
    chosen, arguments = parse_spec(spec)
    return chosen.make(**arguments)


def split_specs(text: str) -> list[str]:
    """The specs of a list with commas; a path (``rococo:FILE``) keeps those that no family's name follows."""
    known = variant_families()
    specs: list[str] = []
    for part in text.split(","):
        before = known.get(specs[-1].partition(":")[0]) if specs else None
        if before is not None and before.whole_rest and part.partition(":")[0] not in known:
            specs[-1] += f",{part}"
        else:
            specs.append(part)
    return specs


def takes_seed(spec: str) -> bool:
    """Whether a variant takes a seed that its spec does not name."""
    chosen = variant_families().get(spec.partition(":")[0])
    has_seed = chosen is not None and any(parameter.name == "seed" for parameter in chosen.parameters)
    return has_seed and ":seed=" not in spec


def with_seed(spec: str, seed: int) -> str:
    """A spec with the seed, where it takes one and does not name it."""
    return f"{spec}:seed={seed}" if takes_seed(spec) else spec


def parse_spec(spec: str) -> tuple[Family, Mapping[str, Any]]:
    """The family that `spec` names, and the value of each of its parameters.

    Raises `InputError` (one line, with the nearest valid name) for an unknown family or parameter, a missing,
    repeated or surplus one, or a value that the parameter does not take.
    """
    name, _, rest = spec.partition(":")
    known = variant_families()
    if name not in known:
        raise unknown_name("variant", name, known)
    chosen = known[name]
    return chosen, _arguments(spec, chosen, spec_parts(rest, chosen))


def spec_parts(rest: str, chosen: Family) -> list[str]:
    """The parameters in a spec of the family, from the text behind its name."""
    if chosen.whole_rest or not rest:
        return [rest] if rest else []
    files = tuple(f"{p.name}=" for p in chosen.parameters if p.is_file)
    parts: list[str] = []
    for part in rest.split(":"):
        if files and parts and parts[-1].startswith(files) and "=" not in part:
            parts[-1] += f":{part}"
        else:
            parts.append(part)
    return parts


def _arguments(spec: str, chosen: Family, parts: Sequence[str]) -> dict[str, Any]:
    """The keyword arguments of a family from the parts of a spec."""
    texts: dict[str, str] = {}
    waiting = iter([p for p in chosen.parameters if p.positional])
    named = {p.name: p for p in chosen.parameters if not p.positional}
    for part in parts:
        key, equals, value = part.partition("=")
        if equals and not chosen.whole_rest:
            if key not in named:
                raise _unknown_parameter(spec, key, chosen)
            if key in texts:
                raise InputError(f"variant {spec!r}: parameter {key!r} is given twice; give it once")
            texts[key] = value
            continue
        place = next(waiting, None)
        if place is None:
            raise InputError(f"variant {spec!r}: {part!r} is one value too many; expected {chosen.usage}")
        texts[place.name] = part
    return {p.name: _value(spec, chosen, p, texts) for p in chosen.parameters}


def _value(spec: str, chosen: Family, parameter: Parameter, texts: Mapping[str, str]) -> Any:
    if parameter.name not in texts:
        if parameter.required:
            raise InputError(f"variant {spec!r}: {parameter.name!r} is missing; expected {chosen.usage}")
        return parameter.default
    try:
        return parameter.parse(texts[parameter.name])
    except ValueError:
        found = texts[parameter.name]
        raise InputError(
            f"variant {spec!r}: {parameter.name} is {found!r}; expected {parameter.expected}, "
            f"as in {chosen.usage}"
        ) from None


def _unknown_parameter(spec: str, key: str, chosen: Family) -> InputError:
    named = [p.name for p in chosen.parameters if not p.positional]
    if not named:
        return InputError(f"variant {spec!r}: {key!r} is not a parameter; expected {chosen.usage}")
    return InputError(f"variant {spec!r}: {unknown_name('parameter', key, named)}")
