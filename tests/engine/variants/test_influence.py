"""Embedding influence: the definition by a slow oracle, the vote, the order of nothing, the agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.encoders.spec_paths import without_folders
from engine.errors import InputError
from engine.variants.agreement import influence_agreement, recorded_agreement
from engine.variants.deletion import without_word
from engine.variants.influence import BLOCK, DIGITS
from engine.variants.nouns import Noun, nouns_of
from engine.variants.word_choice import HIGH_EI, LOW_EI, InfluentialWord, drawn_order, rank_by_vote

TEXTS = (
    "a dog chases a dog past the house",
    "A man with a red helmet on a small moped.",
    "a dog chases a dog past the house",
    "running very happily",
    "",
    "dog",
    "two women at a table",
)


def noun_at(text: str, word: str, occurrence: int = 0) -> Noun:
    start = -1
    for _ in range(occurrence + 1):
        start = text.index(word, start + 1)
    return Noun(word, word.lower(), 0, start, start + len(word), False)


@pytest.mark.parametrize(
    ("text", "word", "occurrence", "left"),
    [
        ("a dog runs", "dog", 0, "a runs"),
        ("dog runs", "dog", 0, "runs"),
        ("  dog runs", "dog", 0, "  runs"),
        ("see the dog.", "dog", 0, "see the."),
        ("a dog and a dog", "dog", 0, "a and a dog"),
        ("a dog and a dog", "dog", 1, "a dog and a"),
        ("an apple tree", "apple", 0, "an tree"),
        ("the dog's bed", "dog", 0, "the's bed"),
        ("a \t dog\n\nhere", "dog", 0, "a\n\nhere"),
        ("dog", "dog", 0, ""),
    ],
)
def test_one_occurrence_goes_with_one_gap(text: str, word: str, occurrence: int, left: str) -> None:
    assert without_word(text, noun_at(text, word, occurrence)) == left


def slow_influence(encoder, text: str, noun: Noun) -> float:
    """The definition, for one word, in float64."""
    whole = encoder.encode_texts([text])[0].astype(float)
    cut = encoder.encode_texts([without_word(text, noun)])[0].astype(float)
    return 1 - whole @ cut / (np.linalg.norm(whole) * np.linalg.norm(cut))


def test_influence_is_one_minus_the_cosine_to_the_caption_without_the_word(make_influence) -> None:
    influence, opened = make_influence("bag:one", "bag:two")
    nouns = nouns_of(TEXTS)
    measured = influence.measure(TEXTS, [nouns[text] for text in TEXTS])
    assert len(measured.scores) == len(TEXTS)
    for text, scores in zip(TEXTS, measured.scores, strict=True):
        assert scores.shape == (len(nouns[text]), 2)
        for noun, found in zip(nouns[text], scores, strict=True):
            for spec, value in zip(("bag:one", "bag:two"), found, strict=True):
                assert value == pytest.approx(slow_influence(opened[spec], text, noun), abs=10**-DIGITS)
    assert all(len(nouns[text]) > 0 for text in (TEXTS[0], "dog"))
    assert measured.encoders == tuple((one.spec, one.fingerprint) for one in opened.values())


def test_a_word_that_stands_twice_has_two_influences(make_influence) -> None:
    influence, opened = make_influence()
    text = "a dog beside a dog in a big garden"
    candidates = [[noun_at(text, "dog", 0), noun_at(text, "dog", 1)]]
    (scores,) = influence.measure([text], candidates).scores
    assert scores[0, 0] != scores[1, 0]
    given = opened["bag:of-words"].given
    assert "a beside a dog in a big garden" in given
    assert "a dog beside a in a big garden" in given


def test_every_distinct_text_is_encoded_once_and_measured_once_for_all_variants(make_influence) -> None:
    influence, opened = make_influence()
    nouns = nouns_of(TEXTS)
    candidates = [nouns[text] for text in TEXTS]
    measured = influence.measure(TEXTS, candidates)
    given = opened["bag:of-words"].given
    needed = [t for t in TEXTS if nouns[t]] + [without_word(t, n) for t in TEXTS for n in nouns[t]]
    assert sorted(given) == sorted(set(needed))
    assert (measured.asked, measured.distinct) == (len(needed), len(given))
    assert measured.deduplication == len(needed) / len(given) > 1.2
    assert influence.measure(TEXTS, candidates) is measured
    assert len(given) == measured.distinct


def test_influences_depend_on_no_order_even_when_rows_depend_on_their_batch(
    make_influence, make_corpus: Callable
) -> None:
    texts = [f"a dog and a cat near house number {n}" for n in range(BLOCK // 2)]
    nouns = nouns_of(texts)
    rng = np.random.default_rng(3)
    first = None
    for _ in range(3):
        order = rng.permutation(len(texts))
        shuffled = [texts[i] for i in order]
        influence, _ = make_influence(shift=1e-3)  # rows move with their place in a block
        scores = influence.measure(shuffled, [nouns[text] for text in shuffled]).scores
        found = {text: one.tolist() for text, one in zip(shuffled, scores, strict=True)}
        first = first or found
        assert found == first


@given(
    st.integers(1, 5).flatmap(
        lambda encoders: st.lists(
            st.lists(st.integers(0, 3), min_size=encoders, max_size=encoders), max_size=6
        )
    ),
    st.integers(0, 9),
)
def test_the_vote_is_that_of_the_definition(table: list[list[int]], seed: int) -> None:
    scores = np.array(table, dtype=float).reshape(len(table), len(table[0]) if table else 1)
    drawn = drawn_order(seed, "c", len(table))
    order, votes = rank_by_vote(scores, drawn)
    assert sorted(order) == list(range(len(table)))
    left = set(order)
    for chosen in order:
        ballots = Counter(
            min(left, key=lambda i: (scores[i, e], drawn.index(i))) for e in range(scores.shape[1])
        )
        most = max(ballots.values())
        assert chosen == min((i for i in left if ballots[i] == most), key=drawn.index)
        if len(left) == len(order):
            assert votes == ballots
        left.remove(chosen)


def test_ties_are_drawn_evenly_with_the_seed() -> None:
    scores = np.zeros((3, 2))
    firsts = Counter(rank_by_vote(scores, drawn_order(seed, "c", 3))[0][0] for seed in range(300))
    assert min(firsts[i] for i in range(3)) > 70


@pytest.mark.parametrize("choice", [LOW_EI, HIGH_EI])
def test_the_chosen_word_is_the_extreme_one_and_all_candidates_are_recorded(choice, make_influence) -> None:
    influence, opened = make_influence()
    nouns = nouns_of(TEXTS)
    chooser = InfluentialWord(choice, influence)
    captions = [(f"c{row}", text) for row, text in enumerate(TEXTS)]
    preferred = chooser.prefer(captions, [nouns[text] for text in TEXTS], 0)
    encoder = opened["bag:of-words"]
    several = 0
    for text, preference in zip(TEXTS, preferred.captions, strict=True):
        words = preference.record["candidates"]
        assert [word["span"] for word in words] == [[noun.start, noun.end] for noun in nouns[text]]
        values = [slow_influence(encoder, text, noun) for noun in nouns[text]]
        assert [word["ei"] for word in words] == [[pytest.approx(v, abs=10**-DIGITS)] for v in values]
        if len(set(np.round(values, DIGITS - 1))) > 1:
            several += 1
            best = (min if choice == LOW_EI else max)(values)
            assert nouns[text][values.index(best)] == preference.order[0]
            assert [word["votes"] for word in words] == [int(v == best) for v in values]
    assert several >= 3
    chooser.prefer(captions[:1], [nouns[TEXTS[0]]], 0)
    assert preferred.record["influence"]["texts"] > len(TEXTS)  # of these captions, not of the later ones
    assert preferred.record["influence"]["encoders"] == [
        {"model": encoder.spec, "fingerprint": encoder.fingerprint}
    ]


def test_encoders_have_one_vote_each(make_influence) -> None:
    with pytest.raises(InputError, match=r"bag:a is given twice"):
        make_influence("bag:a", "bag:b", "bag:a")
    influence, _ = make_influence("bag:a", "bag:b")
    influence._open_encoder = lambda spec: make_influence("bag:a")[0]._open_encoder("bag:a")
    text = "a dog"
    with pytest.raises(InputError, match="bag:a and bag:b are the same encoder"):
        influence.measure([text], [nouns_of([text])[text]])


def test_agreement_counts_the_encoders_on_the_word_with_most_votes(make_influence, make_corpus) -> None:
    corpus = make_corpus(TEXTS)
    specs = ("bag:a", "bag:b", "bag:c", "bag:d")
    influence, opened = make_influence(*specs)
    agreement = influence_agreement(corpus, influence)
    counts = Counter()
    for text in TEXTS:
        nouns = nouns_of([text])[text]
        if not nouns:
            continue
        votes = Counter()
        for spec in specs:
            values = [round(slow_influence(opened[spec], text, noun), DIGITS) for noun in nouns]
            assert len(set(values)) == len(values)
            votes[values.index(min(values))] += 1
        counts[max(votes.values())] += 1
    assert agreement.counts == tuple(counts[n] for n in range(1, 5))
    assert agreement.captions == 5
    assert agreement.single == 1
    assert sum(agreement.shares) == pytest.approx(1)
    assert agreement.at_least(2) == pytest.approx(1 - agreement.shares[0])
    assert agreement.at_least(4) == agreement.shares[3]


def test_agreement_of_no_caption_and_of_one_encoder(make_influence, make_corpus) -> None:
    influence, _ = make_influence("bag:a", "bag:b")
    nothing = influence_agreement(make_corpus(["very happily"]), influence)
    assert (nothing.captions, nothing.shares) == (0, (0.0, 0.0))
    influence, _ = make_influence()
    assert influence_agreement(make_corpus(TEXTS), influence).shares == (1.0,)
    assert recorded_agreement([]) is None
    odd = [
        {"candidates": 3},
        {"candidates": [{"votes": True, "ei": [1]}]},
        {"candidates": [{"votes": 9, "ei": [1]}]},
    ]
    assert recorded_agreement([*odd, {"candidates": [3]}, {}]) is None


def test_the_next_process_reads_influences_from_the_cache(make_influence, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ITRSTRESS_CACHE", str(tmp_path / "cache"))
    nouns = nouns_of(TEXTS)
    candidates = [nouns[text] for text in TEXTS]
    first, opened = make_influence("bag:a", "bag:b")
    measured = first.measure(TEXTS, candidates)
    assert all(encoder.given for encoder in opened.values())
    again, opened = make_influence("bag:a", "bag:b")
    found = again.measure(TEXTS, candidates)
    assert not any(encoder.given for encoder in opened.values())
    assert [one.tolist() for one in found.scores] == [one.tolist() for one in measured.scores]
    assert found.encoders == measured.encoders
    assert "from the cache" in found.describe()
    assert "inside the encoders" in measured.describe()
    other, opened = make_influence("bag:c")  # another encoder has files of its own
    other.measure(TEXTS, candidates)
    assert opened["bag:c"].given
    other, opened = make_influence("bag:a")  # and so have other words
    other.measure(TEXTS[:2], candidates[:2])
    assert opened["bag:a"].given


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"x", lambda data: b""])
def test_a_damaged_cache_is_named_and_not_used(make_influence, tmp_path, monkeypatch, damage) -> None:
    monkeypatch.setenv("ITRSTRESS_CACHE", str(tmp_path))
    candidates = [nouns_of(TEXTS)[text] for text in TEXTS]
    make_influence()[0].measure(TEXTS, candidates)
    (file,) = (tmp_path / "influence").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(
        InputError, match=rf"{file}: the cached influences cannot be used .*; remove the file"
    ):
        make_influence()[0].measure(TEXTS, candidates)


@pytest.mark.parametrize(
    ("spec", "record"),
    [
        ("blip:/w/model_base.pth:vocab=~/w/v.txt", "blip:model_base.pth:vocab=v.txt"),
        ("saf+sgr:a/f.tar+b/g.tar:vocab=w/c.json", "saf+sgr:f.tar+g.tar:vocab=c.json"),
        ("open_clip:local-dir:runs/last", "open_clip:local-dir:last"),
        ("open_clip:ViT-B-32:openai", "open_clip:ViT-B-32:openai"),
        ("transformers:openai/clip-vit-base", "transformers:openai/clip-vit-base"),
        ("transformers:./clip-vit-base", "transformers:clip-vit-base"),
        ("sentence_transformers:/w/owner/name", "sentence_transformers:name"),
    ],
)
def test_records_hold_no_folder_wherever_they_are_made(
    spec: str, record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert without_folders(spec) == record
    for folder in ("openai/clip-vit-base", "runs/last", "a"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert without_folders(spec) == record


def test_the_record_names_models_as_it_was_told(make_influence) -> None:
    influence, _ = make_influence("bag:/w/a", named=lambda spec: spec.replace("/w/", ""))
    found = influence.measure(["a dog"], [nouns_of(["a dog"])["a dog"]])
    assert [one["model"] for one in found.record["encoders"]] == ["bag:a"]
