"""open_clip models from files and folders: what they compute, what is refused, nothing fetched."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from engine.encoders.needed_files import needed_files
from engine.encoders.open_clip_source import find_source
from engine.encoders.open_clip_tokenizer import build_tokenizer, is_cut, is_padded, token_rows
from engine.encoders.preprocess import parse_preprocess
from engine.encoders.registry import check_model, open_encoder
from engine.encoders.request import EncoderRequest
from engine.errors import InputError

TOLERANCE = 1e-6
LONG = "a very long text that does not fit into the context of the model at all"


def pictures(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(7)
    sizes = [(40, 32), (32, 48), (64, 64)]
    return [Image.fromarray(rng.integers(0, 256, (*sizes[i % 3], 3), dtype=np.uint8)) for i in range(count)]


def texts(count: int) -> list[str]:
    return [f"{'x' * (i % 15)} number {i}" for i in range(count)]


def line(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def local(folder: Path, **options: Any) -> Any:
    return open_encoder(f"open_clip:local-dir:{folder}", device="cpu", **options)


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "open_clip_model.safetensors")


def replace_weights(folder: Path, content: Any) -> Path:
    (folder / "open_clip_model.safetensors").unlink()
    file = folder / "epoch_1.pt"
    torch.save(content, file)
    return file


def test_rows_are_those_of_open_clip_itself(tiny_model: Path) -> None:
    import open_clip

    encoder = local(tiny_model)
    model, transform = open_clip.create_model_from_pretrained(f"local-dir:{tiny_model}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tiny_model}")
    with torch.no_grad():
        wanted_texts = model.eval().encode_text(tokenizer([*texts(5), LONG]), normalize=True).numpy()
        wanted_images = model.encode_image(torch.stack([transform(p) for p in pictures(5)]), normalize=True)
    np.testing.assert_allclose(encoder.encode_texts([*texts(5), LONG]), wanted_texts, atol=TOLERANCE)
    found = encoder.encode_images([encoder.prepare_image(p) for p in pictures(5)])
    np.testing.assert_allclose(found, wanted_images.numpy(), atol=TOLERANCE)
    assert found.dtype == np.float32
    assert encoder.dim == 16
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=TOLERANCE)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_row_does_not_depend_on_its_batch(tiny_model: Path, size: int) -> None:
    reference, encoder = local(tiny_model, batch_size=1), local(tiny_model, batch_size=size)
    order = np.random.default_rng(size).permutation(70)
    words = texts(70)
    wanted = reference.encode_texts(words)
    np.testing.assert_allclose(encoder.encode_texts([words[i] for i in order]), wanted[order], atol=TOLERANCE)
    ready = [reference.prepare_image(picture) for picture in pictures(70)]
    wanted = reference.encode_images(ready)
    np.testing.assert_allclose(
        encoder.encode_images([ready[i] for i in order]), wanted[order], atol=TOLERANCE
    )


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_in_half_precision_a_row_does_not_depend_on_what_is_beside_it(
    tiny_model: Path, precision: str
) -> None:
    full, encoder = local(tiny_model), local(tiny_model, precision=precision, batch_size=16)
    words = texts(40)
    order = np.random.default_rng(0).permutation(40)
    rows = encoder.encode_texts(words)
    shuffled = encoder.encode_texts([words[i] for i in order])
    np.testing.assert_allclose(shuffled, rows[order], atol=TOLERANCE)
    np.testing.assert_allclose(encoder.encode_texts(words[3:4])[0], rows[3], atol=TOLERANCE)
    difference = np.abs(rows - full.encode_texts(words)).max()
    assert 0 < difference < 0.05
    assert encoder.fingerprint != full.fingerprint


def test_no_items_give_no_rows(tiny_model: Path) -> None:
    encoder = local(tiny_model)
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, 16)


def test_files_are_opened_without_a_connection(
    make_tiny_model: Callable[..., Path], no_sockets: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    encoder = local(make_tiny_model("local"))
    encoder.encode_texts(["a"])
    language = {"embed_dim": 16, "text_cfg": {"hf_model_name": "roberta-base", "hf_tokenizer_name": "x"}}
    text_tower = make_tiny_model("hub")
    document = json.loads((text_tower / "open_clip_config.json").read_text())
    document["model_cfg"] |= language
    (text_tower / "open_clip_config.json").write_text(json.dumps(document))
    assert "roberta-base" in line(lambda: local(text_tower))
    weights = make_tiny_model("siglip") / "open_clip_model.safetensors"
    (weights.parent / "open_clip_config.json").unlink()
    (weights.parent / "tokenizer.json").unlink()
    spec = f"open_clip:ViT-B-16-SigLIP:{weights}"
    assert "hf download timm/ViT-B-16-SigLIP" in line(lambda: open_encoder(spec, preprocess="inception"))
    assert no_sockets == []
    assert constants.HF_HUB_OFFLINE is False


def test_a_tag_that_cannot_be_had_says_where_it_was_looked_for(
    no_sockets: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    message = line(lambda: open_encoder("open_clip:ViT-B-32:openai", device="cpu"))
    assert "looked in" in message
    assert "hf download timm/vit_base_patch32_clip_224.openai" in message


def test_a_tag_without_a_network_fails_at_once(
    no_sockets: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    message = line(lambda: open_encoder("open_clip:ViT-B-32:openai", device="cpu"))
    assert "could not be downloaded" in message
    assert 1 <= len(no_sockets) <= 2
    assert "Retrying" not in capfd.readouterr().err


def test_a_bare_file_needs_a_named_preprocessing(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    torch.save({"a": torch.zeros(1)}, file)
    message = line(lambda: open_encoder(f"open_clip:ViT-B-32-quickgelu:{file}"))
    assert "--preprocess" in message
    assert "open_clip_config.json" in message


def test_a_bare_file_needs_a_named_activation(tmp_path: Path) -> None:
    """A file fine-tuned from OpenAI's weights fits both models key by key, and scores lower in one."""
    file = tmp_path / "epoch_1.pt"
    torch.save({"a": torch.zeros(1)}, file)
    message = line(lambda: check_model(f"open_clip:ViT-B-32:{file}", device="cpu", preprocess="openai"))
    assert "open_clip:ViT-B-32-quickgelu:FILE or open_clip:ViT-B-32-gelu:FILE" in message
    found = {}
    for name in ("ViT-B-32-gelu", "ViT-B-32-quickgelu", "roberta-ViT-B-32"):
        request = EncoderRequest("open_clip", name, str(file), preprocess="openai")
        found[name] = find_source(request).config.get("quick_gelu", False)
    assert found == {"ViT-B-32-gelu": False, "ViT-B-32-quickgelu": True, "roberta-ViT-B-32": True}
    needed = needed_files(f"open_clip:ViT-B-32:{file}") or []
    assert [(one.what, one.there) for one in needed] == [
        ("weights", True),
        ("preprocessing", False),
        ("activation", False),
    ]
    unknown = "open_clip:ViT-B-16-SigLIP-gelu:epoch_1.pt"
    assert "unknown open_clip model" in line(lambda: open_encoder(unknown))


