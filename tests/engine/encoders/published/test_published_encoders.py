"""The families as users open them: by spec, from tiny checkpoints and vocabularies."""

from __future__ import annotations

import gc
import json
import math
import re
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from engine.encoders.albef.model import load_albef
from engine.encoders.bert import Bert
from engine.encoders.registry import open_encoder
from engine.encoders.scorer_registry import open_pair_scorer
from engine.encoders.vse_infty.model import load_vse_infty
from engine.encoders.vsrn.model import load_vsrn
from engine.errors import InputError

Tiny = Any
MakeFeatures = Callable[..., list[np.ndarray]]
TEXTS = ["A dog", "a red cat, a red hat", "two dogs isn't a man .", "A dog", "", "caf\u00e9 dog"]
HEADS = "image_heads=2,text_heads=2"
CLOSE = {"rtol": 0, "atol": 1e-6}


def pictures(n: int = 3) -> list[Image.Image]:
    generator = np.random.default_rng(7)
    return [Image.fromarray(generator.integers(0, 256, (20 + i, 31, 3), dtype=np.uint8)) for i in range(n)]


@pytest.fixture
def specs(tiny: Tiny) -> dict[str, str]:
    """A spec of every encoder; vocabularies lie beside the checkpoints."""
    tiny.pieces()
    tiny.vocabulary()
    return {
        "albef": f"albef:{tiny.save('albef.pth', {'model': tiny.albef_state()})}:{HEADS}",
        "blip": f"blip:{tiny.save('blip.pth', {'model': tiny.blip_state()})}:{HEADS}",
        "vse_region": f"vse_infty:{tiny.save('region.pth', {'model': tiny.vse_region_states()})}",
        "vse_grid": f"vse_infty:{tiny.save('grid.pth', {'model': tiny.vse_grid_states()})}:"
        "text_heads=2,image_size=64",
        "vsrn": f"vsrn:{tiny.save('m1.pth', {'model': tiny.vsrn_states(0)})}",
        "vsrn_two": f"vsrn:{tiny.folder / 'm1.pth'}+{tiny.save('m2.pth', {'model': tiny.vsrn_states(9)})}",
    }


def inputs_of(encoder: Any, features: MakeFeatures) -> list[Any]:
    raw = pictures() if encoder.reads == "images" else features(4, 1, 6)
    return [encoder.prepare_image(item) for item in raw]


ENCODERS = ["albef", "blip", "vse_region", "vse_grid", "vsrn", "vsrn_two"]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_model_that_nothing_names_any_more_leaves_the_memory_at_once(
    name: str, specs: dict[str, str], features: MakeFeatures
) -> None:
    encoder = open_encoder(specs[name], device="cpu")
    encoder.encode_texts(TEXTS)
    encoder.encode_images(inputs_of(encoder, features))
    gone = weakref.ref(encoder)
    gc.collect()
    gc.disable()
    try:
        del encoder
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("name", ENCODERS)
def test_rows_are_unit_vectors_that_do_not_depend_on_the_batch(
    specs: dict[str, str], features: MakeFeatures, name: str
) -> None:
    together = open_encoder(specs[name], device="cpu", batch_size=64)
    alone = open_encoder(specs[name], device="cpu", batch_size=1)
    images = inputs_of(together, features)

    rows, texts = together.encode_images(images), together.encode_texts(TEXTS)

    assert rows.shape == (3, together.dim)
    assert texts.shape == (6, together.dim)
    assert rows.dtype == texts.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows, alone.encode_images(images), **CLOSE)
    np.testing.assert_allclose(texts, alone.encode_texts(TEXTS), **CLOSE)
    np.testing.assert_allclose(rows[::-1], together.encode_images(images[::-1]), **CLOSE)
    np.testing.assert_allclose(texts[::-1], together.encode_texts(TEXTS[::-1]), **CLOSE)
    assert together.encode_texts([]).shape == (0, together.dim)
    assert together.encode_images([]).shape == (0, together.dim)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_fingerprint_is_of_weights_vocabulary_and_precision(
    tiny: Tiny, specs: dict[str, str], name: str
) -> None:
    one = open_encoder(specs[name], device="cpu").fingerprint
    assert open_encoder(specs[name], device="cpu", batch_size=3).fingerprint == one
    assert open_encoder(specs[name], device="cpu", precision="bf16").fingerprint != one
    tiny.pieces(tokens=tuple(p if p != "hat" else "hats" for p in read_pieces(tiny)))
    tiny.vocabulary(words=("b", *word_list(tiny)[1:]))
    assert open_encoder(specs[name], device="cpu").fingerprint != one


