"""Models of transformers from folders and the hub's cache: the library's own rows, nothing fetched or run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file

from engine.encoders.registry import check_model, open_encoder
from engine.errors import InputError

TOLERANCE = 1e-6
TEXTS = ["a dog", "two red cats, 1 man", "A", "a red hat " * 30, "x"]
LIMITS = {
    "clip": 12,
    "groupvit": 12,
    "siglip": 10,
    "siglip2": 64,
    "align": 64,
    "altclip": 19,
    "blip": 20,
    "blip_plain": 20,
    "chinese_clip": 20,
}
PADDED = ("siglip", "siglip2")
MATRIX_ONLY = ("blip",)  # the library gives no embeddings, but their products


@pytest.fixture
def copied(saved: Callable[[str], Path], tmp_path: Path) -> Path:
    """A CLIP model of one's own to break."""
    return Path(shutil.copytree(saved("clip"), tmp_path / "clip"))


def pictures(count: int = 5) -> list[Image.Image]:
    rng = np.random.default_rng(7)
    sizes = [(40, 32), (32, 48), (64, 64)]
    return [Image.fromarray(rng.integers(0, 256, (*sizes[i % 3], 3), dtype=np.uint8)) for i in range(count)]


def local(folder: Path, **options: Any) -> Any:
    return open_encoder(f"transformers:{folder}", device="cpu", **options)


def encode(encoder: Any, texts: list[str] = TEXTS) -> tuple[np.ndarray, np.ndarray]:
    images = [encoder.prepare_image(picture) for picture in pictures()]
    return encoder.encode_images(images), encoder.encode_texts(texts)


def line(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def library_output(name: str, folder: Path) -> Any:
    """What the library itself makes of `TEXTS` and `pictures()`, all in one padded batch."""
    kind = json.loads((folder / "config.json").read_text())["architectures"][0]
    model = getattr(transformers, kind).from_pretrained(folder, torch_dtype=torch.float32).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        TEXTS,
        padding="max_length" if name in PADDED else True,
        truncation=True,
        max_length=LIMITS[name],
        return_tensors="pt",
    )
    if name.startswith("blip"):
        tokens.pop("token_type_ids", None)
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(images=pictures(), return_tensors="pt")
    with torch.no_grad():
        return model(**tokens, **pixels, **({"use_itm_head": False} if name in MATRIX_ONLY else {}))


@pytest.mark.parametrize("name", LIMITS)
def test_rows_are_those_of_the_library_itself(name: str, saved: Callable[[str], Path]) -> None:
    wanted = library_output(name, saved(name))
    encoder = local(saved(name))
    images, texts = encode(encoder)
    assert images.dtype == texts.dtype == np.float32
    assert images.shape == texts.shape == (5, encoder.dim)
    if name in MATRIX_ONLY:
        np.testing.assert_allclose(images @ texts.T, wanted.itm_score.numpy(), atol=TOLERANCE)
        return
    np.testing.assert_allclose(texts, wanted.text_embeds.numpy(), atol=TOLERANCE)
    np.testing.assert_allclose(images, wanted.image_embeds.numpy(), atol=TOLERANCE)
    assert np.ptp(texts, axis=0).max() > 0.01
    assert np.ptp(images, axis=0).max() > 0.01


@pytest.mark.parametrize("name", LIMITS)
def test_a_row_does_not_depend_on_its_batch(name: str, saved: Callable[[str], Path]) -> None:
    wanted = encode(local(saved(name), batch_size=1))
    for size in (2, 64):
        for rows, one_by_one in zip(encode(local(saved(name), batch_size=size)), wanted, strict=True):
            np.testing.assert_allclose(rows, one_by_one, atol=TOLERANCE)
    _, turned = encode(local(saved(name)), TEXTS[::-1])
    np.testing.assert_allclose(turned[::-1], wanted[1], atol=TOLERANCE)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", ["clip", "siglip2", "align"])
