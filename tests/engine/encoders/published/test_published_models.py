"""The models of tiny checkpoints against slow oracles, in other layouts, and in batches."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from engine.encoders.albef.model import load_albef
from engine.encoders.blip.model import load_blip
from engine.encoders.positions import fit_positions
from engine.encoders.registry import open_encoder
from engine.encoders.sgraf.model import load_sgraf
from engine.encoders.vse_infty.backbone import Backbone, read_backbone_sizes
from engine.encoders.vse_infty.model import load_vse_infty
from engine.encoders.vsrn.model import load_vsrn
from engine.encoders.weights import Weights
from engine.errors import InputError

Tiny = Any
MakeFeatures = Callable[..., list[np.ndarray]]
CLOSE = {"rtol": 0, "atol": 2e-6}
IDS = torch.tensor([[2, 4, 5, 3, 0, 0], [2, 7, 5, 4, 8, 3], [2, 3, 0, 0, 0, 0]])
LENGTHS = torch.tensor([4, 6, 2])


@pytest.fixture(autouse=True)
def _inference() -> Any:
    with torch.inference_mode():
        yield


def pixels(side: int, n: int = 2) -> Tensor:
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(5))


def gru_of(state: dict[str, Tensor], prefix: str, both: bool) -> nn.GRU:
    weights = {key[len(prefix) :]: tensor for key, tensor in state.items() if key.startswith(prefix)}
    width, inputs = weights["weight_hh_l0"].shape[1], weights["weight_ih_l0"].shape[1]
    gru = nn.GRU(inputs, width, batch_first=True, bidirectional=both)
    gru.load_state_dict(weights)
    return gru


def test_generalised_pooling_is_a_weighted_sum_of_sorted_values(tiny: Tiny, features: MakeFeatures) -> None:
    """The oracle pools one image at a time, dimension by dimension, without padding."""
    states = tiny.vse_region_states()
    model = load_vse_infty(tiny.save("m.pth", {"model": states}))
    items = features(4, 1, 6)
    padded = torch.full((3, 6, 5), 7.0)
    for row, item in enumerate(items):
        padded[row, : len(item)] = torch.from_numpy(item)

    found = model.head(padded, torch.tensor([4, 1, 6]))

    image = states[0]
    gru = gru_of(image, "gpool.gru.", both=True)
    for row, item in enumerate(items):
        x, length = torch.from_numpy(item), len(item)
        inner = x @ image["mlp.layers.0.weight"].T + image["mlp.layers.0.bias"]
        inner = (inner - image["mlp.bns.0.running_mean"]) / (image["mlp.bns.0.running_var"] + 1e-5).sqrt()
        inner = (inner * image["mlp.bns.0.weight"] + image["mlp.bns.0.bias"]).clamp(min=0)
        local = x @ image["fc.weight"].T + image["fc.bias"]
        local = local + inner @ image["mlp.layers.1.weight"].T + image["mlp.layers.1.bias"]
        code = torch.tensor(
            [
                [
                    f(place * math.exp(-2 * i * math.log(10000) / 8))
                    for i in range(4)
                    for f in (math.sin, math.cos)
                ]
                for place in range(length)
            ]
        )
        states_of_code = gru(code[None])[0][0]
        scores = ((states_of_code[:, :6] + states_of_code[:, 6:]) / 2) @ image["gpool.linear.weight"][0]
        weights = torch.softmax(scores / 0.1, dim=0)
        expected = torch.stack(
            [
                sum(w * v for w, v in zip(weights, sorted(column, reverse=True), strict=True))
                for column in local.T.tolist()
            ]
        )
        np.testing.assert_allclose(found.vectors[row], expected, **CLOSE)
        np.testing.assert_allclose(found.coefficients[row, :length], weights, **CLOSE)
        assert not found.coefficients[row, length:].any()
    np.testing.assert_allclose(found.coefficients[1, 0], 1.0)


def test_the_unused_second_batch_norm_and_other_names_of_the_backbone_do_not_matter(tiny: Tiny) -> None:
    states = tiny.vse_grid_states()
    model = load_vse_infty(tiny.save("m.pth", {"model": states}), text_heads=2)
    cells = model.grid_cells(pixels(64))
    assert cells.shape == (2, 4, 32)
    states[0]["module.backbone.resnet.conv1.weight"] += 1
    again = load_vse_infty(tiny.save("n.pth", {"model": states}), text_heads=2)
    assert torch.equal(again.grid_cells(pixels(64)), cells)


def test_a_vse_checkpoint_without_module_prefix_and_with_position_ids_is_the_same_model(tiny: Tiny) -> None:
    image, text = tiny.vse_grid_states()
    one = load_vse_infty(tiny.save("m.pth", {"model": [image, text]}), text_heads=2)
    bare = [{key.removeprefix("module."): tensor for key, tensor in part.items()} for part in (image, text)]
    bare[1]["bert.embeddings.position_ids"] = torch.arange(20)[None]
    other = load_vse_infty(tiny.save("n.pth", {"model": bare}, legacy=True), text_heads=2)
    assert torch.equal(one.text(IDS, LENGTHS).vectors, other.text(IDS, LENGTHS).vectors)


def test_a_backbone_that_is_not_known_is_an_error(tiny: Tiny) -> None:
    options = argparse.Namespace(precomp_enc_type="backbone", backbone_source="vgg")
    path = tiny.save("m.pth", {"model": tiny.vse_grid_states(), "opt": options})
    with pytest.raises(InputError, match="its backbone is 'vgg'; expected one of detector, wsl"):
        load_vse_infty(path, text_heads=2)


@pytest.mark.parametrize(
    ("source", "shape"),
    [("wsl", {"groups": 4, "width_per_group": 4}), (None, {"groups": 2}), ("imagenet_res50", {})],
)
@torch.inference_mode()
def test_wsl_and_imagenet_backbones_are_those_of_torchvision(source: str | None, shape: Any) -> None:
    from torchvision.models.resnet import Bottleneck, ResNet

    torch.manual_seed(2)
    library = ResNet(Bottleneck, [1, 2, 1, 2], **shape).eval()
    for name, tensor in library.state_dict().items():
        if "running" in name or "bn" in name:
            tensor.copy_(torch.rand(tensor.shape) + 0.5)
    stem = (library.conv1, library.bn1, library.relu, library.maxpool)
    base = torch.nn.Sequential(*stem, library.layer1, library.layer2, library.layer3)
    both = torch.nn.ModuleDict({"base": base, "top": torch.nn.Sequential(library.layer4)})
    weights = Weights("vse_infty", "x.pth", both.state_dict())
    backbone = weights.build(lambda: Backbone(read_backbone_sizes(weights, source)))
    images = torch.randn(2, 3, 75, 64)
    assert torch.allclose(backbone(images), both["top"](base(images)), atol=1e-5, rtol=1e-5)
    assert backbone.style == "torchvision"


@pytest.mark.parametrize(
    ("source", "white"),
    [
        ("detector", [255 - 102.9801, 255 - 115.9465, 255 - 122.7717]),
        ("wsl", [0.515 / 0.229, 0.544 / 0.224, 0.594 / 0.225]),
    ],
)
def test_pixels_are_those_of_the_backbone(tiny: Tiny, source: str, white: list[float]) -> None:
    options = argparse.Namespace(precomp_enc_type="backbone", backbone_source=source, input_scale_factor=0.25)
    path = tiny.save("m.pth", {"model": tiny.vse_grid_states(), "opt": options})
    tiny.pieces()
    encoder: Any = open_encoder(f"vse_infty:{path}:text_heads=2", device="cpu")
    prepared = encoder.prepare_image(Image.new("RGB", (10, 20), "white"))
    assert prepared.shape == (3, 64, 64)
    np.testing.assert_allclose(prepared[:, 3, 5].numpy(), white, rtol=1e-5)
    assert encoder.encode_images([prepared]).shape == (1, 8)


def test_the_input_scale_of_a_grid_checkpoint_gives_its_image_size(tiny: Tiny) -> None:
    states = tiny.vse_grid_states()
    options = argparse.Namespace(input_scale_factor=0.5)
    assert load_vse_infty(tiny.save("a.pth", {"model": states}), text_heads=2).image_size == 512
    scaled = tiny.save("b.pth", {"model": states, "opt": options})
    assert load_vse_infty(scaled, text_heads=2).image_size == 128
    assert load_vse_infty(scaled, text_heads=2, image_size=64).image_size == 64


@pytest.mark.parametrize("f30k", [False, True])
def test_vsrn_against_loops_over_regions(tiny: Tiny, features: MakeFeatures, f30k: bool) -> None:
    """Both forms, one image at a time: COCO norms after the first layer, Flickr30k at the end."""
    states = tiny.vsrn_states(f30k=f30k)
    for key in states[0]:  # affinities of size one: without the first norm they would grow to 1e33
        states[0][key] *= 0.2 if ".theta." in key or ".phi." in key else 1
    model = load_vsrn(tiny.save("m.pth", {"model": states}))
    (x,) = features(6)

    found = model.finish(model.image(torch.from_numpy(x)[None]).vectors)[0]

    image = {key: tensor.double().numpy() for key, tensor in states[0].items()}
    v = x @ image["fc.weight"].T + image["fc.bias"]
    if not f30k:
        v = v / np.linalg.norm(v, axis=0)
    for n in range(1, 5):
        g, theta, phi = (
            v @ image[f"Rs_GCN_{n}.{name}.weight"][:, :, 0].T + image[f"Rs_GCN_{n}.{name}.bias"]
            for name in ("g", "theta", "phi")
        )
        passed = np.stack(
            [sum((theta[i] @ phi[j]) / len(v) * g[j] for j in range(len(v))) for i in range(len(v))]
        )
        w = passed @ image[f"Rs_GCN_{n}.W.0.weight"][:, :, 0].T + image[f"Rs_GCN_{n}.W.0.bias"]
        v = v + batch_norm(w, image, f"Rs_GCN_{n}.W.1")
    v = v / np.linalg.norm(v, axis=0)
    gru = gru_of(states[0], "img_rnn.", both=False).double()
    last = gru(torch.from_numpy(v)[None])[0][0, -1].numpy()
    last = batch_norm(last, image, "bn") if f30k else last
    np.testing.assert_allclose(found, last / np.linalg.norm(last), rtol=0, atol=1e-5)


def batch_norm(x: np.ndarray, state: dict[str, np.ndarray], key: str) -> np.ndarray:
    scaled = (x - state[f"{key}.running_mean"]) / np.sqrt(state[f"{key}.running_var"] + 1e-5)
    result: np.ndarray = scaled * state[f"{key}.weight"] + state[f"{key}.bias"]
    return result


def test_vsrn_takes_absolute_values_where_the_checkpoint_says_so(tiny: Tiny) -> None:
    options = argparse.Namespace(use_abs=True)
    model = load_vsrn(tiny.save("m.pth", {"model": tiny.vsrn_states(), "opt": options}))
    rows = model.finish(model.text(IDS, LENGTHS))
    assert (rows >= 0).all()
    np.testing.assert_allclose(torch.linalg.vector_norm(rows, dim=1), 1, rtol=1e-6)


def test_a_missing_graph_layer_is_named(tiny: Tiny) -> None:
    image, text = tiny.vsrn_states()
    kept = {key: tensor for key, tensor in image.items() if "GCN_3" not in key}
    with pytest.raises(InputError, match=r"m\.pth \(image part\): key 'Rs_GCN_3\.g\.weight' is missing"):
        load_vsrn(tiny.save("m.pth", {"model": [kept, text]}))


@pytest.mark.parametrize("module", ["saf", "sgr"])
def test_sgraf_scores_a_pair_as_a_loop_over_words_does(
    tiny: Tiny, features: MakeFeatures, module: str
) -> None:
    states = tiny.sgraf_states(module)
    model = load_sgraf(tiny.save("m.pth", {"model": states}), module)
    regions = model.image(torch.from_numpy(np.stack(features(4, 4, 4))))
    words = model.text(IDS, LENGTHS)[1:2]

    found = model.similarity(regions, model.similarity.global_image(regions), words)[:, 0]

    s = states[2]
    for row, image in enumerate(regions):
        text = words[0]
        aligned = [unit(lin(s, "sim_tranglo_w", (global_of(s, "v", image) - global_of(s, "t", text)) ** 2))]
        attention = functional.leaky_relu(image @ text.T, 0.1)
        attention = attention / (attention.norm(dim=1, keepdim=True) + 1e-8)
        for w, word in enumerate(text):
            weights = torch.softmax(9 * attention[:, w], dim=0)
            context = unit(sum(weight * region for weight, region in zip(weights, image, strict=True)))
            aligned.append(unit(lin(s, "sim_tranloc_w", (context - word) ** 2)))
        x = torch.stack(aligned)
        if module == "sgr":
            for n in range(2):
                query, key = (lin(s, f"SGR_module.{n}.graph_{name}_w", x) for name in ("query", "key"))
                x = functional.relu(
                    lin(s, f"SGR_module.{n}.sim_graph_w", torch.softmax(query @ key.T, 1) @ x)
                )
            vector = x[0]
        else:
            raw = lin(s, "SAF_module.attn_sim_w", x)[:, 0].numpy()
            weights = torch.sigmoid(torch.tensor(batch_norm(raw, as_arrays(s), "SAF_module.bn")))
            vector = unit((weights / (weights.sum() + 1e-8)) @ x)
        np.testing.assert_allclose(found[row], torch.sigmoid(lin(s, "sim_eval_w", vector))[0], **CLOSE)


def lin(state: dict[str, Tensor], key: str, x: Tensor) -> Tensor:
    return x @ state[f"{key}.weight"].T + state[f"{key}.bias"]


def unit(x: Any) -> Tensor:
    result: Tensor = x / (x.norm() + 1e-8)
    return result


def as_arrays(state: dict[str, Tensor]) -> dict[str, np.ndarray]:
    return {key: tensor.numpy() for key, tensor in state.items()}


def global_of(state: dict[str, Tensor], side: str, places: Tensor) -> Tensor:
    key = f"{side}_global_w.embedding_"
    local, whole = lin(state, f"{key}local.0", places), lin(state, f"{key}global.0", places.mean(dim=0))
    if side == "v":
        arrays = as_arrays(state)
        local = torch.tensor(batch_norm(local.numpy().T, arrays, f"{key}local.1").T)
        whole = torch.tensor(batch_norm(whole.numpy(), arrays, f"{key}global.1"))
    weights = torch.softmax(lin(state, f"{key}common.0", torch.tanh(local) * torch.tanh(whole)), dim=0)
    return unit((weights * places).sum(dim=0))


def test_an_sgraf_checkpoint_of_the_other_module_is_named(tiny: Tiny) -> None:
    path = tiny.save("m.pth", {"model": tiny.sgraf_states("sgr")})
    with pytest.raises(InputError, match=r"this is a checkpoint of the family 'sgr'; expected .* 'saf'"):
        load_sgraf(path, "saf")


def pretraining(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """ALBEF's pre-training layout: the text tower one level deeper, beside a word-prediction head."""
    renamed = {}
    for key, tensor in state.items():
        tower = next((t for t in ("text_encoder.", "text_encoder_m.") if key.startswith(t)), None)
        renamed[key if tower is None else f"{tower}bert.{key[len(tower) :]}"] = tensor
    renamed["text_encoder.cls.predictions.bias"] = torch.ones(3)
    renamed["text_encoder_m.cls.predictions.bias"] = torch.ones(3)
    renamed["text_encoder.bert.embeddings.position_ids"] = torch.arange(20)[None]
    return renamed


