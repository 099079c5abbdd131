"""A scene in words: differently worded English captions, from fully specific to short.

Every wording is drawn from a scene and a generator; `captions` gives the five of a corpus, `wordings` any
number of the same kinds for training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.demo.scenes import NOUNS, Group, Scene

CAPTIONS_PER_IMAGE = 5

_Rng = np.random.Generator

# singular, plural; the first pair is the usual word
_WORDS: dict[str, tuple[tuple[str, str], ...]] = {
    "dog": (("dog", "dogs"), ("puppy", "puppies")),
    "cat": (("cat", "cats"), ("kitten", "kittens")),
    "bird": (("bird", "birds"),),
    "horse": (("horse", "horses"), ("pony", "ponies")),
    "elephant": (("elephant", "elephants"),),
    "rabbit": (("rabbit", "rabbits"), ("bunny", "bunnies")),
    "duck": (("duck", "ducks"),),
    "butterfly": (("butterfly", "butterflies"),),
    "car": (("car", "cars"), ("automobile", "automobiles")),
    "bus": (("bus", "buses"),),
    "bicycle": (("bicycle", "bicycles"), ("bike", "bikes")),
    "boat": (("boat", "boats"), ("sailboat", "sailboats")),
    "airplane": (("airplane", "airplanes"), ("plane", "planes"), ("jet", "jets")),
    "apple": (("apple", "apples"),),
    "banana": (("banana", "bananas"),),
    "cake": (("cake", "cakes"), ("birthday cake", "birthday cakes")),
    "pumpkin": (("pumpkin", "pumpkins"),),
    "man": (("man", "men"), ("guy", "guys")),
    "woman": (("woman", "women"), ("lady", "ladies")),
    "boy": (("boy", "boys"), ("kid", "kids"), ("child", "children")),
    "chair": (("chair", "chairs"),),
    "table": (("table", "tables"),),
    "bed": (("bed", "beds"),),
    "sofa": (("sofa", "sofas"), ("couch", "couches")),
    "lamp": (("lamp", "lamps"),),
    "umbrella": (("umbrella", "umbrellas"),),
    "clock": (("clock", "clocks"), ("alarm clock", "alarm clocks")),
    "cup": (("cup", "cups"), ("mug", "mugs")),
    "balloon": (("balloon", "balloons"),),
    "kite": (("kite", "kites"),),
    "guitar": (("guitar", "guitars"),),
    "ball": (("ball", "balls"), ("beach ball", "beach balls")),
    "hat": (("hat", "hats"), ("top hat", "top hats")),
    "tree": (("tree", "trees"),),
    "flower": (("flower", "flowers"), ("blossom", "blossoms")),
    "cactus": (("cactus", "cactuses"), ("cactus plant", "cactus plants")),
    "mushroom": (("mushroom", "mushrooms"), ("toadstool", "toadstools")),
    "house": (("house", "houses"), ("cottage", "cottages")),
    "tent": (("tent", "tents"),),
    "tower": (("tower", "towers"), ("lighthouse", "lighthouses")),
}

_PLACES: dict[str, tuple[str, ...]] = {
    "beach": ("on the beach", "on a sandy beach", "at the beach", "by the sea", "at the seaside"),
    "meadow": ("in a meadow", "in a green field", "in the grass", "on a sunny meadow", "in the countryside"),
    "street": ("on the street", "on a city street", "in the city", "on the road", "in town"),
    "room": ("in a room", "indoors", "inside a house", "in a room with a wooden floor", "in the living room"),
    "snow": ("in the snow", "on a snowy day", "in winter", "in a snowy landscape", "on snow"),
    "night": ("at night", "under the stars", "under a night sky", "in the moonlight", "on a dark night"),
    "lake": ("by a lake", "at the lake", "on the water", "beside a blue lake", "in front of a lake"),
    "desert": (
        "in the desert", "in a dry desert", "among sand dunes", "in a hot desert", "on the desert sand",
    ),
    "forest": (
        "in a forest", "in the woods", "in a dark forest", "among the trees of a forest", "in the forest",
    ),
    "mountains": (
        "in the mountains", "in front of snowy mountains", "near the mountains", "with mountains behind",
        "below high peaks",
    ),
}  # fmt: skip
_SCENERY: dict[str, tuple[str, ...]] = {
    "beach": ("a beach", "a sandy beach", "a seaside view"),
    "meadow": ("a meadow", "a green field", "a sunny field"),
    "street": ("a street", "a city street", "a road in a city"),
    "room": ("a room", "a room with a wooden floor", "a living room"),
    "snow": ("a snowy landscape", "a winter landscape", "a snowy field"),
    "night": ("a night sky", "a starry night", "a dark night"),
    "lake": ("a lake", "a blue lake", "a lake view"),
    "desert": ("a desert", "a dry desert", "a desert landscape"),
    "forest": ("a forest", "a dark forest", "a wood"),
    "mountains": ("a mountain landscape", "a mountain view", "a mountain range"),
}

_COLOURS: dict[str, tuple[str, ...]] = {
    "red": ("red", "red", "bright red"), "yellow": ("yellow", "yellow", "bright yellow"),
    "purple": ("purple", "purple", "violet"), "orange": ("orange",), "green": ("green",), "blue": ("blue",),
    "pink": ("pink",), "brown": ("brown",), "black": ("black",), "white": ("white",),
}  # fmt: skip
_SIZES = {"small": ("small", "small", "little", "tiny"), "large": ("large", "large", "big", "huge")}
_PEOPLE_SIZES = {"small": ("small", "short", "little"), "large": ("large", "tall", "big")}
_CLOTHES = {"man": ("shirt", "sweater"), "woman": ("dress", "dress"), "boy": ("cap", "cap and shirt")}
_NUMBERS = {2: ("two", "two", "a pair of", "a couple of"), 3: ("three", "three", "a group of three")}

# verb phrases: for one, for several
_POSES: dict[str, tuple[tuple[str, str], ...]] = {
    "animal": (("is", "are"), ("stands", "stand"), ("waits", "wait"), ("can be seen", "can be seen")),
    "vehicle": (("is", "are"), ("is parked", "are parked"), ("stands", "stand")),
    "food": (("is", "are"), ("lies", "lie"), ("has been left", "have been left")),
    "person": (("is", "are"), ("stands", "stand"), ("is standing", "are standing"), ("waits", "wait")),
    "furniture": (("is", "are"), ("stands", "stand"), ("has been put", "have been put")),
    "thing": (("is", "are"), ("lies", "lie"), ("has been left", "have been left")),
    "plant": (("is", "are"), ("stands", "stand"), ("grows", "grow")),
    "building": (("is", "are"), ("stands", "stand"), ("was built", "were built")),
}
_AIRBORNE = (
    ("is", "are"), ("flies", "fly"), ("floats", "float"), ("hovers", "hover"), ("is flying", "are flying"),
)  # fmt: skip
_COLLECTIVES = ("a pair of", "a couple of", "a group of")

# the relation of group 0 to group 1, and the other way round
_RELATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "row": (
        ("to the left of", "left of", "on the left of", "on the left side of"),
        ("to the right of", "right of", "on the right of", "on the right side of"),
    ),
    "depth": (("in front of",), ("behind",)),
    "on": (("on", "on top of", "on"), ("under", "beneath", "underneath")),
    "above": (("above", "over", "high above"), ("below", "under", "beneath")),
}
_BESIDE = ("next to", "beside", "near")
_LOOSE = {"row": _BESIDE, "depth": ("near", "close to"), "on": ("with",), "above": ("near", "with")}


@dataclass(frozen=True)
class _Detail:
    """How much a caption says of every group."""

    number: bool = True
    colour: bool = True
    size: bool = True


_FULL = _Detail()
_NO_SIZE = _Detail(size=False)
_BARE = _Detail(number=False, colour=False, size=False)
_COUNTED = _Detail(colour=False, size=False)


def captions(scene: Scene, rng: np.random.Generator) -> tuple[str, ...]:
    """CAPTIONS_PER_IMAGE wordings of a scene, no two the same.

    Three say everything (told forwards, told backwards, the place first), one leaves sizes or colours out,
    and one is short.
    """
    found: list[str] = []
    for kind in (_forwards, _backwards, _place_first, _less, _short):
        text = _sentence(kind, scene, rng)
        while text in found:
            text = _sentence(kind, scene, rng)
        found.append(text)
    return tuple(found)


def wordings(scene: Scene, rng: np.random.Generator, count: int) -> tuple[str, ...]:
    """`count` captions of the kinds of `captions`, in turn; repeats are possible."""
    kinds = (_forwards, _backwards, _place_first, _less, _short)
    return tuple(_sentence(kinds[i % len(kinds)], scene, rng) for i in range(count))


def indefinite(words: str) -> str:
    """The words behind "a" or "an"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _sentence(kind: Callable[[Scene, _Rng], str], scene: Scene, rng: _Rng) -> str:
    text = kind(scene, rng)
    return text[0].upper() + text[1:] + "." if rng.random() < 0.5 else text