def test_in_half_precision_a_row_does_not_depend_on_what_is_beside_it(
    name: str, precision: str, saved: Callable[[str], Path]
) -> None:
    full, encoder = local(saved(name)), local(saved(name), precision=precision, batch_size=4)
    images, texts = encode(encoder)
    np.testing.assert_array_equal(encoder.encode_texts([TEXTS[1]])[0], texts[1])
    np.testing.assert_array_equal(encoder.encode_images([encoder.prepare_image(pictures()[2])])[0], images[2])
    assert 0 < np.abs(texts - full.encode_texts(TEXTS)).max() < 0.1
    assert encoder.fingerprint != full.fingerprint


@pytest.mark.parametrize("name", LIMITS)
def test_texts_are_cut_at_the_context_of_the_model(name: str, saved: Callable[[str], Path]) -> None:
    encoder = local(saved(name))
    assert encoder.is_cut(TEXTS).tolist() == [False, False, False, True, False]
    beyond = "a red hat " * 30 + "dog"
    np.testing.assert_allclose(*encoder.encode_texts([TEXTS[3], beyond]), rtol=0, atol=1e-6)
    assert f"cut at {LIMITS[name]} tokens" in encoder.description["texts"]


def test_no_items_give_no_rows(saved: Callable[[str], Path]) -> None:
    encoder = local(saved("clip"))
    assert encoder.encode_texts([]).shape == encoder.encode_images([]).shape == (0, 24)