def test_albefs_pretraining_layout_is_the_same_model(tiny: Tiny) -> None:
    state, heads = tiny.albef_state(), {"image_heads": 2, "text_heads": 2}
    one = load_albef(tiny.save("a.pth", {"model": state, "epoch": 1}), **heads)
    other = load_albef(tiny.save("b.pth", {"model": pretraining(state)}, legacy=True), **heads)
    mask = (IDS > 0).long()
    image = one.encode_image(pixels(8))
    assert torch.equal(image.hidden, other.encode_image(pixels(8)).hidden)
    assert torch.equal(one.match(image.hidden[:1], IDS, mask), other.match(image.hidden[:1], IDS, mask))


def test_blips_pretraining_layout_and_the_librarys_own_are_the_same_model(tiny: Tiny) -> None:
    state, heads = tiny.blip_state(), {"image_heads": 2, "text_heads": 2}
    path = tiny.save("a.pth", {"model": state})
    one = load_blip(path, **heads)
    decoder = {"text_decoder.bert.embeddings.position_ids": torch.arange(3), "text_decoder.cls.bias": IDS}
    other = load_blip(tiny.save("b.pth", {"model": {**state, **decoder}}), **heads)
    one.network.save_pretrained(tiny.folder / "saved")
    third = load_blip(tiny.folder / "saved")
    for again in (other, third):
        image = one.encode_image(pixels(8))
        assert torch.equal(image.hidden, again.encode_image(pixels(8)).hidden)
        mask = (IDS > 0).long()
        assert torch.equal(one.match(image.hidden[:1], IDS, mask), again.match(image.hidden[:1], IDS, mask))


