"""Every published-model fixture under ``parity/``: each array of it within 1e-5 of what the original code
gave.

A fixture is a ``.json`` with an ``.npz`` of the same name beside it; the folder is the family. No fixture
is known by name, so a further one is tested by being put there. An array that no check computes is a
failure, not a gap.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.encoders.albef.model import Albef, load_albef
from engine.encoders.blip.model import Blip, load_blip
from engine.encoders.sgraf.model import Sgraf, load_sgraf
from engine.encoders.vse_infty.model import load_vse_infty
from engine.encoders.vse_infty.model import normalised as vse_normalised
from engine.encoders.vsrn.model import load_vsrn

TOLERANCE = 1e-5
INPUTS = {
    "images",
    "input_ids",
    "attention_mask",
    "img_feats",
    "img_lens",
    "cap_ids",
    "cap_lens",
}
CAPTIONS_AN_IMAGE = 5
Arrays = Mapping[str, NDArray[Any]]
Outputs = dict[str, Any]


@dataclass(frozen=True)
class Fixture:
    """One fixture: its JSON, its arrays, and where it lies."""

    path: Path

    @property
    def family(self) -> str:
        return self.path.parent.name

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.path.read_text())
        return facts

    @property
    def arrays(self) -> Arrays:
        with np.load(self.path.with_suffix(".npz")) as arrays:
            return dict(arrays)

    def checkpoint(self, suffix: str = "") -> Path:
        return self.path.with_name(f"{self.path.stem}{suffix}.pth")


def parity_folder() -> Path:
    default = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("ITRSTRESS_DATA", default)) / "parity"


def find_fixtures() -> list[Fixture]:
    return [
        Fixture(path)
        for path in sorted(parity_folder().glob("*/*.json"))
        if path.with_suffix(".npz").is_file()
    ]


@pytest.mark.published
@pytest.mark.skipif(not parity_folder().is_dir(), reason=f"no parity data at {parity_folder()}")
@pytest.mark.parametrize("fixture", find_fixtures(), ids=lambda f: f"{f.family}-{f.path.stem}")
def test_every_array_is_what_the_original_code_gave(fixture: Fixture) -> None:
    with torch.inference_mode():
        outputs = {name: np.asarray(value) for name, value in FAMILIES[fixture.family](fixture).items()}
    expected = {name: array for name, array in fixture.arrays.items() if name not in INPUTS}

    unchecked = sorted(expected.keys() - outputs.keys())
    differences = {
        name: difference(outputs[name], array) for name, array in expected.items() if name in outputs
    }
    print({name: f"{value:.1e}" for name, value in differences.items()})  # shown by pytest -rP

    assert not unchecked, f"arrays that nothing here computes: {unchecked}"
    assert differences
    worst = max(differences, key=lambda name: differences[name])
    assert differences[worst] <= TOLERANCE, f"{worst} differs by {differences[worst]:.2e}"


@dataclass(frozen=True)
class Layout:
    """The keys and shapes of a full-size model: what its ``model`` entry holds."""

    path: Path
    name: str
    model: Any

    @property
    def family(self) -> str:
        return self.path.parent.name


def find_layouts() -> list[Layout]:
    return [
        Layout(path, name, model)
        for path in sorted(parity_folder().glob("*/real_layout*.json"))
        for name, model in json.loads(path.read_text()).items()
        if not isinstance(model, str)
    ]


@pytest.mark.published
@pytest.mark.parametrize("layout", find_layouts(), ids=lambda x: f"{x.family}-{x.path.stem}-{x.name}")
def test_a_full_size_model_needs_no_option(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key and shape of the published models fits; the tensors are one zero each, seen in full shape."""
    model = fill(layout.model)
    load = LOADERS[layout.family]
    monkeypatch.setattr(sys.modules[load.__module__], "read_checkpoint", lambda path: {"model": model})
    loaded = load(Path("x.pth"), *([layout.name.lower()] if layout.family == "sgraf" else []))
    assert loaded is not None


def fill(shapes: Any) -> Any:
    if isinstance(shapes, list):
        return [fill(part) for part in shapes]
    return {key: torch.zeros(()).expand(shape) for key, shape in shapes.items()}


LOADERS: Mapping[str, Callable[..., Any]] = {
    "albef": load_albef,
    "blip": load_blip,
    "sgraf": load_sgraf,
    "vse_infty": load_vse_infty,
    "vsrn": load_vsrn,
}