# ---------------------------------------------------------------- names of the hub


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def put_in_cache(hub: Path, name: str, folder: Path) -> Path:
    """The snapshot of a model in the cache's own layout."""
    repository = hub / f"models--{name.replace('/', '--')}"
    snapshot = repository / "snapshots" / ("0" * 40)
    shutil.copytree(folder, snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    return snapshot


def test_a_cached_name_is_opened_without_a_connection(
    saved: Callable[[str], Path], hub: Path, no_sockets: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    put_in_cache(hub, "owner/tiny-clip", saved("clip"))
    encoder = open_encoder("transformers:owner/tiny-clip", device="cpu")
    assert encoder.fingerprint == local(saved("clip")).fingerprint
    encode(encoder)
    assert no_sockets == []
    assert constants.HF_HUB_OFFLINE is False


def test_a_name_that_cannot_be_had_says_how_and_where(
    saved: Callable[[str], Path], hub: Path, no_sockets: list[Any]
) -> None:
    message = line(lambda: open_encoder("transformers:kakaobrain/align-base"))
    assert "`hf download kakaobrain/align-base`" in message
    assert f"looked in {hub}" in message
    assert "or give the folder's path" in message
    (put_in_cache(hub, "owner/part", saved("clip")) / "model.safetensors").unlink()
    assert "where the weights (model.safetensors" in line(lambda: open_encoder("transformers:owner/part"))


def test_a_name_is_downloaded_where_there_is_a_network(
    saved: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, hub: Path
) -> None:
    import huggingface_hub

    asked: list[Any] = []

    def download(name: str, **options: Any) -> str:
        if options.get("local_files_only"):
            raise huggingface_hub.errors.LocalEntryNotFoundError("not here")
        asked.append((name, options["allow_patterns"]))
        return str(saved("clip"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert open_encoder("transformers:owner/model", device="cpu").dim == 24
    assert [name for name, _ in asked] == ["owner/model"]
    assert not any("bin" in pattern for pattern in asked[0][1])  # no pickle where there are safetensors


# ---------------------------------------------------------------- other forms of the same weights


def test_pickled_and_sharded_weights_are_the_same_model(copied: Path) -> None:
    wanted = local(copied).fingerprint
    tensors = load_file(copied / "model.safetensors")
    (copied / "model.safetensors").unlink()
    torch.save(tensors, copied / "pytorch_model.bin")
    assert local(copied).fingerprint == wanted
    (copied / "pytorch_model.bin").unlink()
    shards = {name: f"model-{row % 2}.safetensors" for row, name in enumerate(tensors)}
    for shard in set(shards.values()):
        save_file({k: v for k, v in tensors.items() if shards[k] == shard}, copied / shard)
    index = copied / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": shards}))
    assert local(copied).fingerprint == wanted
    (copied / "model-1.safetensors").unlink()
    assert "lacks the weights model-1.safetensors" in line(lambda: local(copied))
    index.write_text(json.dumps({"weight_map": {"a": "../outside.safetensors"}}))
    assert "expected files of the same folder" in line(lambda: local(copied))


def test_half_precision_files_are_computed_in_full(copied: Path, saved: Callable[[str], Path]) -> None:
    tensors = {k: v.half() for k, v in load_file(copied / "model.safetensors").items()}
    save_file(tensors, copied / "model.safetensors")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"dtype": "float16", "torch_dtype": "float16"}))
    np.testing.assert_allclose(encode(local(copied))[1], encode(local(saved("clip")))[1], atol=5e-3)
    assert local(copied)._towers.network.dtype == torch.float32


def test_the_fingerprint_is_of_all_that_decides_a_row(copied: Path) -> None:
    def changed(file: str, **values: Any) -> str:
        before = (copied / file).read_text()
        (copied / file).write_text(json.dumps(json.loads(before) | values))
        found: str = local(copied).fingerprint
        (copied / file).write_text(before)
        return found

    base = local(copied).fingerprint
    assert changed("config.json", transformers_version="4.0.0", _name_or_path="elsewhere") == base
    prints = {
        base,
        changed("config.json", logit_scale_init_value=1.0),
        changed("preprocessor_config.json", image_mean=[0.1, 0.2, 0.3]),
        changed("tokenizer_config.json", model_max_length=8),
    }
    tensors = load_file(copied / "model.safetensors")
    save_file({**tensors, "logit_scale": tensors["logit_scale"] + 1}, copied / "model.safetensors")
    assert len(prints | {local(copied).fingerprint}) == 5


# ---------------------------------------------------------------- what is refused


def test_weights_must_fit(copied: Path) -> None:
    tensors = load_file(copied / "model.safetensors")
    name = "visual_projection.weight"
    deeper = {k.replace("layers.1.", "layers.2."): v.clone() for k, v in tensors.items() if "layers.1." in k}
    cases: list[tuple[dict[str, torch.Tensor], str]] = [
        ({k: v for k, v in tensors.items() if k != name}, f"key '{name}' is missing"),
        (
            {**tensors, name: tensors[name][:-1].clone()},
            f"'{name}' has shape [23, 32]; expected [24, 32]",
        ),
        ({**tensors, name: torch.full_like(tensors[name], float("nan"))}, f"key '{name}' holds NaN"),
        (tensors | deeper, "has no place: config.json says fewer layers"),
        ({"other.weight": torch.zeros(2)}, "is missing; expected the weights of CLIPModel"),
    ]
    for content, words in cases:
        save_file(content, copied / "model.safetensors")
        assert words in line(lambda: local(copied))
    save_file({**tensors, "head.weight": torch.zeros(2)}, copied / "model.safetensors")
    assert "1 tensors of the checkpoint, such as head.weight" in local(copied).description["not used"]


class Evil:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return Path.touch, (self.mark,)


def test_a_pickle_that_would_run_code_is_refused(copied: Path, tmp_path: Path) -> None:
    (copied / "model.safetensors").unlink()
    torch.save({"evil": Evil(tmp_path / "ran")}, copied / "pytorch_model.bin")
    assert "refused" in line(lambda: local(copied))
    assert not (tmp_path / "ran").exists()


def test_code_that_comes_with_a_model_is_not_run(copied: Path, tmp_path: Path) -> None:
    code = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    (copied / "modeling_mine.py").write_text(code)
    config = json.loads((copied / "config.json").read_text())
    mine = {"AutoConfig": "modeling_mine.Config", "AutoModel": "modeling_mine.Model"}
    (copied / "config.json").write_text(json.dumps(config | {"auto_map": mine, "model_type": "mine"}))
    assert "config.json: transformers" in line(lambda: local(copied))
    (copied / "config.json").write_text(json.dumps(config | {"auto_map": mine}))
    local(copied)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("size", [0, 5, 20_000])
def test_a_cut_off_file_is_named(copied: Path, size: int) -> None:
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    assert str(file) in line(lambda: local(copied))


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.json", None, "lacks the configuration (config.json)"),
        ("model.safetensors", None, "lacks the weights (model.safetensors or"),
        ("preprocessor_config.json", None, "lacks the image processor (preprocessor_config.json"),
        ("tokenizer.json", None, "lacks the tokenizer (tokenizer.json"),
        ("config.json", "{", "config.json: not valid JSON"),
        ("config.json", '{"model_type": "bert"}', "is no dual encoder; expected a model with"),
        ("config.json", '{"model_type": "no-such-model"}', "config.json: transformers"),
        ("preprocessor_config.json", "[]", "preprocessor_config.json: holds a JSON list; expected an object"),
        ("preprocessor_config.json", '{"image_processor_type": 3}', "the image processor cannot be read"),
        ("tokenizer.json", "{}", "the tokenizer cannot be read"),
    ],
)
def test_what_a_folder_lacks_is_named(copied: Path, file: str, content: str | None, words: str) -> None:
    (copied / file).unlink()
    if content is not None:
        (copied / file).write_text(content)
    message = line(lambda: local(copied))
    assert words in message
    assert str(copied) in message


