"""A small open_clip checkpoint with random weights, in the form that people and the demo keep theirs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TINY_CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 1, "width": 16, "patch_size": 16, "head_width": 8},
    "text_cfg": {
        "context_length": 12,
        "vocab_size": 300,
        "hf_tokenizer_name": "local",
        "width": 16,
        "heads": 2,
        "layers": 1,
    },
}
TINY_PREPROCESS = {"mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bicubic", "resize_mode": "squash"}


def save_tokenizer(folder: Path) -> None:
    """A byte-level BPE without merges; the end token is the highest, as pooling wants."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<pad>", "<start>", "<end>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<start> $A <end>",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("<start>", "<end>")],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "<end>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def save_tiny_model(
    folder: Path, *, seed: int = 0, half: bool = False, preprocess: Any = TINY_PREPROCESS, **changes: Any
) -> Path:
    """Save the checkpoint with everything it needs; `changes` go into its ``model_cfg``."""
    import torch
    from open_clip.model import CLIP
    from safetensors.torch import save_file

    config = {**TINY_CONFIG, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        weights = CLIP(**config).state_dict()
        # biases start at zero and would hide a layer that is not used
        weights = {k: v + 0.1 * torch.randn_like(v) if v.ndim == 1 else v for k, v in weights.items()}
    save_file(
        {name: tensor.half() if half else tensor for name, tensor in weights.items()},
        folder / "open_clip_model.safetensors",
    )
    document = {"model_cfg": config} | ({} if preprocess is None else {"preprocess_cfg": preprocess})
    (folder / "open_clip_config.json").write_text(json.dumps(document))
    save_tokenizer(folder)
    return folder


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A folder for ``open_clip:local-dir:...``."""
    return save_tiny_model(tmp_path / "tiny")


@pytest.fixture
def make_tiny_model(tmp_path: Path) -> Callable[..., Path]:
    """Saves another checkpoint: `make_tiny_model("name", seed=1, half=True, preprocess=None, ...)`."""
    return lambda name, **options: save_tiny_model(tmp_path / name, **options)


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every attempt to reach the network fails and is listed."""
    import socket

    attempts: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> None:
        attempts.append(arguments)
        raise OSError("no network in this test")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    return attempts