def test_a_folder_without_preprocessing_needs_a_named_one(make_tiny_model: Callable[..., Path]) -> None:
    folder = make_tiny_model("bare", preprocess=None)
    assert "preprocess_cfg" in line(lambda: local(folder))
    named = local(folder, preprocess="inception")
    assert named.fingerprint != local(folder, preprocess="openai").fingerprint
    white = named.prepare_image(Image.new("RGB", (40, 30), "white"))
    assert white.shape == (3, 32, 32)
    np.testing.assert_allclose(white.numpy(), 1.0, atol=1e-6)


def test_preprocessing_names_take_settings() -> None:
    made = parse_preprocess("imagenet,resize=squash,interpolation=bilinear,std=1/1/1")
    assert (made.resize_mode, made.interpolation, made.std) == ("squash", "bilinear", (1.0, 1.0, 1.0))
    assert "did you mean 'imagenet'" in line(lambda: parse_preprocess("imagnet"))
    assert "did you mean 'resize'" in line(lambda: parse_preprocess("openai,resise=squash"))
    assert "squish" in line(lambda: parse_preprocess("openai,resize=squish"))
    assert "std" in line(lambda: parse_preprocess("openai,std=0/1/1"))
    assert "1/2" in line(lambda: parse_preprocess("openai,mean=1/2/x"))