def difference(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest absolute difference; infinite for another shape and for NaN on one side."""
    if found.shape != expected.shape:
        return float("inf")
    gap = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    return float(np.nan_to_num(gap, nan=np.inf).max(initial=0.0))


# --- what the original evaluation code does with scores


def rank_outputs(sims: NDArray[Any], prefix: str = "") -> Outputs:
    """Ranks from 0, top-1 rows and (R@1, R@5, R@10, median, mean) in both directions."""
    captions = [range(CAPTIONS_AN_IMAGE * i, CAPTIONS_AN_IMAGE * (i + 1)) for i in range(len(sims))]
    image_of = [i for i, rows in enumerate(captions) for _ in rows]
    i2t_order = [np.argsort(row)[::-1] for row in sims]
    t2i_order = [np.argsort(row)[::-1] for row in sims.T]
    i2t = [best_rank(order, rows) for order, rows in zip(i2t_order, captions, strict=True)]
    t2i = [best_rank(order, [image]) for order, image in zip(t2i_order, image_of, strict=True)]
    return {
        f"{prefix}i2t_ranks": i2t,
        f"{prefix}i2t_top1": [order[0] for order in i2t_order],
        f"{prefix}i2t_metrics": metrics(i2t),
        f"{prefix}t2i_ranks": t2i,
        f"{prefix}t2i_top1": [order[0] for order in t2i_order],
        f"{prefix}t2i_metrics": metrics(t2i),
    }


def best_rank(order: NDArray[Any], positives: Iterable[int]) -> int:
    return int(np.flatnonzero(np.isin(order, list(positives)))[0])


def metrics(ranks: list[int]) -> list[float]:
    return [*recalls(ranks), float(np.floor(np.median(ranks)) + 1), float(np.mean(ranks) + 1)]


def recalls(ranks: list[int]) -> list[float]:
    return [100.0 * float(np.mean(np.asarray(ranks) < k)) for k in (1, 5, 10)]


def shortlist_scores(cosines: Tensor, scores: Tensor, k: int, rest: float) -> NDArray[Any]:
    """Scores at the k best cosines of every row, `rest` elsewhere."""
    best = cosines.topk(k, dim=1).indices
    return torch.full_like(scores, rest).scatter(1, best, scores.gather(1, best)).numpy()


def itm_metrics(i2t: NDArray[Any], t2i: NDArray[Any], order: list[str]) -> list[float]:
    texts, images = rank_outputs(i2t)["i2t_ranks"], rank_outputs(t2i.T)["t2i_ranks"]
    text_recalls, image_recalls = recalls(texts), recalls(images)
    values = dict(zip(("txt_r1", "txt_r5", "txt_r10"), text_recalls, strict=True))
    values.update(zip(("img_r1", "img_r5", "img_r10"), image_recalls, strict=True))
    values["txt_r_mean"], values["img_r_mean"] = float(np.mean(text_recalls)), float(np.mean(image_recalls))
    values["r_mean"] = (values["txt_r_mean"] + values["img_r_mean"]) / 2
    return [values[name] for name in order]


# --- families


def tensors(fixture: Fixture) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in fixture.arrays.items() if name in INPUTS}


def matching_outputs(fixture: Fixture, model: Albef | Blip, adds_cosine: bool) -> Outputs:
    """ALBEF and BLIP: towers, every pair through the matching head, and their `evaluation()`."""
    facts, given = fixture.facts, tensors(fixture)
    ids, mask = given["input_ids"], given["attention_mask"]
    image, text = model.encode_image(given["images"]), model.encode_text(ids, mask)
    image_embeds = torch.nn.functional.normalize(image.projected, dim=-1)
    text_embeds = torch.nn.functional.normalize(text.projected, dim=-1)
    sims = image_embeds @ text_embeds.T
    logits = torch.stack([model.match(tokens[None], ids, mask) for tokens in image.hidden])
    scores = logits[..., 1] + (sims if adds_cosine else 0)
    outputs: Outputs = {
        "image_hidden": image.hidden,
        "image_proj": image.projected,
        "image_embeds": image_embeds,
        "text_hidden_masked": text.hidden * mask[..., None],
        "text_proj": text.projected,
        "text_embeds": text_embeds,
        "sims": sims,
        "itm_logits": logits,
    }
    for k in facts["k_tests"]:
        i2t = shortlist_scores(sims, scores, min(k, sims.shape[1]), facts["fill_value"])
        t2i = shortlist_scores(sims.T, scores.T, min(k, sims.shape[0]), facts["fill_value"])
        outputs[f"score_i2t_k{k}"], outputs[f"score_t2i_k{k}"] = i2t, t2i
        outputs[f"itm_eval_k{k}"] = itm_metrics(i2t, t2i, facts["itm_eval_order"])
    return outputs


def albef_outputs(fixture: Fixture) -> Outputs:
    facts = fixture.facts
    model = load_albef(
        fixture.checkpoint(),
        image_size=fixture.arrays["images"].shape[-1],
        image_heads=facts["vit"]["num_heads"],
        text_heads=facts["bert_config"]["num_attention_heads"],
    )
    return matching_outputs(fixture, model, adds_cosine=False)


def blip_outputs(fixture: Fixture) -> Outputs:
    facts, given = fixture.facts, tensors(fixture)
    model = load_blip(
        fixture.checkpoint(),
        image_size=fixture.arrays["images"].shape[-1],
        image_heads=facts["vit"]["num_heads"],
        text_heads=facts["med_config"]["num_attention_heads"],
    )
    outputs = matching_outputs(fixture, model, adds_cosine=True)
    hidden = model.encode_image(given["images"]).hidden
    outputs["itm_logits_if_cls_token_kept"] = torch.stack(
        [
            model.match(tokens[None], given["input_ids"], given["attention_mask"], keep_first=True)
            for tokens in hidden
        ]
    )
    return outputs


def vse_infty_outputs(fixture: Fixture) -> Outputs:
    given = tensors(fixture)
    bert = fixture.facts["bert_config"]
    model = load_vse_infty(
        fixture.checkpoint(), text_heads=None if bert is None else bert["num_attention_heads"]
    )
    outputs: Outputs = {}
    if "img_feats" in given:
        features, lengths = given["img_feats"], given["img_lens"]
    else:
        maps = given["images"]
        features = maps.flatten(2).transpose(1, 2) if model.backbone is None else model.grid_cells(maps)
        lengths = torch.full((len(features),), features.shape[1])
        outputs["grid_features"] = features
    image = model.head(features, lengths)
    text = model.text(given["cap_ids"], given["cap_lens"])
    image_rows, text_rows = vse_normalised(image.vectors), vse_normalised(text.vectors)
    sims = image_rows.double().numpy() @ text_rows.double().numpy().T
    return {
        **outputs,
        "img_emb": image_rows,
        "cap_emb": text_rows,
        "img_emb_prenorm": image.vectors,
        "cap_emb_prenorm": text.vectors,
        "img_pool_weights": image.coefficients,
        "cap_pool_weights": text.coefficients,
        "sims": sims,
        **rank_outputs(sims),
    }


def vsrn_outputs(fixture: Fixture) -> Outputs:
    given = tensors(fixture)
    outputs: Outputs = {}
    sims = []
    number = 0
    while (path := fixture.checkpoint(f"_m{number + 1}")).is_file():
        number += 1
        model = load_vsrn(path, absolute=fixture.facts["opt"]["use_abs"])
        image = model.image(given["img_feats"])
        image_rows = model.finish(image.vectors)
        text_rows = model.finish(model.text(given["cap_ids"], given["cap_lens"]))
        padded = torch.cat([given["img_feats"], torch.zeros_like(given["img_feats"][:, :2])], dim=1)
        sims.append(image_rows.double().numpy() @ text_rows.double().numpy().T)
        outputs |= {
            f"m{number}_img_emb": image_rows,
            f"m{number}_img_emb_prenorm": image.vectors,
            f"m{number}_gcn": image.regions,
            f"m{number}_cap_emb": text_rows,
            f"m{number}_sims": sims[-1],
            f"m{number}_img_emb_if_two_zero_rows_appended": model.finish(model.image(padded).vectors),
            **rank_outputs(sims[-1], f"m{number}_"),
        }
    ensemble = np.mean(sims, axis=0)
    return {**outputs, "ens_sims": ensemble, **rank_outputs(ensemble, "ens_")}


def sgraf_outputs(fixture: Fixture) -> Outputs:
    facts = fixture.facts
    if "members" in facts:
        members = [Fixture(fixture.path.with_name(f"{name}.json")) for name in facts["members"]]
        by_module = {module_name(member): sgraf_outputs(member)["sims"] for member in members}
        sims = np.mean(list(by_module.values()), axis=0)
        return {**by_module, "sims": sims, **rank_outputs(sims)}
    given = tensors(fixture)
    model = load_sgraf(fixture.checkpoint(), module_name(fixture))
    regions = model.image(given["img_feats"])
    words = model.text(given["cap_ids"], given["cap_lens"])
    sims = sgraf_scores(model, regions, words, given["cap_lens"])
    return {
        "img_emb": regions,
        "cap_emb": words,
        "img_global": model.similarity.global_image(regions),
        "sims": sims,
        **rank_outputs(sims),
    }


def module_name(fixture: Fixture) -> str:
    name: str = fixture.facts["opt"]["module_name"]
    return name.lower()


def sgraf_scores(model: Sgraf, regions: Tensor, words: Tensor, lengths: Tensor) -> NDArray[Any]:
    vectors = model.similarity.global_image(regions)
    columns = [
        model.similarity(regions, vectors, words[row : row + 1, :length])
        for row, length in enumerate(lengths.tolist())
    ]
    return torch.cat(columns, dim=1).numpy()


FAMILIES: Mapping[str, Callable[[Fixture], Outputs]] = {
    "albef": albef_outputs,
    "blip": blip_outputs,
    "sgraf": sgraf_outputs,
    "vse_infty": vse_infty_outputs,
    "vsrn": vsrn_outputs,
}
