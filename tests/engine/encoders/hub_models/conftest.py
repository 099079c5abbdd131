"""Transformers models with small random configurations, saved as people keep theirs; no downloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

SIDE = 32
WORDS = ["a", "dog", "cat", "red", "hat", "man", "two", "##s", "x", "number", ",", *map(str, range(10))]
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
VISION = {**SMALL, "image_size": SIDE, "patch_size": 8}
CONTEXT = 12


def save_tokenizer(folder: Path, *, bos: str, eos: str, pad: str, limit: int = CONTEXT) -> int:
    """A word-piece tokenizer; its number of tokens. The end token is the highest, as CLIP's pooling wants."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = [token for token in (pad, "<unk>", bos) if token and token != eos]
    vocabulary = {token: row for row, token in enumerate([*special, *WORDS, eos])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    single = f"{bos} $A {eos}" if bos else f"$A {eos}"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(token, vocabulary[token]) for token in {bos, eos} if token]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token=bos or None,
        eos_token=eos,
        pad_token=pad,
        model_max_length=limit,
    )
    fast.save_pretrained(folder)
    return len(vocabulary)


def save_gemma_tokenizer(folder: Path) -> int:
    """SigLIP 2's kind: byte-pair encoding with no attention mask and padding behind the text."""
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789,\u2581", "do", "dog"]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *letters]
    tokenizer = transformers.Siglip2Tokenizer(
        vocab={token: row for row, token in enumerate(tokens)},
        merges=[("d", "o"), ("do", "g")],
        padding_side="right",
        model_input_names=["input_ids"],
        model_max_length=64,
    )
    tokenizer.save_pretrained(folder)
    return len(tokens)


def save_network(network: Any, folder: Path) -> None:
    """Save with every weight random: nothing is left at a value that would hide a step."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                scale = 0.5 if tensor.ndim == 4 else 0.1  # convolutions of these sizes let little through
                tensor.add_(scale * torch.randn(tensor.shape, generator=generator))
                if name.endswith("running_var"):
                    tensor.abs_().add_(0.5)
    network.eval().save_pretrained(folder)


def clip(folder: Path, **changes: Any) -> None:
    words = save_tokenizer(folder, bos="<s>", eos="</s>", pad="</s>")
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": CONTEXT, "eos_token_id": words - 1}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=24, **changes)
    save_network(transformers.CLIPModel(config), folder)
    size = {"shortest_edge": SIDE}
    crop = {"height": SIDE, "width": SIDE}
    transformers.CLIPImageProcessor(size=size, crop_size=crop).save_pretrained(folder)


def siglip(folder: Path) -> None:
    words = save_tokenizer(folder, bos="", eos="</s>", pad="</s>", limit=10)
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": 10, "projection_size": 32}
    save_network(
        transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=VISION)), folder
    )
    transformers.SiglipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


def siglip2(folder: Path) -> None:
    """With images in patches that keep their aspect (NaFlex), as Siglip2Model reads them."""
    words = save_gemma_tokenizer(folder)
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": 64, "projection_size": 32}
    vision = {**SMALL, "num_patches": 16, "patch_size": 8}
    save_network(
        transformers.Siglip2Model(transformers.Siglip2Config(text_config=text, vision_config=vision)), folder
    )
    transformers.Siglip2ImageProcessor(patch_size=8, max_num_patches=16).save_pretrained(folder)


def align(folder: Path) -> None:
    words = save_tokenizer(folder, bos="[CLS]", eos="[SEP]", pad="[PAD]", limit=512)
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": 512, "pad_token_id": 0}
    vision = {
        "image_size": SIDE,
        "in_channels": [32, 16],
        "out_channels": [16, 8],
        "kernel_sizes": [3, 3],
        "strides": [1, 2],
        "num_block_repeats": [1, 1],
        "expand_ratios": [1, 6],
        "hidden_dim": 8,
        "width_coefficient": 1.0,
        "depth_coefficient": 1.0,
        "depthwise_padding": [],
    }
    config = transformers.AlignConfig(text_config=text, vision_config=vision, projection_dim=8)
    save_network(transformers.AlignModel(config), folder)
    transformers.EfficientNetImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


def altclip(folder: Path) -> None:
    words = save_tokenizer(folder, bos="<s>", eos="</s>", pad="<pad>", limit=512)
    text = {
        **SMALL,
        "vocab_size": words,
        "max_position_embeddings": 20,
        "pad_token_id": 0,
        "project_dim": 16,
    }
    config = transformers.AltCLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    save_network(transformers.AltCLIPModel(config), folder)
    crop = {"height": SIDE, "width": SIDE}
    transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=crop).save_pretrained(folder)


def groupvit(folder: Path) -> None:
    words = save_tokenizer(folder, bos="<s>", eos="</s>", pad="</s>")
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": CONTEXT, "eos_token_id": words - 1}
    vision = {
        **SMALL,
        "image_size": SIDE,
        "patch_size": 8,
        "depths": [1, 1],
        "num_group_tokens": [8, 4],
        "num_output_groups": [8, 4],
    }
    config = transformers.GroupViTConfig(
        text_config=text, vision_config=vision, projection_dim=24, projection_intermediate_dim=40
    )
    save_network(transformers.GroupViTModel(config), folder)
    crop = {"height": SIDE, "width": SIDE}
    transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=crop).save_pretrained(folder)


def _blip_config(words: int) -> Any:
    text = {
        **SMALL,
        "vocab_size": words,
        "max_position_embeddings": 20,
        "encoder_hidden_size": 32,
        "bos_token_id": 2,
        "sep_token_id": words - 1,
        "pad_token_id": 0,
    }
    return transformers.BlipConfig(
        text_config=text, vision_config=VISION, projection_dim=24, image_text_hidden_size=24
    )


def blip(folder: Path) -> None:
    """The form with a contrastive and a matching head; the first is what an encoder uses."""
    words = save_tokenizer(folder, bos="[CLS]", eos="[SEP]", pad="[PAD]", limit=512)
    save_network(transformers.BlipForImageTextRetrieval(_blip_config(words)), folder)
    transformers.BlipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


def blip_plain(folder: Path) -> None:
    words = save_tokenizer(folder, bos="[CLS]", eos="[SEP]", pad="[PAD]", limit=512)
    save_network(transformers.BlipModel(_blip_config(words)), folder)
    transformers.BlipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)


def chinese_clip(folder: Path) -> None:
    words = save_tokenizer(folder, bos="[CLS]", eos="[SEP]", pad="[PAD]", limit=512)
    text = {**SMALL, "vocab_size": words, "max_position_embeddings": 20, "pad_token_id": 0}
    config = transformers.ChineseCLIPConfig(text_config=text, vision_config=VISION, projection_dim=24)
    save_network(transformers.ChineseCLIPModel(config), folder)
    crop = {"height": SIDE, "width": SIDE}
    transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size=crop).save_pretrained(folder)


MODELS: Mapping[str, Callable[[Path], None]] = {
    "clip": clip,
    "siglip": siglip,
    "siglip2": siglip2,
    "align": align,
    "altclip": altclip,
    "groupvit": groupvit,
    "blip": blip,
    "blip_plain": blip_plain,
    "chinese_clip": chinese_clip,
}


def save_model(name: str, folder: Path) -> Path:
    """Save the model of that name with all its files; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        MODELS[name](folder)
    return folder


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``saved("clip")`` is the folder of a model of `MODELS`, made once; not to be changed."""
    folders: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in folders:
            folders[name] = save_model(name, tmp_path_factory.mktemp("models") / name)
        return folders[name]

    return get