@pytest.mark.parametrize("wrap", ["plain", "module.", "state_dict", "_orig_mod.module."])
def test_training_checkpoints_give_the_same_model(tiny_model: Path, wrap: str) -> None:
    wanted = local(tiny_model).fingerprint
    tensors = weights_of(tiny_model)
    if wrap == "state_dict":
        content: Any = {
            "epoch": 3,
            "name": "run",
            "state_dict": {f"module.{k}": v for k, v in tensors.items()},
        }
    else:
        content = {("" if wrap == "plain" else wrap) + name: tensor for name, tensor in tensors.items()}
    replace_weights(tiny_model, content)
    assert local(tiny_model).fingerprint == wanted


def test_half_precision_files_are_computed_in_full(make_tiny_model: Callable[..., Path]) -> None:
    full, half = local(make_tiny_model("full")), local(make_tiny_model("half", half=True))
    rows = half.encode_texts(texts(4))
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, full.encode_texts(texts(4)), atol=5e-3)
    assert half.fingerprint != full.fingerprint


def test_weights_must_fit(tiny_model: Path) -> None:
    tensors = weights_of(tiny_model)
    name = "visual.conv1.weight"
    changed: list[tuple[dict[str, torch.Tensor], str]] = [
        ({k: v for k, v in tensors.items() if k != name}, f"key '{name}' is missing"),
        ({**tensors, "visual.extra": torch.zeros(1)}, "key 'visual.extra' (shape [1]) is not expected"),
        ({**tensors, name: tensors[name][:-1].clone()}, f"key '{name}' has shape"),
        ({**tensors, name: tensors[name].to(torch.int8)}, f"key '{name}' is torch.int8"),
        ({**tensors, name: torch.full_like(tensors[name], float("nan"))}, f"key '{name}' holds NaN"),
        ({**tensors, "positional_embedding": torch.zeros(77, 16)}, "key 'positional_embedding' has shape"),
    ]
    for content, words in changed:
        save_file(content, tiny_model / "open_clip_model.safetensors")
        assert words in line(lambda: local(tiny_model))


def test_openai_weights_need_quick_gelu(make_tiny_model: Callable[..., Path]) -> None:
    openai = {"input_resolution": torch.tensor(32), "context_length": torch.tensor(12)}
    plain = make_tiny_model("plain")
    save_file({**weights_of(plain), **openai}, plain / "open_clip_model.safetensors")
    assert "-quickgelu" in line(lambda: local(plain))
    quick = make_tiny_model("quick", quick_gelu=True)
    wanted = local(quick)
    save_file({**weights_of(quick), **openai}, quick / "open_clip_model.safetensors")
    assert local(quick).fingerprint == wanted.fingerprint


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def test_a_checkpoint_that_would_run_code_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    file = replace_weights(tiny_model, {**weights_of(tiny_model), "evil": Evil(mark)})
    assert "refused" in line(lambda: local(tiny_model))
    file.write_bytes(pickle.dumps({"evil": Evil(mark)}))
    assert "epoch_1.pt: refused" in line(lambda: local(tiny_model))
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), file)
    assert "TorchScript" in line(lambda: local(tiny_model))
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_a_cut_off_checkpoint_is_named(tiny_model: Path, kind: str) -> None:
    file = tiny_model / "open_clip_model.safetensors"
    if kind == "pt":
        file = replace_weights(tiny_model, weights_of(tiny_model))
    whole = file.read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        message = line(lambda: local(tiny_model))
        assert str(file) in message
        assert "cut off" in message or "0 bytes" in message, message


