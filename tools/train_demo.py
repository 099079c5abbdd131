"""Train the demo's small open_clip model on scenes of our own renderer, and pack its checkpoints.

One run, from nothing to the folders under `engine/demo/checkpoints`:

    python tools/train_demo.py

1. a byte-level BPE tokeniser, trained on captions of training scenes and a list of common English words (so
   that any other word still splits into pieces);
2. training scenes rendered once, at the model's own resolution, through the same two steps as a test image
   (render, then the model's resize), into a folder of work files;
3. contrastive training, nothing else: AdamW, cosine schedule, a random caption of several a scene;
4. at each step of `--keep`, a folder that open_clip loads as `local-dir:PATH`, and its R@1 on the test set.

Everything is seeded. The log (JSON Lines: one line of settings and versions, then the steps and scores) is
kept beside this script.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import save as to_bytes
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn import functional
from wordfreq import top_n_list

from engine.demo.captions import captions, wordings
from engine.demo.render import render
from engine.demo.scenes import Split, generator, sample_scene

CONTEXT_LENGTH = 48
PAD, START, END = "<pad>", "<start>", "<end>"
MEAN = STD = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Settings:
    """Everything that decides the outcome, apart from the versions."""

    seed: int = 1
    scenes: int = 120_000
    captions_per_scene: int = 10
    steps: int = 700
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    warmup: int = 100
    keep: tuple[int, ...] = (160, 300, 700)
    image_size: int = 96
    layers: tuple[int, ...] = (1, 2, 2, 1)
    image_width: int = 10
    text_width: int = 128
    text_layers: int = 3
    embed_dim: int = 160
    vocabulary: int = 1_800
    test_images: int = 1_000


def model_config(settings: Settings) -> dict[str, Any]:
    """The `model_cfg` of open_clip: a small ResNet with an attention pool, and a small text transformer."""
    return {
        "embed_dim": settings.embed_dim,
        "vision_cfg": {
            "image_size": settings.image_size,
            "layers": list(settings.layers),
            "width": settings.image_width,
            "head_width": 64,
        },
        "text_cfg": {
            "context_length": CONTEXT_LENGTH,
            "vocab_size": settings.vocabulary,
            "hf_tokenizer_name": "itrstress-demo",
            "width": settings.text_width,
            "heads": 4,
            "layers": settings.text_layers,
            "mlp_ratio": 2.0,
            "pool_type": "eos",
            "pad_id": 0,
            "eos_id": 2,
        },
    }


def preprocess_config(settings: Settings) -> dict[str, Any]:
    """The `preprocess_cfg` of open_clip."""
    return {
        "size": [settings.image_size, settings.image_size],
        "mode": "RGB",
        "mean": list(MEAN),
        "std": list(STD),
        "interpolation": "bicubic",
        "resize_mode": "shortest",
    }


def build_tokenizer(settings: Settings) -> Tokenizer:
    """A lower-casing byte-level BPE: no text can leave its vocabulary."""

    def texts() -> Iterator[str]:
        for index in range(6_000):
            scene = sample_scene("train", settings.seed, index)
            yield from captions(scene, generator("train", settings.seed, index, "captions"))
        yield from top_n_list("en", 12_000)

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts(),
        trainers.BpeTrainer(
            vocab_size=settings.vocabulary,
            special_tokens=[PAD, START, END],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}",
        pair=f"{START} $A {END} $B {END}",
        special_tokens=[(START, 1), (END, 2)],
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """The two files that `transformers.AutoTokenizer` needs."""
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": CONTEXT_LENGTH,
        "pad_token": PAD,
        "bos_token": START,
        "eos_token": END,
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", config)


def write_json(path: Path, content: Any) -> None:
    """Indented JSON with a final newline."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def pixels(split: Split, seed: int, index: int, size: int) -> NDArray[np.uint8]:
    """uint8 [size, size, 3]: a scene's picture after the model's resize (bicubic, on the Pillow image)."""
    scene = sample_scene(split, seed, index)
    picture = render(scene, generator(split, seed, index, "picture"))
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC))


def render_part(first: int, last: int, settings: Settings, path: Path) -> int:
    """Render scenes [first, last) into the memory-mapped file; returns how many."""
    shape = (settings.scenes, settings.image_size, settings.image_size, 3)
    images = np.memmap(path, dtype=np.uint8, mode="r+", shape=shape)
    for index in range(first, last):
        images[index] = pixels("train", settings.seed, index, settings.image_size)
    images.flush()
    return last - first


