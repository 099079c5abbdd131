"""Tiny checkpoints of every published family, with random weights, in the layouts of their authors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

State = dict[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
WORDS = ("a", "dog", "cat", "red", "hat", "man", "is", "n't", ".", ",", "two", "``", "''")
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "dog", "cat", "red", "hat", "##s", "man", ",", "-", "'")


def random_state(shapes: Shapes, seed: int) -> State:
    """Random tensors; running variances are positive."""
    generator = torch.Generator().manual_seed(seed)
    state = {key: 0.5 * torch.randn(shape, generator=generator) for key, shape in shapes.items()}
    return {
        key: tensor.abs() + 0.1 if key.endswith("running_var") else tensor for key, tensor in state.items()
    }


def linear(key: str, outputs: int, inputs: int) -> Shapes:
    return {f"{key}.weight": (outputs, inputs), f"{key}.bias": (outputs,)}


def norm(key: str, width: int, batch: bool = False) -> Shapes:
    shapes = {f"{key}.weight": (width,), f"{key}.bias": (width,)}
    return shapes | {f"{key}.running_mean": (width,), f"{key}.running_var": (width,)} if batch else shapes


def gru(key: str, width: int, inputs: int, both: bool) -> Shapes:
    shapes = {}
    for end in ("", "_reverse") if both else ("",):
        shapes |= {
            f"{key}.weight_ih_l0{end}": (3 * width, inputs),
            f"{key}.weight_hh_l0{end}": (3 * width, width),
            f"{key}.bias_ih_l0{end}": (3 * width,),
            f"{key}.bias_hh_l0{end}": (3 * width,),
        }
    return shapes


def pooling(key: str) -> Shapes:
    return {**gru(f"{key}.gru", 6, 8, both=True), f"{key}.linear.weight": (1, 6)}


def bert(
    words: int, width: int, layers: int, first_cross: int, cross_width: int, types: bool = True
) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, width),
        "embeddings.position_embeddings.weight": (20, width),
        **({"embeddings.token_type_embeddings.weight": (2, width)} if types else {}),
        **norm("embeddings.LayerNorm", width),
    }
    for n in range(layers):
        layer = f"encoder.layer.{n}"
        for name in ("attention", "crossattention") if n >= first_cross else ("attention",):
            source = cross_width if name == "crossattention" else width
            shapes |= linear(f"{layer}.{name}.self.query", width, width)
            shapes |= linear(f"{layer}.{name}.self.key", width, source)
            shapes |= linear(f"{layer}.{name}.self.value", width, source)
            shapes |= linear(f"{layer}.{name}.output.dense", width, width)
            shapes |= norm(f"{layer}.{name}.output.LayerNorm", width)
        shapes |= linear(f"{layer}.intermediate.dense", 3 * width, width)
        shapes |= linear(f"{layer}.output.dense", width, 3 * width)
        shapes |= norm(f"{layer}.output.LayerNorm", width)
    return shapes


def vision(width: int, layers: int, side: int) -> Shapes:
    shapes: dict[str, tuple[int, ...]] = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, side * side + 1, width),
        "patch_embed.proj.weight": (width, 3, 4, 4),
        "patch_embed.proj.bias": (width,),
        **norm("norm", width),
    }
    for n in range(layers):
        block = f"blocks.{n}"
        shapes |= norm(f"{block}.norm1", width) | norm(f"{block}.norm2", width)
        shapes |= linear(f"{block}.attn.qkv", 3 * width, width) | linear(f"{block}.attn.proj", width, width)
        shapes |= linear(f"{block}.mlp.fc1", 2 * width, width) | linear(f"{block}.mlp.fc2", width, 2 * width)
    return shapes


def below(prefix: str, shapes: Shapes) -> Shapes:
    return {prefix + key: shape for key, shape in shapes.items()}


def matching(text: Shapes, width: int, text_width: int, side: int) -> Shapes:
    shapes = {
        **below("visual_encoder.", vision(width, 2, side)),
        **below("text_encoder.", text),
        **linear("vision_proj", 6, width),
        **linear("text_proj", 6, text_width),
        **linear("itm_head", 2, text_width),
    }
    copies = {key.replace(".", "_m.", 1): shape for key, shape in shapes.items() if "itm_head" not in key}
    return shapes | copies | {"temp": (), "image_queue": (6, 5), "text_queue": (6, 5)}


class Tiny:
    """Writes checkpoints and vocabularies into a folder; every method gives the path of what it wrote."""

    heads = "image_heads=2,text_heads=2"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, content: object, legacy: bool = False) -> Path:
        path = self.folder / name
        torch.save(content, path, _use_new_zipfile_serialization=not legacy)
        return path

    def albef_state(self, seed: int = 0, side: int = 2) -> State:
        text = bert(len(PIECES), 8, layers=3, first_cross=1, cross_width=12)
        return random_state(matching(text, 12, 8, side), seed)

    def blip_state(self, seed: int = 0, side: int = 2) -> State:
        text = bert(len(PIECES) + 2, 8, layers=2, first_cross=0, cross_width=12, types=False)
        return random_state(matching(text, 12, 8, side), seed)

    def vse_region_states(self, seed: int = 0, words: int = len(SPECIAL + WORDS) + 1) -> list[State]:
        image = linear("fc", 8, 5) | linear("mlp.layers.0", 4, 5) | linear("mlp.layers.1", 8, 4)
        image |= norm("mlp.bns.0", 4, batch=True) | norm("mlp.bns.1", 8, batch=True) | pooling("gpool")
        return [random_state(image, seed), random_state(self._gru_text(words), seed + 1)]

    def vse_grid_states(self, seed: int = 0) -> list[State]:
        """A grid model with its backbone (under further names too) and BERT text, under ``module.``."""
        image = below("backbone.", self._backbone()) | below(
            "image_encoder.", linear("fc", 8, 32) | pooling("gpool")
        )
        image |= {"backbone.resnet.fc.weight": (3, 32), "backbone.resnet.conv1.weight": (2, 3, 7, 7)}
        text = below("bert.", bert(len(PIECES), 8, layers=2, first_cross=9, cross_width=8))
        text |= linear("linear", 8, 8) | linear("bert.pooler.dense", 8, 8) | pooling("gpool")
        return [random_state(below("module.", part), seed + n) for n, part in enumerate((image, text))]

    def vsrn_states(
        self, seed: int = 0, words: int = len(SPECIAL + WORDS), f30k: bool = False
    ) -> list[State]:
        image = linear("fc", 8, 5) | gru("img_rnn", 8, 8, both=False)
        for n in range(1, 5):
            for name in ("g", "theta", "phi"):
                image |= {f"Rs_GCN_{n}.{name}.weight": (8, 8, 1), f"Rs_GCN_{n}.{name}.bias": (8,)}
            image |= {f"Rs_GCN_{n}.W.0.weight": (8, 8, 1), f"Rs_GCN_{n}.W.0.bias": (8,)}
            image |= norm(f"Rs_GCN_{n}.W.1", 8, batch=True)
        image |= norm("bn", 8, batch=True) if f30k else {}
        text = {"embed.weight": (words, 6), **gru("rnn", 8, 6, both=False)}
        return [random_state(image, seed), random_state(text, seed + 1)]

    def sgraf_states(self, module: str, seed: int = 0, regions: int = 4) -> list[State]:
        similarity = (
            linear("sim_tranloc_w", 6, 8) | linear("sim_tranglo_w", 6, 8) | linear("sim_eval_w", 1, 6)
        )
        for side in ("v_global_w", "t_global_w"):
            similarity |= linear(f"{side}.embedding_local.0", 8, 8) | linear(
                f"{side}.embedding_global.0", 8, 8
            )
            similarity |= linear(f"{side}.embedding_common.0", 1, 8)
        similarity |= norm("v_global_w.embedding_local.1", regions, batch=True)
        similarity |= norm("v_global_w.embedding_global.1", 8, batch=True)
        if module == "saf":
            similarity |= linear("SAF_module.attn_sim_w", 1, 6) | norm("SAF_module.bn", 1, batch=True)
        else:
            for n in range(2):
                for name in ("graph_query_w", "graph_key_w", "sim_graph_w"):
                    similarity |= linear(f"SGR_module.{n}.{name}", 6, 6)
        text = {"embed.weight": (len(SPECIAL + WORDS), 6), **gru("cap_rnn", 8, 6, both=True)}
        parts = (linear("fc", 8, 5), text, similarity)
        return [random_state(part, seed + n) for n, part in enumerate(parts)]

    def vocabulary(self, name: str = "words_vocab.json", words: tuple[str, ...] = WORDS) -> Path:
        ids = {word: row for row, word in enumerate(SPECIAL + words)}
        path = self.folder / name
        path.write_text(json.dumps({"word2idx": ids, "idx2word": {}, "idx": len(ids)}))
        return path

    def pieces(self, name: str = "vocab.txt", tokens: tuple[str, ...] = PIECES) -> Path:
        path = self.folder / name
        path.write_text("\n".join(tokens) + "\n")
        return path

    def _gru_text(self, words: int) -> Shapes:
        return {"embed.weight": (words, 6), **gru("rnn", 8, 6, both=True), **pooling("gpool")}

    def _backbone(self) -> Shapes:
        shapes: dict[str, tuple[int, ...]] = {"base.0.weight": (2, 3, 7, 7), **norm("base.1", 2, batch=True)}
        stages = (("base.4", 2, 2), ("base.5", 8, 3), ("base.6", 12, 4), ("top.0", 16, 8))
        for key, inputs, inner in stages:
            for b, first in ((f"{key}.0", inputs), (f"{key}.1", 4 * inner)):
                shapes |= {
                    f"{b}.conv1.weight": (inner, first, 1, 1),
                    **norm(f"{b}.bn1", inner, batch=True),
                }
                shapes |= {
                    f"{b}.conv2.weight": (inner, inner, 3, 3),
                    **norm(f"{b}.bn2", inner, batch=True),
                }
                shapes |= {f"{b}.conv3.weight": (4 * inner, inner, 1, 1)}
                shapes |= norm(f"{b}.bn3", 4 * inner, batch=True)
            shapes |= {f"{key}.0.downsample.0.weight": (4 * inner, inputs, 1, 1)}
            shapes |= norm(f"{key}.0.downsample.1", 4 * inner, batch=True)
        return shapes


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    """Writes tiny checkpoints into the test's folder."""
    return Tiny(tmp_path)


@pytest.fixture
def features() -> Callable[..., list[np.ndarray]]:
    """Random region features: ``features(4, 6)`` gives two images with 4 and 6 regions of 5 values."""

    def make(*counts: int, seed: int = 3) -> list[np.ndarray]:
        generator = np.random.default_rng(seed)
        return [generator.normal(size=(count, 5)).astype(np.float32) for count in counts]

    return make