def test_blip_puts_its_own_token_first_when_it_matches(tiny: Tiny) -> None:
    model = load_blip(tiny.save("a.pth", {"model": tiny.blip_state()}), image_heads=2, text_heads=2)
    image, mask = model.encode_image(pixels(8)).hidden[:1], (IDS > 0).long()
    replaced = IDS.clone()
    replaced[:, 0] = model.words - 1
    assert torch.equal(model.match(image, IDS, mask), model.match(image, replaced, mask, keep_first=True))
    assert not torch.allclose(model.match(image, IDS, mask), model.match(image, IDS, mask, keep_first=True))


@pytest.mark.parametrize("family", ["albef", "blip"])
def test_a_larger_image_interpolates_the_positions_and_keeps_the_first(tiny: Tiny, family: str) -> None:
    load, state = (load_albef, tiny.albef_state()) if family == "albef" else (load_blip, tiny.blip_state())
    path = tiny.save("a.pth", {"model": state})
    trained = load(path, image_heads=2, text_heads=2)
    larger = load(path, image_heads=2, text_heads=2, image_size=12)
    assert (trained.image_size, larger.image_size) == (8, 12)
    assert larger.encode_image(pixels(12)).hidden.shape == (2, 10, 12)
    with pytest.raises(InputError, match=r"image_size=10 is no multiple of the patch size 4.*trained with 8"):
        load(path, image_heads=2, text_heads=2, image_size=10)