@pytest.mark.parametrize(
    "file", ["config.json", "preprocessor_config.json", "tokenizer_config.json", "model.safetensors"]
)
def test_a_pipe_among_the_files_is_named_before_a_library_waits_for_it(copied: Path, file: str) -> None:
    (copied / file).unlink()
    os.mkfifo(copied / file)
    message = f"{copied / file} is a pipe; expected a file of the model; write its content to a file first"
    assert line(lambda: local(copied)) == message
    assert line(lambda: check_model(f"transformers:{copied}")) == message


def test_towers_of_different_dimensions_are_refused(saved: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved("siglip"), tmp_path / "siglip"))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["projection_size"] = 20
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    for name in ("text_model.head.weight", "text_model.head.bias"):
        tensors[name] = tensors[name][:20].clone()
    save_file(tensors, folder / "model.safetensors")
    message = line(lambda: local(folder))
    assert "vectors of shape [32], the text tower [20]; expected one space" in message


def test_a_tokenizer_of_another_model_is_refused(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    config["text_config"]["vocab_size"] = 9
    (copied / "config.json").write_text(json.dumps(config))
    tensors = load_file(copied / "model.safetensors")
    name = "text_model.embeddings.token_embedding.weight"
    save_file({**tensors, name: tensors[name][:9].clone()}, copied / "model.safetensors")
    assert "tokens, the model embeds 9; the tokenizer is of another model" in line(lambda: local(copied))


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("transformers:nowhere", {}, "neither a folder nor a name of the model hub"),
        ("transformers:./nowhere/x", {}, "neither a folder nor a name of the model hub"),
        ("transformers:/no/such/folder", {}, "neither a folder nor a name of the model hub"),
        ("transformers:owner/model:main", {}, "has a third part"),
        ("transformers:owner/model", {"preprocess": "openai"}, "leave --preprocess out"),
    ],
)
def test_what_cannot_be_asked_for(spec: str, options: dict[str, Any], words: str) -> None:
    assert words in line(lambda: open_encoder(spec, device="cpu", **options))


def test_what_is_wrong_is_said_before_anything_is_fetched_or_read(
    saved: Callable[[str], Path], copied: Path, hub: Path, no_sockets: list[Any]
) -> None:
    """`check_model` is what a sweep asks of all its models before it works."""
    check_model(f"transformers:{saved('clip')}", device="cpu")
    check_model("transformers:owner/model", device="cpu")
    (copied / "tokenizer.json").unlink()
    assert "lacks the tokenizer" in line(lambda: check_model(f"transformers:{copied}"))
    assert "has a third part" in line(lambda: check_model("transformers:owner/model:main"))
    assert "neither a folder nor a name" in line(lambda: check_model("transformers:nowhere"))
    wrong = line(lambda: check_model("sentence_transformers:clip-ViT-B-32", preprocess="openai"))
    assert "leave --preprocess out" in wrong
    assert no_sockets == []
