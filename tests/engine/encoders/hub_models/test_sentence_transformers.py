"""CLIP models in the layouts of sentence-transformers: the same rows as the model inside."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.encoders.needed_files import needed_files
from engine.encoders.registry import open_encoder
from engine.errors import InputError

TEXTS = ["a dog", "two red cats", "a red hat " * 30]
OLD = {"path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
NEW = {"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}
NORMALIZE = {"path": "1_Normalize", "type": "sentence_transformers.models.Normalize"}


@pytest.fixture
def make(saved: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """``make(modules)`` is a folder with these modules, the first of them a CLIP model."""

    def build(*modules: Any, settings: Any = None, name: str = "model") -> Path:
        root = tmp_path / name
        root.mkdir()
        shutil.copytree(saved("clip"), root / modules[0]["path"], dirs_exist_ok=True)
        listed = [{"idx": n, "name": str(n), **module} for n, module in enumerate(modules)]
        (root / "modules.json").write_text(json.dumps(listed))
        if settings is not None:
            (root / "config_sentence_transformers.json").write_text(json.dumps(settings))
        return root

    return build


def line(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("modules", [(OLD,), (NEW,), (OLD, NORMALIZE)])
def test_rows_are_those_of_the_model_inside(
    make: Callable[..., Path], saved: Callable[[str], Path], modules: Any
) -> None:
    encoder = open_encoder(f"sentence_transformers:{make(*modules)}", device="cpu")
    inside = open_encoder(f"transformers:{saved('clip')}", device="cpu")
    np.testing.assert_array_equal(encoder.encode_texts(TEXTS), inside.encode_texts(TEXTS))
    picture = Image.new("RGB", (40, 30), "red")
    rows = [one.encode_images([one.prepare_image(picture)]) for one in (encoder, inside)]
    np.testing.assert_array_equal(*rows)


def test_rows_are_those_of_sentence_transformers_itself(make: Callable[..., Path]) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = make({**OLD, "path": ""})
    model = library.SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    encoder = open_encoder(f"sentence_transformers:{folder}", device="cpu")
    wanted = model.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode_texts(TEXTS), wanted, atol=1e-6)


def test_a_length_of_their_own_is_kept(make: Callable[..., Path]) -> None:
    folder = make(OLD)
    (folder / "0_CLIPModel" / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')
    encoder: Any = open_encoder(f"sentence_transformers:{folder}", device="cpu")
    assert encoder.is_cut(["a dog", "a red dog", "a dog a cat"]).tolist() == [False, False, True]


def test_a_name_without_an_owner_is_one_of_theirs(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: list[Any]
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    message = line(lambda: open_encoder("sentence_transformers:clip-ViT-B-32"))
    assert "`hf download sentence-transformers/clip-ViT-B-32`" in message
    repository = tmp_path / "hub" / "models--sentence-transformers--clip-ViT-B-32"
    shutil.copytree(make(OLD), repository / "snapshots" / ("1" * 40))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("1" * 40)
    assert open_encoder("sentence_transformers:clip-ViT-B-32", device="cpu").dim == 24
    assert no_sockets == []


@pytest.mark.parametrize(
    ("modules", "settings", "words"),
    [
        ((OLD, {"path": "1_Dense", "type": "x.Dense"}), None, "CLIPModel, Dense; expected a CLIP model"),
        (({**OLD, "type": "x.BoW"},), None, "the modules are BoW"),
        ((OLD,), {"default_prompt_name": "query"}, "puts the prompt 'query' before every text"),
    ],
)
def test_a_model_that_is_more_than_two_towers_is_refused(
    make: Callable[..., Path], modules: Any, settings: Any, words: str
) -> None:
    folder = make(*modules, settings=settings)
    assert words in line(lambda: open_encoder(f"sentence_transformers:{folder}"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a list of modules"),
        ("[3]", "not a list of modules"),
        (json.dumps([{**OLD, "path": "../other"}]), "the path of the model is '../other'"),
        (json.dumps([{**OLD, "path": None}]), "the path of the model is None"),
    ],
)
def test_a_list_of_modules_that_is_none_is_named(make: Callable[..., Path], content: str, words: str) -> None:
    folder = make(OLD)
    (folder / "modules.json").write_text(content)
    message = line(lambda: open_encoder(f"sentence_transformers:{folder}"))
    assert words in message
    assert "modules.json" in message
    (folder / "modules.json").unlink()
    assert "lacks the list of modules" in line(lambda: open_encoder(f"sentence_transformers:{folder}"))


def test_its_files_are_named(make: Callable[..., Path], no_sockets: list[Any]) -> None:
    folder = make(OLD)
    (folder / "0_CLIPModel" / "tokenizer.json").unlink()
    found = needed_files(f"sentence_transformers:{folder}")
    assert found is not None
    assert [(file.what, file.there) for file in found if not file.there] == [("tokenizer", False)]
    assert f"{folder}/0_CLIPModel/config.json" in [file.where for file in found]
    (missing,) = needed_files("sentence_transformers:no-such-model") or []
    assert "`hf download sentence-transformers/no-such-model` gets it" in missing.where
    assert no_sockets == []
