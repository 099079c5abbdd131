"""Whole numbers from users: bounded, and no defect however many digits they have."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.main import run
from engine.cli.whole_number import WholeNumber
from engine.whole_numbers import LARGEST, parse_whole_number


@given(st.integers(0, 2 * LARGEST), st.integers(0, 5), st.integers(0, LARGEST), st.integers(0, LARGEST))
def test_numbers_within_the_bounds_are_read_and_no_others(number, zeros, least, most):
    text = "0" * zeros + str(number)
    if least <= number <= most:
        assert parse_whole_number(text, least, most) == number
    else:
        with pytest.raises(ValueError, match="expected a whole number from"):
            parse_whole_number(text, least, most)


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "1e3", "1_000", "1 0", "\u0663", "\u00b2", "9" * 5000]
)
def test_what_is_no_plain_number_is_refused_with_the_range(text):
    with pytest.raises(ValueError, match=r"^expected a whole number from 2 to 1,000$"):
        parse_whole_number(text, 2, 1000)


def test_leading_zeros_are_no_digits():
    assert parse_whole_number("0" * 5000 + "7", 0, 9) == 7


@pytest.mark.parametrize(
    ("given", "code"), [("3", 0), ("10", 0), ("2", 2), ("11", 2), ("x", 2), ("9" * 5000, 2)]
)
def test_options_take_what_is_in_their_range(given, code):
    @click.command()
    @click.option("--n", type=WholeNumber(3, 10))
    def command(n):
        click.echo(repr(n))

    done = CliRunner().invoke(command, ["--n", given])
    assert done.exit_code == code
    assert (
        (done.output == f"{given}\n")
        if code == 0
        else ("expected a whole number from 3 to 10" in done.output)
    )


@pytest.mark.parametrize(
    "command",
    [
        "evaluate s.h5 --distractors",
        "evaluate s.h5 --seed",
        "distractors synthesize s.h5 --like captions/original --rows",
        "distractors synthesize s.h5 --like captions/original --rows 5 --seed",
        "export trec s.h5 --out t --depth",
        "bench search --queries",
        "bench search --dim",
        "bench sweep --repeat",
        "demo --out d --images",
        "demo --out d --seed",
        "attribute r --top",
        "significance r --resamples",
        "variants preview --corpus c --variant char_swap --out x.png --seed",
    ],
)
@pytest.mark.parametrize("number", ["9" * 5000, str(10**24), "-1"])
def test_every_option_says_its_range_in_one_line(command, number, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), number]) == 2
    said = capsys.readouterr().err
    assert "expected a whole number from" in said or "is not a number of rows" in said
    assert len(said) < 500
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