def test_a_tokenizer_that_came_with_code_is_refused(tiny_model: Path) -> None:
    config = tiny_model / "open_clip_config.json"
    document = json.loads(config.read_text())
    document["model_cfg"]["text_cfg"]["tokenizer_kwargs"] = {"trust_remote_code": True}
    config.write_text(json.dumps(document))
    assert "trust_remote_code is not allowed" in line(lambda: local(tiny_model))


def test_a_tokenizer_of_another_model_is_refused(make_tiny_model: Callable[..., Path]) -> None:
    text = {"context_length": 12, "vocab_size": 300, "width": 16, "heads": 2, "layers": 1}
    assert "49,408 tokens" in line(lambda: local(make_tiny_model("clip", text_cfg=text)))


def test_clips_own_tokenizer_needs_no_files(make_tiny_model: Callable[..., Path]) -> None:
    text = {"context_length": 12, "vocab_size": 49408, "width": 8, "heads": 2, "layers": 1}
    folder = make_tiny_model("clip", text_cfg=text)
    (folder / "tokenizer.json").unlink()
    assert local(folder).encode_texts(["a dog", LONG]).shape == (2, 16)


def test_the_fingerprint_is_of_all_that_decides_a_row(make_tiny_model: Callable[..., Path]) -> None:
    base = local(make_tiny_model("base"))
    assert local(make_tiny_model("again")).fingerprint == base.fingerprint
    prints = {base.fingerprint}
    prints.add(local(make_tiny_model("weights", seed=1)).fingerprint)
    prints.add(local(make_tiny_model("activation", quick_gelu=True)).fingerprint)
    prints.add(local(make_tiny_model("images"), preprocess="openai").fingerprint)
    other = make_tiny_model("tokenizer")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Lowercase"}
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    prints.add(local(other).fingerprint)
    assert len(prints) == 5
    base.encode_texts(["a"])
    reopened = local(make_tiny_model("base"))
    reopened.encode_texts(["a b c"])
    assert reopened.fingerprint == base.fingerprint


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("open_clip", {}, "family:name[:weights]"),
        ("openclip:ViT-B-32:openai", {}, "did you mean 'open_clip'"),
        ("open_clip:ViTB32:openai", {}, "did you mean 'ViT-B-32'"),
        ("open_clip:ViT-B-32:opena", {}, "did you mean 'openai'"),
        ("open_clip:ViT-B-32", {}, "names no weights"),
        ("open_clip:ViT-B-32:missing.pt", {}, "neither a file nor a published tag"),
        ("open_clip:local-dir:nowhere", {}, "no such folder"),
        ("open_clip:local-dir:x", {"precision": "fp17"}, "did you mean 'fp16'"),
        ("open_clip:local-dir:x", {"device": "gpu"}, "unknown device 'gpu'"),
        ("open_clip:local-dir:x", {"device": "cuda:99"}, "is not there"),
        ("open_clip:local-dir:x", {"batch_size": 0}, "batch size of 0"),
    ],
)
def test_what_cannot_be_asked_for(spec: str, options: dict[str, Any], words: str) -> None:
    assert words in line(lambda: open_encoder(spec, **options))