def read_pieces(tiny: Tiny) -> list[str]:
    pieces: list[str] = (tiny.folder / "vocab.txt").read_text().split()
    return pieces


def word_list(tiny: Tiny) -> list[str]:
    return [w for w in json.loads((tiny.folder / "words_vocab.json").read_text())["word2idx"] if "<" not in w]


def test_albef_cleans_cuts_and_normalises_as_published(tiny: Tiny, specs: dict[str, str]) -> None:
    encoder = open_encoder(specs["albef"], device="cpu")
    model = load_albef(tiny.folder / "albef.pth", image_heads=2, text_heads=2)
    ids = torch.tensor([[2, 4, 5, 4, 8, 9, 3]])  # [CLS] a dog a hat ##s [SEP]

    with torch.inference_mode():
        expected = model.encode_text(ids, torch.ones_like(ids)).projected[0]
        found = encoder.encode_texts(["A dog, (a-HATS)!"])[0]
    np.testing.assert_allclose(found, expected / expected.norm(), **CLOSE)

    long = "dog " * 40
    assert encoder.is_cut(["a dog", long]).tolist() == [False, True]
    np.testing.assert_array_equal(encoder.encode_texts([long]), encoder.encode_texts(["dog " * 19]))


@pytest.mark.parametrize(("name", "join"), [("albef", "replace"), ("blip", "add")])
def test_a_matching_score_depends_on_its_pair_alone(
    specs: dict[str, str], features: MakeFeatures, name: str, join: str
) -> None:
    encoder: Any = open_encoder(specs[name], device="cpu", batch_size=4)
    states = encoder.image_states(inputs_of(encoder, features))

    words = encoder.text_states(TEXTS)
    scores = np.stack([encoder.score_pairs(state, words) for state in states])

    assert encoder.join == join
    assert encoder.shortlist == {"coco": 256, "flickr30k": 128}
    assert scores.shape == (3, 6)
    assert scores.dtype == np.float32
    assert np.ptp(scores) > 1e-3
    for i, state in enumerate(states):
        for t, text in enumerate(TEXTS):
            alone = encoder.score_pairs(state, encoder.text_states([text]))[0]
            np.testing.assert_allclose(alone, scores[i, t], **CLOSE)
    assert [len(state) for state in words] == [encoder.text_states([text])[0].shape[0] for text in TEXTS]
    assert encoder.score_pairs(states[0], []).shape == (0,)