def training_images(settings: Settings, work: Path, processes: int) -> NDArray[np.uint8]:
    """uint8 [scenes, size, size, 3], memory-mapped; rendered unless the work folder has them already."""
    shape = (settings.scenes, settings.image_size, settings.image_size, 3)
    path = work / f"images-{settings.seed}-{settings.scenes}-{settings.image_size}.u8"
    done = path.with_suffix(".done")
    if not done.exists():
        np.memmap(path, dtype=np.uint8, mode="w+", shape=shape).flush()
        starts = range(0, settings.scenes, 1_000)
        ends = [min(start + 1_000, settings.scenes) for start in starts]
        with ProcessPoolExecutor(processes) as pool:
            list(pool.map(partial(render_part, settings=settings, path=path), starts, ends))
        done.touch()
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)


def token_ids(tokenizer: Tokenizer, texts: list[str]) -> NDArray[np.int16]:
    """int16 [texts, CONTEXT_LENGTH], padded with 0."""
    ids = np.zeros((len(texts), CONTEXT_LENGTH), dtype=np.int16)
    for row, encoding in zip(ids, tokenizer.encode_batch(texts), strict=True):
        if len(encoding.ids) > CONTEXT_LENGTH:
            raise ValueError(f"caption of {len(encoding.ids)} tokens, at most {CONTEXT_LENGTH} expected")
        row[: len(encoding.ids)] = encoding.ids
    return ids


def training_tokens(settings: Settings, tokenizer: Tokenizer) -> NDArray[np.int16]:
    """int16 [scenes, captions_per_scene, CONTEXT_LENGTH]."""
    parts = []
    for first in range(0, settings.scenes, 5_000):
        texts: list[str] = []
        for index in range(first, min(first + 5_000, settings.scenes)):
            scene = sample_scene("train", settings.seed, index)
            rng = generator("train", settings.seed, index, "captions")
            texts.extend(wordings(scene, rng, settings.captions_per_scene))
        parts.append(token_ids(tokenizer, texts))
    return np.concatenate(parts).reshape(settings.scenes, settings.captions_per_scene, CONTEXT_LENGTH)


def as_input(images: NDArray[np.uint8]) -> torch.Tensor:
    """float32 [n, 3, size, size], normalised as `preprocess_config` says."""
    tensor = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
    return (tensor.float() / 255 - 0.5) / 0.5


