"""Odd texts through every caption and query family: nothing crashes, the rule holds or the item is listed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.corpus.corpus import Corpus
from engine.corpus.wording import same_form
from engine.errors import InputError
from engine.variants.influence_binding import bind_influence, chooses_by_influence
from engine.variants.parameters import DEFAULT
from engine.variants.registry import make_variant, variant_families
from engine.variants.variant import VariantItems

ODD = {
    "empty": "",
    "one space": " ",
    "one word": "dog",
    "one letter": "a",
    "punctuation": "?!... --- ,,,",
    "400 words": " ".join(["the dog chased a red cat past"] * 57 + ["house"]),
    "emoji": "a dog 🐕 and a 🐈 cat 🚀🚀 👩‍👩‍👧",
    "right to left": "كلب أسود يجري على الشاطئ עם כלב",
    "combining": "cafe\u0301 ta\u0302ble with a nai\u0308ve dog",
    "no noun": "running quickly and very happily",
    "all equal": "dog dog dog dog dog",
    "numbers": "12 34,5 6-7 8th 1990s ١٢٣",
    "apostrophes": "the dog's owner's cat doesn't like 'o'clock'",
    "hyphens": "a well-known ice-cream-covered t-shirt - so",
    "tabs and newlines": "a\tdog\n\nwith  a \r\n cat \u00a0 here\u2028there",
    "capitals": "THE DOG AND İSTANBUL ẞ ﬁsh",
    "control": "a dog\x00 and\x1b[31m a cat\x7f",
    "quotes": "a \"dog\" and ``a cat'' <b>&amp;</b>",
    "surrogates of nothing": "a dog \ufffd \U0010ffff",
    "full width": "\uff41 \uff44\uff4f\uff47 and a dog",
}
ALIKE = {ODD["one word"], ODD["all equal"]}  # with a word gone, one says what another says
FILES = ("rococo", "file")
POSITIONAL = {"substitute": ("2", "5")}


def specs() -> list[str]:
    """Every caption and query family, in every mode and choice of words that it takes."""
    found = []
    for family in variant_families().values():
        if family.name in FILES:
            continue
        names = {parameter.name for parameter in family.parameters}
        if any(parameter.positional for parameter in family.parameters) and family.name not in POSITIONAL:
            continue  # images
        heads = [f"{family.name}:{value}" for value in POSITIONAL.get(family.name, ())] or [family.name]
        if make_variant(heads[0]).modality == "images":
            continue
        ends = [""]
        ends += [":mode=paper"] * ("mode" in names) + [":words=all"] * ("words" in names)
        ends += [":choice=low_ei", ":choice=high_ei:words=all", ":mode=paper:choice=low_ei"] * (
            "choice" in names
        )
        found += [with_words(head + end) for head in heads for end in ends]
    return found


def with_words(spec: str) -> str:
    """The spec with words that are there: no BERT, which paper mode of `rand_voca` takes, is cached here."""
    return f"{spec}:vocabulary=wordfreq" if spec.startswith("rand_voca:mode=paper") else spec


SPECS = specs()


def test_all_families_of_captions_are_here() -> None:
    families = {spec.partition(":")[0] for spec in SPECS}
    assert len(families) >= 3 + 1 + 3 + 1 + 14
    assert {"same_concept", "danger", "delete_low_ei", "substitute", "char_swap", "synonym_adj"} <= families
    assert not families & {"mix", "patch", "reencode", "occlude"}


def applied(spec: str, corpus: Corpus, make_influence: Any, request: pytest.FixtureRequest) -> VariantItems:
    """The items; of a corpus that the variant cannot change at all, none."""
    if spec.startswith("synonym"):
        request.getfixturevalue("wordnet")
    variant = make_variant(spec)
    if chooses_by_influence(variant):
        (variant,) = bind_influence([variant], make_influence("bag:a", "bag:b")[0])
    try:
        return variant.apply(corpus)
    except InputError as error:
        message = str(error)
    assert "changed rate 0" in message
    assert "\n" not in message
    return VariantItems(())


def check_rule(spec: str, corpus: Corpus, outcome: VariantItems) -> None:
    """What every caption and query variant owes: each original is an item or left out, and items are true."""
    variant = make_variant(spec)
    paper = getattr(variant, "mode", DEFAULT) != DEFAULT
    sources = [item.source for item in outcome.items]
    assert len({item.id for item in outcome.items}) == len(outcome.items)
    if variant.side == "query":
        assert sources == [*range(len(corpus.captions))]
        assert not outcome.left_out
    else:
        assert sorted([*sources, *outcome.left_out]) == [*range(len(corpus.captions))]
        assert all(outcome.left_out.values())
    taken = {same_form(caption.text) for caption in corpus.captions}
    for item in outcome.items:
        text, original = str(item.content), corpus.captions[item.source].text
        assert json.loads(json.dumps(item.change)) == dict(item.change)
        assert item.changed == (item.change.get("unchanged") is None)
        if variant.side == "gallery" and not paper:
            assert item.changed
            assert same_form(text) not in taken
        elif item.changed:
            assert text != original
        elif not paper:
            assert text == original
        for one in item.change.get("replaced", [item.change] if "span" in item.change else []):
            start, end = one["span"]
            assert original[start:end] == one["word"]


@pytest.mark.parametrize("spec", SPECS)
def test_odd_texts_do_not_crash_and_the_rule_holds(
    spec: str, make_corpus: Callable[..., Corpus], make_influence: Any, request: pytest.FixtureRequest
) -> None:
    texts = [*ODD.values(), "a small dog near two red cars"]  # the last one can be changed
    corpus = make_corpus(texts)
    outcome = applied(spec, corpus, make_influence, request)
    assert outcome.items
    check_rule(spec, corpus, outcome)
    alone = {item.source: item for item in outcome.items}
    for row, text in enumerate(texts):  # each of them alone, where nothing else carries it
        single = applied(spec, make_corpus([text], lambda _, row=row: f"c{row}"), make_influence, request)
        if single.items and row in alone and text not in ALIKE:
            assert single.items[0].content == alone[row].content


TEXT = st.lists(
    st.one_of(
        st.sampled_from(["a", "dog", "dogs", "an", "red", "two", "left", "cat's", "t-shirt", "\t", "  "]),
        st.sampled_from(["🐕", "\u0301", "\u200d", "كلب", "\u0661", "'", '"', "-", ".", "İ", "ß", "\x00"]),
        st.text(max_size=5),
    ),
    max_size=12,
).map(" ".join)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXT, min_size=1, max_size=4))
def test_any_text_is_changed_by_the_rule_or_listed(
    spec: str,
    texts: Sequence[str],
    make_corpus: Callable[..., Corpus],
    make_influence: Any,
    request: pytest.FixtureRequest,
) -> None:
    corpus = make_corpus(texts)
    outcome = applied(spec, corpus, make_influence, request)
    if outcome.items:
        check_rule(spec, corpus, outcome)