def test_what_albef_does_with_a_text_alone_is_done_once(
    specs: dict[str, str], features: MakeFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder: Any = open_encoder(specs["albef"], device="cpu", batch_size=4)
    states, words = encoder.image_states(inputs_of(encoder, features)), encoder.text_states(TEXTS)
    layers: list[tuple[int, int]] = []
    run = Bert.run

    def note(self: Bert, hidden: Tensor, mask: Tensor, first: int, stop: int, *image: Tensor) -> Tensor:
        layers.append((first, stop))
        return run(self, hidden, mask, first, stop, *image)

    monkeypatch.setattr(Bert, "run", note)
    for state in states:
        encoder.score_pairs(state, words)
    assert set(layers) == {(1, 3)}  # the two layers that look at the image, of three
    encoder.text_states(TEXTS)
    assert set(layers) == {(1, 3), (0, 1)}


def test_images_are_squashed_and_normalised_as_clips(specs: dict[str, str]) -> None:
    encoder = open_encoder(specs["blip"], device="cpu")
    flat = encoder.prepare_image(Image.new("RGB", (31, 17), (255, 0, 128)))
    assert flat.shape == (3, 8, 8)
    expected = [(1 - 0.48145466) / 0.26862954, -0.4578275 / 0.26130258, (128 / 255 - 0.40821073) / 0.27577711]
    np.testing.assert_allclose(flat.amax(dim=(1, 2)), expected, rtol=1e-5)
    np.testing.assert_allclose(flat.amin(dim=(1, 2)), expected, rtol=1e-5)


def test_a_grid_models_image_is_blue_green_red_minus_means(specs: dict[str, str]) -> None:
    encoder = open_encoder(specs["vse_grid"], device="cpu")
    ramp = np.zeros((2, 4, 3), dtype=np.uint8)
    ramp[:, :, 0] = [0, 100, 200, 250]
    pixels = encoder.prepare_image(Image.fromarray(ramp))
    assert pixels.shape == (3, 64, 64)
    np.testing.assert_allclose(pixels[:2, 0, 0], [-102.9801, -115.9465], rtol=1e-6)
    expected = np.interp((np.arange(64) + 0.5) / 16 - 0.5, range(4), [0, 100, 200, 250]) - 122.7717
    np.testing.assert_allclose(pixels[2, 5], expected, atol=1e-3)


def test_vse_infty_reads_words_and_adds_its_own(
    tiny: Tiny, specs: dict[str, str], features: MakeFeatures
) -> None:
    """The checkpoint has one row more than the vocabulary file: <mask>, added behind."""
    encoder = open_encoder(specs["vse_region"], device="cpu")
    model = load_vse_infty(tiny.folder / "region.pth")
    ids = torch.tensor([[1, 14, 5, 10, 11, 4, 9, 12, 2]])  # two dog is n't a man .
    with torch.inference_mode():
        expected = model.text(ids, torch.tensor([9])).vectors[0]
    found = encoder.encode_texts(["Two dog isn't a man."])[0]
    np.testing.assert_allclose(found, expected / expected.norm(), **CLOSE)


def test_a_text_longer_than_berts_positions_is_an_error_where_nothing_is_cut(specs: dict[str, str]) -> None:
    encoder = open_encoder(specs["vse_grid"], device="cpu")
    encoder.encode_texts(["dog " * 18])
    with pytest.raises(InputError, match="has 21 tokens; the model reads at most 20"):
        encoder.encode_texts(["dog " * 19])


def test_an_ensembles_inner_product_is_the_mean_of_its_models(
    tiny: Tiny, specs: dict[str, str], features: MakeFeatures
) -> None:
    both = open_encoder(specs["vsrn_two"], device="cpu")
    images = features(4, 1, 6)
    found = both.encode_images(images) @ both.encode_texts(TEXTS).T

    singles = [open_encoder(f"vsrn:{tiny.folder / f'm{n}.pth'}", device="cpu") for n in (1, 2)]
    means = np.mean([e.encode_images(images) @ e.encode_texts(TEXTS).T for e in singles], axis=0)
    np.testing.assert_allclose(found, means, **CLOSE)
    assert both.dim == 16


def test_vsrn_never_pads_regions(tiny: Tiny, specs: dict[str, str], features: MakeFeatures) -> None:
    encoder = open_encoder(specs["vsrn"], device="cpu")
    items = features(4, 1, 6)
    model = load_vsrn(tiny.folder / "m1.pth")
    found = encoder.encode_images(items)
    for row, item in enumerate(items):
        with torch.inference_mode():
            alone = model.finish(model.image(torch.from_numpy(item)[None]).vectors)[0]
        np.testing.assert_allclose(found[row], alone, **CLOSE)
    padded = np.concatenate([items[0], np.zeros((2, 5), dtype=np.float32)])
    assert np.abs(encoder.encode_images([padded]) - found[0]).max() > 1e-3


def test_features_that_cannot_be_normalised_are_named(specs: dict[str, str]) -> None:
    """A published step divides by the length of each feature over the regions; here it is 0."""
    encoder = open_encoder(specs["vsrn"], device="cpu")
    with torch.inference_mode():
        encoder._models[0].image.fc.bias.zero_()
    with pytest.raises(InputError, match="gives image 1 of 2 an embedding with NaN"):
        encoder.encode_images([np.ones((4, 5), np.float32), np.zeros((4, 5), np.float32)])


@pytest.fixture
def pair_specs(tiny: Tiny) -> dict[str, str]:
    tiny.vocabulary()
    saf = tiny.save("saf.pth", {"model": tiny.sgraf_states("saf")})
    sgr = tiny.save("sgr.pth", {"model": tiny.sgraf_states("sgr", 20)})
    return {"saf": f"saf:{saf}", "sgr": f"sgr:{sgr}", "saf+sgr": f"saf+sgr:{saf}+{sgr}"}


@pytest.mark.parametrize("name", ["saf", "sgr", "saf+sgr"])
def test_blocks_of_any_shape_make_the_same_matrix(
    pair_specs: dict[str, str], features: MakeFeatures, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = open_pair_scorer(pair_specs[name], device="cpu", batch_size=2)
    images = scorer.image_states([scorer.prepare_image(x) for x in features(4, 4, 4)])
    texts = scorer.text_states(TEXTS)

    whole = scorer.score_block(images, texts)

    assert whole.shape == (3, 6)
    assert ((whole > 0) & (whole < 1)).all()
    assert np.ptp(whole) > 1e-3
    by_pair = [[scorer.score_block([i], [t])[0, 0] for t in texts] for i in images]
    np.testing.assert_allclose(whole, by_pair, **CLOSE)
    some = scorer.score_block(images, [texts[n] for n in (4, 0, 2)])
    np.testing.assert_allclose(whole[:, [4, 0, 2]], some, **CLOSE)
    for step in (1, 100):  # one pair, and two, at once
        monkeypatch.setattr("engine.encoders.sgraf.scorer._VALUES_A_STEP", step)
        np.testing.assert_allclose(whole, scorer.score_block(images, texts), **CLOSE)
    assert scorer.score_block(images, []).shape == (3, 0)
    assert scorer.score_block([], texts).shape == (0, 6)


def test_an_sgraf_ensemble_is_the_mean_of_both(pair_specs: dict[str, str], features: MakeFeatures) -> None:
    def scores(name: str) -> np.ndarray:
        scorer = open_pair_scorer(pair_specs[name], device="cpu")
        return scorer.score_block(scorer.image_states(features(4, 4)), scorer.text_states(TEXTS))

    np.testing.assert_allclose(scores("saf+sgr"), (scores("saf") + scores("sgr")) / 2, **CLOSE)


def test_a_model_bound_to_its_regions_refuses_another_number(
    pair_specs: dict[str, str], features: MakeFeatures
) -> None:
    scorer = open_pair_scorer(pair_specs["saf"], device="cpu")
    with pytest.raises(InputError, match="features with 3 regions; the model needs 4 in each image"):
        scorer.prepare_image(features(3)[0])


@pytest.mark.parametrize("family", ["saf", "sgr", "saf+sgr"])
def test_a_pair_scorer_is_no_encoder(pair_specs: dict[str, str], family: str) -> None:
    with pytest.raises(InputError, match="scores pairs and gives no embedding"):
        open_encoder(pair_specs[family], device="cpu")


def test_specs_that_cannot_be_opened_say_why(tiny: Tiny, specs: dict[str, str]) -> None:
    m1 = tiny.folder / "m1.pth"
    wrong = tiny.vocabulary("other.json", words=("a", "dog"))
    narrow = tiny.vsrn_states()
    narrow[0]["fc.weight"] = narrow[0]["fc.weight"][:, :3]
    cases = (
        (f"vsrn:{m1}:vocb=x", r"unknown option of vsrn 'vocb'; did you mean 'vocab'"),
        (f"vsrn:{m1}:vocab=", "the option vocab has no value"),
        (f"vsrn:{m1}:vocab={wrong}", r"m1\.pth: needs a vocabulary of 17 words; .*other\.json has 6"),
        (f"vsrn:{m1}+", "2 checkpoints; expected"),
        (f"vsrn:{m1}+{tiny.save('n.pth', {'model': narrow})}", "features of other widths"),
        (f"{specs['albef']},vocab={wrong}", r"other\.json: the token \[PAD\] is missing"),
        (f"{specs['albef']},vocab=none.txt", r"needs BERT's vocab\.txt of 14 tokens, looked for none\.txt"),
        (f"{specs['albef']},image_size=big", "image_size=big; expected one whole number"),
        (f"{specs['albef']},image_size=8,image_size=8", "image_size=8,8; expected one whole number"),
        (f"vse_infty:{tiny.folder / 'region.pth'}:vocab={wrong}", "needs a vocabulary of 17 words; .* has 6"),
        (f"saf:{m1}", "gives no embedding; take a model that does"),
    )
    for spec, said in cases:
        with pytest.raises(InputError, match=said) as caught:
            open_encoder(spec, device="cpu")
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="leave --preprocess out"):
        open_encoder(specs["blip"], device="cpu", preprocess="openai")


def test_a_vocabulary_of_another_size_is_named_by_its_size(tiny: Tiny, specs: dict[str, str]) -> None:
    short = tiny.pieces("short.txt", tokens=tuple(read_pieces(tiny)[:-1]))
    for family, needed in (("albef", 14), ("blip", 14), ("vse_grid", 14)):
        said = rf"needs a vocabulary of {needed} tokens; {re.escape(str(short))} has 13"
        with pytest.raises(InputError, match=said):
            open_encoder(f"{specs[family]},vocab={short}", device="cpu")


def test_bf16_stays_near_fp32(specs: dict[str, str], features: MakeFeatures) -> None:
    for name in ("albef", "vse_region", "vse_grid"):
        full = open_encoder(specs[name], device="cpu")
        half = open_encoder(specs[name], device="cpu", precision="bf16")
        images = inputs_of(full, features)
        cosines = (full.encode_images(images) * half.encode_images(images)).sum(axis=1)
        assert cosines.min() > math.cos(0.2)


# VSRN's four graph layers with random weights leave the range of fp16
HALF = [(name, p) for name in ENCODERS for p in ("bf16", "fp16") if p == "bf16" or "vsrn" not in name]


@pytest.mark.parametrize(("name", "precision"), HALF)
def test_in_half_precision_a_row_does_not_depend_on_what_is_beside_it(
    specs: dict[str, str], features: MakeFeatures, name: str, precision: str
) -> None:
    """One item alone goes through the model in `batch_size` rows; the kernels are then those of any batch."""
    encoder = open_encoder(specs[name], device="cpu", batch_size=4, precision=precision)
    raw = pictures() if encoder.reads == "images" else features(4, 3, 6)
    images = [encoder.prepare_image(item) for item in raw]
    rows, texts = encoder.encode_images(images), encoder.encode_texts(TEXTS)
    seen: list[int] = []

    def note(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d | torch.nn.Embedding):
            seen.append(len(inputs[0]))

    with torch.nn.modules.module.register_module_forward_pre_hook(note):
        for encode, items, wanted in (
            (encoder.encode_images, images, rows),
            (encoder.encode_texts, TEXTS, texts),
        ):
            for n, item in enumerate(items):
                seen.clear()
                np.testing.assert_array_equal(encode([item])[0], wanted[n])
                assert max(seen) == 4


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_score_of_a_pair_does_not_depend_on_its_block(
    tiny: Tiny, features: MakeFeatures, precision: str
) -> None:
    tiny.vocabulary()
    path = tiny.save("saf.pth", {"model": tiny.sgraf_states("saf")})
    scorer = open_pair_scorer(f"saf:{path}", device="cpu", precision=precision)
    images = scorer.image_states([scorer.prepare_image(item) for item in features(*[4] * 40)])
    texts = scorer.text_states(TEXTS * 6)
    seen = set()

    def note(module: torch.nn.Module, inputs: Any, output: Any) -> None:
        seen.update([output.dtype] if isinstance(module, torch.nn.Linear) else [])

    with torch.nn.modules.module.register_module_forward_hook(note):
        scores = scorer.score_block(images, texts)
    assert seen == {torch.float32}  # half precision rounds differently in blocks of other sizes
    for row, column in ((0, 0), (7, 1), (39, 35)):
        alone = scorer.score_block([images[row]], [texts[column]])
        np.testing.assert_allclose(alone, scores[row : row + 1, column : column + 1], atol=1e-6)
    full = open_pair_scorer(f"saf:{path}", device="cpu")
    assert (scorer.fingerprint == full.fingerprint) is (precision == "fp32")
