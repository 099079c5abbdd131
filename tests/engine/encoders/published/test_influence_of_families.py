"""Encoders of several families vote on a word: opened from the text of ``--influence``, options and all."""

from __future__ import annotations

from typing import Any

import pytest

from engine.encoders.influence import open_influence, split_models
from engine.errors import InputError
from engine.variants.nouns import nouns_of

Tiny = Any
HEADS = "image_heads=2,text_heads=2"
TEXTS = ["a dog in a red hat", "dog", "two cats", "running", "", " ".join(["a dog and a cat"] * 40)]


@pytest.fixture
def models(tiny: Tiny) -> list[str]:
    tiny.pieces()
    tiny.vocabulary()
    return [
        f"albef:{tiny.save('albef.pth', {'model': tiny.albef_state()})}:{HEADS}",
        f"blip:{tiny.save('blip.pth', {'model': tiny.blip_state()})}:{HEADS}",
        f"vse_infty:{tiny.save('region.pth', {'model': tiny.vse_region_states()})}",
        f"vsrn:{tiny.save('m1.pth', {'model': tiny.vsrn_states(0)})}",
    ]


def test_a_list_is_split_between_models_and_not_between_options(models: list[str]) -> None:
    assert split_models([",".join(models)]) == tuple(models)
    assert split_models([",".join(models[:2]), *models[2:]]) == tuple(models)
    assert split_models([]) == ()
    with pytest.raises(InputError, match="unknown model family 'blop'; did you mean 'blip'"):
        split_models([f"{models[0]},blop:x"])
    with pytest.raises(InputError, match="'' is not a spec"):
        split_models([""])


def test_every_family_has_a_vote_also_where_nothing_is_left_of_a_caption(models: list[str]) -> None:
    nouns = nouns_of(TEXTS)
    candidates = [nouns[text] for text in TEXTS]
    measured = open_influence(models, device="cpu").measure(TEXTS, candidates)
    assert [scores.shape for scores in measured.scores] == [(len(words), 4) for words in candidates]
    assert len({fingerprint for _, fingerprint in measured.encoders}) == 4
    assert (measured.scores[1] > 0).all()  # "dog" without the dog is the empty text
    again = open_influence(models[::-1], device="cpu").measure(TEXTS, candidates)
    for one, other in zip(measured.scores, again.scores, strict=True):
        assert one[:, ::-1].tolist() == other.tolist()


def test_a_model_that_scores_pairs_has_no_vote() -> None:
    with pytest.raises(InputError, match="scores pairs and gives no embedding"):
        open_influence(["sgr:somewhere.pth"]).measure(["a dog"], [nouns_of(["a dog"])["a dog"]])