def test_interpolated_positions_are_a_cubic_convolution() -> None:
    """The oracle convolves along both axes by the formula (A = -0.75); the class token's row is untouched."""
    positions = torch.randn(1, 17, 3, generator=torch.Generator().manual_seed(2))
    along = torch.zeros(6, 4)
    for new in range(6):
        centre = (new + 0.5) * 4 / 6 - 0.5
        for old in range(math.floor(centre) - 1, math.floor(centre) + 3):
            along[new, min(max(old, 0), 3)] += cubic(abs(centre - old))

    fitted = fit_positions(positions, 6)

    expected = torch.einsum("ay,bx,yxw->abw", along, along, positions[0, 1:].reshape(4, 4, 3))
    np.testing.assert_allclose(fitted[0, 1:], expected.reshape(36, 3), atol=1e-5)
    assert torch.equal(fitted[:, 0], positions[:, 0])
    assert torch.equal(fit_positions(positions, 4), positions)


def cubic(distance: float) -> float:
    """The cubic convolution kernel (Keys, 1981) with A = -0.75."""
    a = -0.75
    if distance <= 1:
        return (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    return a * (distance**3 - 5 * distance**2 + 8 * distance - 4) if distance < 2 else 0.0


def test_positions_that_are_no_square_are_an_error(tiny: Tiny) -> None:
    state = tiny.albef_state()
    state["visual_encoder.pos_embed"] = torch.ones(1, 4, 12)
    with pytest.raises(InputError, match="has 3 patches; expected a square number"):
        load_albef(tiny.save("a.pth", {"model": state}), image_heads=2, text_heads=2)


def test_attention_heads_must_be_given_where_no_rule_tells_them(tiny: Tiny) -> None:
    path = tiny.save("a.pth", {"model": tiny.albef_state()})
    with pytest.raises(InputError, match=r"width of 8 is no multiple of 64; give text_heads=N"):
        load_albef(path)
    with pytest.raises(InputError, match="text_heads=3 does not divide the width 8"):
        load_albef(path, image_heads=2, text_heads=3)


@pytest.mark.parametrize(
    ("write", "load", "family"),
    [
        ("vsrn_states", load_vse_infty, "vsrn"),
        ("vse_region_states", load_vsrn, "vse_infty"),
        ("vse_grid_states", load_vsrn, "vse_infty"),
        ("blip_state", load_albef, "blip"),
        ("albef_state", load_blip, "albef"),
        ("albef_state", load_vsrn, "albef"),
        ("vsrn_states", load_blip, "vsrn"),
    ],
)
def test_a_checkpoint_of_another_family_is_named(
    tiny: Tiny, write: str, load: Callable[..., Any], family: str
) -> None:
    path = tiny.save("m.pth", {"model": getattr(tiny, write)()})
    heads = {} if load is load_vsrn else {"text_heads": 2}
    said = rf"m\.pth: this is a checkpoint of the family '{family}'; expected one of the family"
    with pytest.raises(InputError, match=said) as caught:
        load(path, **heads)
    assert "\n" not in str(caught.value)


FAMILIES = {
    "albef_state": lambda path: load_albef(path, image_heads=2, text_heads=2),
    "blip_state": lambda path: load_blip(path, image_heads=2, text_heads=2),
    "vse_region_states": load_vse_infty,
    "vsrn_states": load_vsrn,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_needed_key_is_missed_and_each_wrong_shape_seen(tiny: Tiny, family: str) -> None:
    """Every tenth key of each part, as the original loaders would let most of them pass."""
    whole = getattr(tiny, family)()
    parts = whole if isinstance(whole, list) else [whole]
    ignored = ("_m.", "queue", "temp", "mlp.bns.1")
    keys = [(n, key) for n, part in enumerate(parts) for key in part if not any(i in key for i in ignored)]
    for n, key in keys[::10]:
        for change in ("missing", "has shape"):
            broken = [dict(part) for part in parts]
            if change == "missing":
                del broken[n][key]
            else:
                broken[n][key] = torch.ones(*broken[n][key].shape, 1)
            path = tiny.save("m.pth", {"model": broken if isinstance(whole, list) else broken[0]})
            with pytest.raises(InputError, match=r"m\.pth"):
                FAMILIES[family](path)