def text_features(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """`encode_text` of open_clip on a batch cut to its longest caption (the mask is causal: no change)."""
    length = int((tokens != 0).sum(dim=1).max())
    tokens = tokens[:, :length]
    hidden = model.token_embedding(tokens) + model.positional_embedding[:length]
    hidden = model.ln_final(model.transformer(hidden, attn_mask=model.attn_mask[:length, :length]))
    ends = (tokens == 2).int().argmax(dim=1)
    return hidden[torch.arange(len(tokens)), ends] @ model.text_projection


def test_set(settings: Settings, tokenizer: Tokenizer) -> tuple[NDArray[np.uint8], NDArray[np.int16]]:
    """The demo's test corpus (seed 0): uint8 [n, size, size, 3] and int16 [n * 5, CONTEXT_LENGTH]."""
    images, texts = [], []
    for index in range(settings.test_images):
        images.append(pixels("test", 0, index, settings.image_size))
        texts.extend(captions(sample_scene("test", 0, index), generator("test", 0, index, "captions")))
    return np.stack(images), token_ids(tokenizer, texts)


@torch.no_grad()
def recall(model: Any, images: NDArray[np.uint8], tokens: NDArray[np.int16]) -> dict[str, float]:
    """R@1 in percent: i2t (the best of five captions is first), t2i."""
    model.eval()
    seen = torch.cat([model.encode_image(as_input(images[i : i + 250])) for i in range(0, len(images), 250)])
    rows = torch.from_numpy(tokens.astype(np.int64))
    read = torch.cat([model.encode_text(rows[i : i + 500]) for i in range(0, len(rows), 500)])
    model.train()
    scores = functional.normalize(seen, dim=-1) @ functional.normalize(read, dim=-1).T
    each = len(tokens) // len(images)
    found = scores.argmax(dim=1) // each == torch.arange(len(images))
    sought = scores.argmax(dim=0) == torch.arange(len(tokens)) // each
    return {
        "i2t_recall@1": round(100 * found.double().mean().item(), 2),
        "t2i_recall@1": round(100 * sought.double().mean().item(), 2),
    }


def save_checkpoint(model: Any, tokenizer: Tokenizer, settings: Settings, folder: Path) -> None:
    """A `local-dir:` folder of open_clip, its weights in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in model.state_dict().items()
    }
    (folder / "open_clip_model.safetensors").write_bytes(to_bytes(weights))
    config = {"model_cfg": model_config(settings), "preprocess_cfg": preprocess_config(settings)}
    write_json(folder / "open_clip_config.json", config)
    save_tokenizer(tokenizer, folder)


def parameter_groups(model: Any, decay: float) -> list[dict[str, Any]]:
    """Matrices decay, vectors and scalars do not."""
    named = list(model.parameters())
    return [
        {"params": [p for p in named if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in named if p.ndim < 2], "weight_decay": 0.0},
    ]


def learning_rate(step: int, settings: Settings) -> float:
    """Linear warm-up, then half a cosine to zero; `step` counts from 1."""
    if step <= settings.warmup:
        return settings.learning_rate * step / settings.warmup
    share = (step - settings.warmup) / (settings.steps - settings.warmup)
    return settings.learning_rate * 0.5 * (1 + float(np.cos(np.pi * share)))


class Log:
    """JSON Lines, flushed a line at a time, and the same on the terminal."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, **fields: Any) -> None:
        """One line."""
        line = json.dumps(fields)
        print(line, flush=True)
        self._file.write(line + "\n")
        self._file.flush()


def train(settings: Settings, work: Path, out: Path, log: Log, processes: int) -> None:
    """The run: see the head of this file."""
    torch.manual_seed(settings.seed)
    rng = np.random.default_rng([settings.seed, 77])
    tokenizer = build_tokenizer(settings)
    started = time.perf_counter()
    images = training_images(settings, work, processes)
    tokens = training_tokens(settings, tokenizer)
    test_images, test_tokens = test_set(settings, tokenizer)
    log.write(event="data", seconds=round(time.perf_counter() - started, 1), images=list(images.shape))

    model = open_clip.model.CLIP(**model_config(settings)).to(memory_format=torch.channels_last).train()
    log.write(event="model", parameters=sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(parameter_groups(model, settings.weight_decay), betas=(0.9, 0.98))
    labels = torch.arange(settings.batch)
    started, losses, order = time.perf_counter(), [], np.empty(0, dtype=np.int64)
    for step in range(1, settings.steps + 1):
        if len(order) < settings.batch:
            order = rng.permutation(settings.scenes)
        rows, order = np.sort(order[: settings.batch]), order[settings.batch :]
        chosen = rng.integers(settings.captions_per_scene, size=settings.batch)
        batch_images = as_input(images[rows]).to(memory_format=torch.channels_last)
        batch_tokens = torch.from_numpy(tokens[rows, chosen].astype(np.int64))
        rate = learning_rate(step, settings)
        for group in optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", dtype=torch.bfloat16):
            seen, read = model.encode_image(batch_images), text_features(model, batch_tokens)
        seen, read = functional.normalize(seen.float(), dim=-1), functional.normalize(read.float(), dim=-1)
        logits = model.logit_scale.exp() * seen @ read.T
        loss = (functional.cross_entropy(logits, labels) + functional.cross_entropy(logits.T, labels)) / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, float(np.log(100)))
        losses.append(loss.item())
        if step % 50 == 0:
            log.write(
                event="step",
                step=step,
                loss=round(float(np.mean(losses)), 4),
                learning_rate=round(rate, 7),
                scale=round(model.logit_scale.exp().item(), 2),
                seconds=round(time.perf_counter() - started, 1),
            )
            losses = []
        if step in settings.keep:
            log.write(event="test", step=step, **recall(model, test_images, test_tokens))
        if step in settings.keep:
            save_checkpoint(model, tokenizer, settings, out / f"step-{step:05d}")
    log.write(event="end", seconds=round(time.perf_counter() - started, 1))


def main() -> None:
    """Command line: every setting is an option."""
    parser = argparse.ArgumentParser(description="Train the demo checkpoints.")
    here = Path(__file__).resolve().parent
    for name, default in asdict(Settings()).items():
        option = "--" + name.replace("_", "-")
        if isinstance(default, tuple):
            parser.add_argument(option, type=int, nargs="+", default=list(default))
        else:
            parser.add_argument(option, type=type(default), default=default)
    parser.add_argument("--out", type=Path, default=here.parent / "engine" / "demo" / "checkpoints")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "itrstress-train-demo")
    parser.add_argument("--log", type=Path, default=here / "train_demo_log.jsonl")
    parser.add_argument("--processes", type=int, default=2)
    arguments = vars(parser.parse_args())
    out, work, log_path = arguments.pop("out"), arguments.pop("work"), arguments.pop("log")
    processes = arguments.pop("processes")
    settings = Settings(**{k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()})
    work.mkdir(parents=True, exist_ok=True)
    for old in out.glob("step-*"):
        shutil.rmtree(old)
    packages = ("torch", "open_clip_torch", "tokenizers", "transformers", "numpy", "Pillow", "wordfreq")
    log = Log(log_path)
    log.write(
        event="settings",
        **asdict(settings),
        versions={"python": platform.python_version(), **{name: version(name) for name in packages}},
    )
    torch.set_num_threads(processes)
    train(settings, work, out, log, processes)


if __name__ == "__main__":
    main()