def test_a_family_from_a_plug_in_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from engine.encoders import registry

    points = [
        EntryPoint("mine", "engine.encoders.open_clip:open_family", registry.ENTRY_POINT_GROUP),
        EntryPoint("broken", "no_such_package_anywhere:open_family", registry.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert registry.find_family("mine") is registry.find_family("open_clip")
    assert "did you mean 'mine'" in line(lambda: registry.find_family("mime"))
    assert "'broken' cannot be loaded: its import raised ModuleNotFoundError" in line(
        lambda: registry.find_family("broken")
    )


def test_batch_size_is_part_of_a_half_precision_fingerprint_only(tiny_model: Path) -> None:
    def fingerprint(precision: str, size: int) -> str:
        return open_encoder(
            f"open_clip:local-dir:{tiny_model}", precision=precision, batch_size=size, device="cpu"
        ).fingerprint

    assert fingerprint("fp32", 4) == fingerprint("fp32", 64)
    assert fingerprint("bf16", 4) != fingerprint("bf16", 64)
    assert fingerprint("bf16", 4) == fingerprint("bf16", 4) != fingerprint("fp32", 4)


LENGTHS = ("", "abc", *("a" * n for n in range(7, 13)), *("a " * n for n in range(7, 13)))
# what cleaning makes a mark of, and what ends as padding does
MARKED = (
    "<pad>" * 3,
    "a" * 8 + "<pad>" * 3,
    "a" * 20 + "<pad><pad>",
    "a" * 8 + "&lt;pad&gt;&lt;pad&gt;",
    "a" * 8 + "\uff1cpad>" * 3,
)
AT_THE_END = ("a" * 9 + "!", "a" * 10 + "!!", "caf\u00e9" * 3, "[SEP]" * 20)


@pytest.mark.parametrize("kind", ["own", "left", "sep", "clips", "clip"])
def test_a_text_is_cut_when_the_tokenizer_would_give_more(
    make_tiny_model: Callable[..., Path], kind: str
) -> None:
    """Most texts need not be tokenised again to know it; what is said is the same as if all were."""
    folder = make_tiny_model("model")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"bos_token": "<start>", "cls_token": "<start>", "sep_token": "<end>"}
    settings |= {"padding_side": "left"} if kind == "left" else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config: dict[str, Any] = {"context_length": 12, "hf_tokenizer_name": "local"}
    config |= {"tokenizer_mode": "clips"} if kind == "clips" else {}
    config |= {"tokenizer_kwargs": {"strip_sep_token": True}} if kind == "sep" else {}
    tokenizer = build_tokenizer(config if kind != "clip" else {"context_length": 12}, folder, "it")
    captions = [*LENGTHS, *MARKED, *AT_THE_END]
    rows = token_rows(tokenizer, captions)

    if kind == "clip":
        whole = [len(tokenizer.encode(text)) + 2 for text in captions]
    else:
        inner, marks = tokenizer.tokenizer, kind != "clips"
        cleaned = [tokenizer.clean_fn(text) for text in captions]
        whole = [
            len(inner(text, add_special_tokens=marks)["input_ids"]) + 3 * (not marks) for text in cleaned
        ]
    assert [is_cut(tokenizer, *one) for one in zip(captions, rows, strict=True)] == [n > 12 for n in whole]
    known = [is_padded(tokenizer, *one) for one in zip(captions, rows, strict=True)]
    assert known[:3] == [kind != "left"] * 3


def test_texts_that_are_cut_are_named(
    make_tiny_model: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    """With a tokenizer of its own (12 tokens, one a letter), and with CLIP's; no library warns of it."""
    own = local(make_tiny_model("own"))
    own._tokenizer.tokenizer.model_max_length = 12
    monitored = logging.getLogger("transformers.tokenization_utils_base")
    monitored.addHandler(caplog.handler)
    exact = "x" * 10
    assert own.is_cut([exact, exact + "x", ""]).tolist() == [False, True, False]
    text = {"context_length": 12, "vocab_size": 49408, "width": 8, "heads": 2, "layers": 1}
    folder = make_tiny_model("clip", text_cfg=text)
    (folder / "tokenizer.json").unlink()
    words = "dog " * 10
    assert local(folder).is_cut([words, words + "dog", "a" * 200]).tolist() == [False, True, True]
    monitored.removeHandler(caplog.handler)
    assert not caplog.records
