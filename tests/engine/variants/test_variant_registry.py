"""Specs, canonical names, and the errors that name the nearest valid thing."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.variants.parameters import Parameter
from engine.variants.registry import family, make_variant, variant_families

WRONG_LEVELS = ("0", "0.0", "1", "1.0", "-0.5", "1.5", "nan", "inf", "1e-1", "0.1234567", "a")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("mix:0.9:seed=1", "mix:0.9:seed=1"),
        ("mix:0.9", "mix:0.9:seed=0"),
        ("mix:.90", "mix:0.9:seed=0"),
        ("mix:seed=3:0.25", "mix:0.25:seed=3"),
        ("patch:0.8:seed=007", "patch:0.8:seed=7"),
        ("patch:0.000001", "patch:0.000001:seed=0"),
        ("same_concept", "same_concept:seed=0"),
        ("diff_concept:seed=12", "diff_concept:seed=12"),
        ("rand_voca:seed=3", "rand_voca:seed=3"),
        ("same_concept:mode=default:words=nouns:choice=random", "same_concept:seed=0"),
        ("same_concept:seed=2:choice=low_ei", "same_concept:choice=low_ei:seed=2"),
        ("danger:choice=high_ei:words=all:mode=paper", "danger:mode=paper:words=all:choice=high_ei:seed=0"),
        ("delete_random", "delete_random:seed=0"),
        ("delete_low_ei:seed=1", "delete_low_ei:seed=1"),
        ("delete_high_ei:words=all", "delete_high_ei:words=all:seed=0"),
        ("substitute:3", "substitute:3:seed=0"),
        ("substitute:seed=1:5", "substitute:5:seed=1"),
        ("rand_voca:vocabulary=bert", "rand_voca:vocabulary=bert:seed=0"),
        ("rococo:some/where/same_concept.json", "rococo:same_concept"),
    ],
)
def test_a_spec_has_one_canonical_name_which_makes_the_same_variant(spec: str, name: str) -> None:
    variant = make_variant(spec)
    assert variant.name == name
    assert "/" not in variant.name
    if not spec.startswith("rococo"):
        assert make_variant(name) == variant


@pytest.mark.parametrize("path", ["mine.json", "/a:b/c:d/mi:ne.json", "C:/mine.json", "some/where/mine.json"])
def test_a_file_among_other_parameters_keeps_its_colons_and_gives_its_name(path: str) -> None:
    for spec in (f"same_concept:concepts={path}:seed=3", f"same_concept:seed=3:concepts={path}"):
        variant = make_variant(spec)
        assert (variant.concepts, variant.seed) == (Path(path), 3)  # type: ignore[attr-defined]
        assert variant.name == f"same_concept:concepts={Path(path).stem.replace(':', '-')}:seed=3"
    assert make_variant(f"rand_voca:vocabulary={path}").vocabulary == Path(path)  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ["a:b.json", "C:/data:2/x=y.json", "s3:seed=1:x.json"])
def test_a_rococo_path_keeps_its_colons_and_equals_signs(path: str) -> None:
    assert make_variant(f"rococo:{path}").file == Path(path)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("mixx:0.9", ["unknown variant 'mixx'", "did you mean 'mix'"]),
        ("same_concpet", ["did you mean 'same_concept'"]),
        ("", ["unknown variant ''", "known: ", "diff_concept"]),
        ("mix", ["'level' is missing", "mix:LEVEL[:mode=default][:seed=0]"]),
        ("mix:", ["'level' is missing"]),
        ("rococo:", ["'file' is missing", "rococo:FILE"]),
        ("mix:0.9:sed=1", ["unknown parameter 'sed'", "did you mean 'seed'"]),
        ("mix:0.9:0.8", ["'0.8' is one value too many"]),
        ("mix:0.9:", ["'' is one value too many"]),
        (
            "same_concept:3",
            ["'3' is one value too many", "[:concepts=FILE][:seed=0]"],
        ),
        ("same_concept:concepts=a.json:sed=1", ["unknown parameter 'sed'", "did you mean 'seed'"]),
        ("same_concept:concepts=", ["concepts is ''", "the path of a concept file", "[:concepts=FILE]"]),
        ("same_concept:concepts=a\nb", ["concepts is 'a\\nb'", "the path of a concept file"]),
        ("same_concept:choice=lowest", ["choice is 'lowest'", "random or low_ei or high_ei"]),
        ("delete_random:choice=low_ei", ["unknown parameter 'choice'", "known: concepts, seed, words"]),
        ("rand_voca:words=verbs", ["words is 'verbs'", "nouns or all"]),
        *[(f"substitute:{n}", ["count is", "2 to 5", "substitute:COUNT"]) for n in ("1", "6", "x", "03")],
        ("substitute", ["'count' is missing"]),
        ("mix:0.9:seed=1:seed=1", ["'seed' is given twice"]),
        ("mix:0.9:seed=-1", ["seed is '-1'", "a whole number"]),
        ("mix:0.9:seed=", ["seed is ''"]),
        ("mix:0.9:seed=٣", ["seed is '٣'"]),
        ("mix:0.9:seed=1234567890123456789", ["at most 18 digits"]),
        *[(f"patch:{level}", ["level is", "strictly between 0 and 1"]) for level in WRONG_LEVELS],
    ],
)
def test_a_wrong_spec_is_one_line_that_says_what_is_right(spec: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        make_variant(spec)
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@given(st.text(max_size=40))
def test_any_text_is_a_variant_or_an_input_error(spec: str) -> None:
    with contextlib.suppress(InputError):
        assert make_variant(spec).name


def test_every_family_is_documented_and_a_name_is_taken_once() -> None:
    families = variant_families()
    assert list(families) == sorted(families)
    assert {"rococo", "mix", "patch", "same_concept", "diff_concept", "rand_voca"} <= set(families)
    for member in families.values():
        assert member.summary, member.name
        assert len(member.doc) > len(member.summary), member.name
    with pytest.raises(ValueError, match="mix"):
        family("mix", Parameter("level", str, "anything"))(object)