def _one_of(rng: _Rng, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


def _noun(group: Group, rng: _Rng) -> str:
    pairs = _WORDS[group.noun]
    pair = pairs[0] if rng.random() < 0.6 else pairs[int(rng.integers(len(pairs)))]
    return pair[group.number > 1]


def _phrase(group: Group, rng: _Rng, detail: _Detail = _FULL) -> str:
    """A group as a noun phrase: "a small red umbrella", "two dogs", "three tall men in blue shirts"."""
    words = _noun(group, rng)
    person = NOUNS[group.noun] == "person"
    if detail.colour and not person:
        words = f"{_one_of(rng, _COLOURS[group.colour])} {words}"
    if detail.size:
        words = f"{_one_of(rng, (_PEOPLE_SIZES if person else _SIZES)[group.size])} {words}"
    if group.number == 1:
        words = indefinite(words) if not detail.number or rng.random() < 0.9 else f"one {words}"
    elif detail.number:
        words = f"{_one_of(rng, _NUMBERS[group.number])} {words}"
    else:
        words = f"some {words}" if rng.random() < 0.3 else words
    if detail.colour and person:
        words = f"{words} {_clothes(group, rng)}"
    return words


def _clothes(group: Group, rng: _Rng) -> str:
    garment = _one_of(rng, _CLOTHES[group.noun])
    verb = "in" if rng.random() < 0.7 else "wearing"
    if group.number == 1:
        return f"{verb} {indefinite(f'{group.colour} {garment}')}"
    return f"{verb} {group.colour} {' and '.join(f'{part}s' for part in garment.split(' and '))}"


def _listed(phrases: list[str]) -> str:
    return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def _verb(pairs: tuple[tuple[str, str], ...], several: bool, rng: _Rng) -> str:
    return pairs[int(rng.integers(len(pairs)))][several]


def _pose(scene: Scene, index: int, rng: _Rng) -> str:
    group = scene.groups[index]
    flies = (scene.layout == "above" and index == 0) or (scene.layout == "row_above" and index == 2)
    return _verb(_AIRBORNE if flies else _POSES[NOUNS[group.noun]], group.number > 1, rng)


def _statement(scene: Scene, rng: _Rng, detail: _Detail, backwards: bool) -> tuple[str, str]:
    """The groups and their relation, cut where a place may stand: behind the whole, or before it.

    Returns (subject, rest): "two white dogs", "to the right of a little red umbrella".
    """
    said = [_phrase(group, rng, detail) for group in scene.groups]
    if scene.layout == "single":
        return said[0], ""
    if scene.layout == "three":
        left, middle, right = said
        if backwards:
            if rng.random() < 0.5:
                return right, f"to the right of {middle}, with {left} on the far left"
            return middle, f"between {left} on the left and {right} on the right"
        if rng.random() < 0.5:
            return left, f"to the left of {middle}, with {right} on the far right"
        return f"from left to right {_listed(said)}", ""
    if scene.layout == "row_above":
        left, right, flyer = said
        pair = f"{right} to the right of {left}" if backwards else f"{left} to the left of {right}"
        if rng.random() < 0.5:
            return flyer, f"{_one_of(rng, ('above', 'over'))} {pair}"
        subject, rest = (right, f"{_one_of(rng, _RELATIONS['row'][1])} {left}") if backwards else (
            left, f"{_one_of(rng, _RELATIONS['row'][0])} {right}")  # fmt: skip
        return subject, f"{rest}, with {flyer} {_one_of(rng, ('above them', 'in the air', 'overhead'))}"
    first, second = reversed(said) if backwards else said
    return first, f"{_one_of(rng, _RELATIONS[scene.layout][backwards])} {second}"


def _place(scene: Scene, rng: _Rng) -> str:
    return _one_of(rng, _PLACES[scene.background])


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _subject_index(scene: Scene, subject: str, backwards: bool) -> int | None:
    """The group a statement starts with; None where it starts with a list."""
    if subject.startswith("from left"):
        return None
    return None if scene.layout in ("three", "row_above") else int(backwards and len(scene.groups) > 1)


def _told(scene: Scene, rng: _Rng, detail: _Detail, backwards: bool) -> str:
    subject, rest = _statement(scene, rng, detail, backwards)
    place = _place(scene, rng)
    index = _subject_index(scene, subject, backwards)
    if index is not None and rng.random() < 0.5:
        return _joined(subject, _pose(scene, index, rng), rest, place)
    if rng.random() < 0.15:
        return _joined(_one_of(rng, ("a picture of", "an image of", "a drawing of")), subject, rest, place)
    return _joined(subject, rest, place)


def _forwards(scene: Scene, rng: _Rng) -> str:
    return _told(scene, rng, _FULL, backwards=False)


def _backwards(scene: Scene, rng: _Rng) -> str:
    return _told(scene, rng, _FULL, backwards=True)


def _place_first(scene: Scene, rng: _Rng) -> str:
    subject, rest = _statement(scene, rng, _FULL, backwards=bool(rng.random() < 0.5))
    place = _place(scene, rng)
    if place.startswith("with"):
        return _joined(subject, rest, place)
    if subject.startswith("from left") or rng.random() < 0.35:
        return _joined(f"{place},", subject, rest)
    several = subject.startswith(_COLLECTIVES) or not subject.startswith(("a ", "an ", "one "))
    return _joined(place, "there are" if several else "there is", subject, rest)


def _less(scene: Scene, rng: _Rng) -> str:
    """Relations and some properties, often without the place."""
    detail = (_NO_SIZE, _NO_SIZE, _COUNTED)[int(rng.integers(3))]
    if scene.layout in _LOOSE and rng.random() < 0.3:
        first, second = (_phrase(scene.groups[i], rng, detail) for i in rng.permutation(2))
        text = f"{first} {_one_of(rng, _LOOSE[scene.layout])} {second}"
    else:
        text = _joined(*_statement(scene, rng, detail, backwards=bool(rng.random() < 0.5)))
    return _joined(text, _place(scene, rng)) if rng.random() < 0.6 else text


def _short(scene: Scene, rng: _Rng) -> str:
    """The place and what is there, without relations."""
    detail = (_BARE, _COUNTED, _NO_SIZE)[int(rng.integers(3))]
    said = [_phrase(group, rng, detail) for group in scene.groups]
    order = rng.permutation(len(said))
    listed = _listed([said[i] for i in order])
    scenery = _one_of(rng, _SCENERY[scene.background])
    kind = int(rng.integers(4))
    if kind == 0:
        return f"there is {scenery} with {listed}"
    if kind == 1:
        return f"{scenery} with {listed}"
    if kind == 2:
        return f"{listed} {_place(scene, rng)}"
    return f"{_one_of(rng, ('a picture of', 'a drawing of', 'a view of'))} {scenery} and {listed}"
