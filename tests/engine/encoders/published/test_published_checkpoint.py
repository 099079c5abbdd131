"""Reading and strict loading of checkpoints, with hostile and damaged files."""

from __future__ import annotations

import argparse
import os
import pickle
import types
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from engine.encoders.checkpoint import flat_weights, listed_weights, published_options, read_checkpoint
from engine.errors import InputError


class RunsCode:
    """A pickle of it would create a file while it is read."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


def module() -> nn.Module:
    return nn.Sequential(OrderedDict(fc=nn.Linear(3, 2), bn=nn.BatchNorm1d(2)))


def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {key: tensor.clone() for key, tensor in module().state_dict().items()}


def load(path: Path) -> nn.Module:
    built: nn.Module = flat_weights(read_checkpoint(path), "vsrn", path).build(module)
    return built


@pytest.mark.parametrize("zipped", [True, False])
def test_both_file_formats_and_the_options_of_the_authors_are_read(tmp_path: Path, zipped: bool) -> None:
    content = {"model": state(), "opt": argparse.Namespace(use_abs=True, nested={"a": [1]}), "epoch": 3}
    path = tmp_path / "model.pth"
    torch.save(content, path, _use_new_zipfile_serialization=zipped)

    checkpoint = read_checkpoint(path)

    assert published_options(checkpoint) == {"use_abs": True, "nested": {"a": [1]}}
    assert torch.equal(load(path).fc.weight, content["model"]["fc.weight"])


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path: Path, zipped: bool) -> None:
    target = tmp_path / "ran"
    path = tmp_path / "model.pth"
    torch.save({"model": RunsCode(target)}, path, _use_new_zipfile_serialization=zipped)

    with pytest.raises(InputError, match=r"model\.pth: refused: .*posix\.system.*could run code"):
        read_checkpoint(path)
    assert not target.exists()


def test_a_plain_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "ran"
    path = tmp_path / "model.pth"
    path.write_bytes(pickle.dumps({"model": RunsCode(target)}, protocol=2))

    with pytest.raises(InputError, match="refused"):
        read_checkpoint(path)
    assert not target.exists()


def test_a_class_other_than_namespace_is_refused_even_when_it_is_harmless(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"model": state(), "opt": Path("x")}, path)

    with pytest.raises(InputError, match=r"refused: .*pathlib"):
        read_checkpoint(path)


def test_allowing_namespace_does_not_last(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"opt": argparse.Namespace(a=1)}, path)
    read_checkpoint(path)

    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)


@pytest.mark.parametrize("zipped", [True, False])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(share=st.floats(0.0, 0.999))
def test_a_file_cut_off_anywhere_is_one_line_with_its_name(
    tmp_path: Path, zipped: bool, share: float
) -> None:
    path = tmp_path / "model.pth"
    torch.save({"model": state()}, path, _use_new_zipfile_serialization=zipped)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])

    with pytest.raises(InputError) as caught:
        read_checkpoint(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=80))
def test_no_bytes_give_anything_but_an_input_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(data)
    with pytest.raises(InputError):
        flat_weights(read_checkpoint(path), "vsrn", path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("missing.pth", None, "no such file"),
        ("empty.pth", b"", "empty"),
        ("text.pth", b"hello world\n" * 20, "torch cannot read it"),
        ("half.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", "cut off or damaged"),
    ],
)
def test_what_is_no_checkpoint_is_named(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_checkpoint(tmp_path / name)


class Python2Pickler(pickle._Pickler):
    """Writes text as Python 2 did: byte strings."""

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)

    def save_str(self, value: str) -> None:
        data = value.encode("latin1")
        self.write(b"U" + bytes([len(data)]) + data)
        self.memoize(value)

    dispatch[str] = save_str


def test_a_file_that_python_2_wrote_is_read(tmp_path: Path) -> None:
    """VSRN was trained with Python 2.7: the older format, with byte strings for keys and options."""
    python2 = types.ModuleType("python2")
    python2.__dict__.update({name: getattr(pickle, name) for name in pickle.__all__})
    python2.Pickler = Python2Pickler
    python2.dump = lambda value, file, protocol: Python2Pickler(file, protocol).dump(value)
    content = {"model": state(), "opt": argparse.Namespace(data_name="f30k_precomp")}
    path = tmp_path / "model.pth"
    torch.save(content, path, python2, 2, _use_new_zipfile_serialization=False)
    assert b"U\x05model" in path.read_bytes()

    assert published_options(read_checkpoint(path)) == {"data_name": "f30k_precomp"}
    assert torch.equal(load(path).fc.weight, content["model"]["fc.weight"])


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(nn.Linear(2, 2)).save(tmp_path / "script.pt")
    with pytest.raises(InputError, match="TorchScript archive is a program"):
        read_checkpoint(tmp_path / "script.pt")


def test_safetensors_and_a_bare_state_dict_hold_the_same_weights(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "model.safetensors")
    torch.save(state(), tmp_path / "model.pth")

    one, other = load(tmp_path / "model.safetensors"), load(tmp_path / "model.pth")

    assert all(
        torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def test_keys_under_module_and_half_precision_load_as_float32(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    halved = {f"module.{k}": t.half() if t.is_floating_point() else t for k, t in state().items()}
    torch.save({"model": halved}, path)

    loaded = load(path)

    assert loaded.fc.weight.dtype == torch.float32
    assert torch.equal(loaded.fc.weight, state()["fc.weight"].half().float())
    assert not loaded.training


def test_the_step_counter_of_batch_norms_may_be_missing_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    older = state()
    del older["bn.num_batches_tracked"]
    torch.save({"model": older}, path)
    load(path)

    del older["bn.running_mean"]
    torch.save({"model": older}, path)
    with pytest.raises(InputError, match=r"model\.pth: key 'bn\.running_mean' is missing"):
        load(path)


@pytest.mark.parametrize("key", sorted(module().state_dict()))
def test_every_key_counts(tmp_path: Path, key: str) -> None:
    path = tmp_path / "model.pth"
    changed = state()
    changed[key] = torch.ones(7, 7)
    torch.save({"model": changed}, path)
    with pytest.raises(InputError, match=rf"key '{key}' has shape \[7, 7\]; expected"):
        load(path)


def test_an_unexpected_key_and_a_value_that_is_no_tensor_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"model": {**state(), "extra.weight": torch.ones(1)}}, path)
    with pytest.raises(InputError, match=r"key 'extra\.weight' \(shape \[1\]\) is not expected"):
        load(path)
    torch.save({"model": {**state(), "fc.bias": "text"}}, path)
    with pytest.raises(InputError, match=r"key 'fc\.bias' holds a value of type str"):
        load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float) -> None:
    path = tmp_path / "model.pth"
    damaged = state()
    damaged["fc.weight"][1, 2] = value
    torch.save({"model": damaged}, path)
    with pytest.raises(InputError, match=r"key 'fc\.weight' holds NaN or infinite"):
        load(path)


def test_a_model_of_another_number_of_parts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"model": [state(), state(), state()]}, path)
    with pytest.raises(InputError, match=r"'model' is a list of 3; expected a list of 2 \(image, text\)"):
        listed_weights(read_checkpoint(path), "vsrn", path, ("image", "text"))
    with pytest.raises(InputError, match=r"'model' is a list of 3; expected one mapping"):
        flat_weights(read_checkpoint(path), "albef", path)
    torch.save({"weights": [state()]}, path)
    with pytest.raises(InputError, match=r"key 'model' is missing, found 'weights'"):
        flat_weights(read_checkpoint(path), "albef", path)


def test_reading_and_loading_draw_no_random_number(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"model": state()}, path)
    before = torch.random.get_rng_state()
    load(path)
    assert torch.equal(before, torch.random.get_rng_state())
