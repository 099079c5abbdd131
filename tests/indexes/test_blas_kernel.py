"""The OpenBLAS kernel is chosen by the processor's flags, before numpy and FAISS, unless the user chose."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from indexes import blas_kernel
from indexes.blas_kernel import VARIABLE, apply_choice, fitting_kernel, processor_flags

AVX2 = frozenset({"avx2", "fma", "sse2"})
AVX512 = AVX2 | {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}


def test_the_best_kernel_whose_every_flag_is_there():
    assert fitting_kernel(AVX512) == "SkylakeX"
    assert fitting_kernel(AVX512 - {"avx512vl"}) == "Haswell"
    assert fitting_kernel(AVX2 - {"fma"}) is None
    assert fitting_kernel(frozenset()) is None


def test_it_is_set_where_the_user_set_nothing():
    for environment in ({}, {VARIABLE: ""}):
        choice = apply_choice(AVX512, environment, ())
        assert environment == {VARIABLE: "SkylakeX"}
        assert choice.applied
        assert str(choice) == "OPENBLAS_CORETYPE=SkylakeX set from the processor's flags"


def test_the_user_wins():
    environment = {VARIABLE: "Haswell"}
    choice = apply_choice(AVX512, environment, ())
    assert environment == {VARIABLE: "Haswell"}
    assert not choice.applied
    assert str(choice) == "OPENBLAS_CORETYPE=Haswell was set by the user, SkylakeX fits this processor"


def test_nothing_is_set_without_a_fitting_kernel_or_after_faiss():
    environment: dict[str, str] = {}
    assert "left unset" in str(apply_choice(frozenset(), environment, ()))
    assert "faiss was loaded before" in str(apply_choice(AVX2, environment, ("numpy", "faiss")))
    assert environment == {}


def test_numpy_before_is_said():
    assert str(apply_choice(AVX2, {}, ("numpy",))).endswith("too late for numpy (loaded before)")


def test_flags_are_read_on_x86_linux_only(tmp_path, monkeypatch):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nvmx flags\t: x\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: other\n"
    )
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(blas_kernel.platform, "machine", lambda: "x86_64")
    assert processor_flags(cpuinfo) == {"fpu", "avx2", "fma"}
    assert processor_flags(tmp_path / "absent") == frozenset()
    (tmp_path / "empty").write_text("")
    assert processor_flags(tmp_path / "empty") == frozenset()
    monkeypatch.setattr(blas_kernel.platform, "machine", lambda: "aarch64")
    assert processor_flags(cpuinfo) == frozenset()
    monkeypatch.setattr(blas_kernel.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert processor_flags(cpuinfo) == frozenset()


def in_a_fresh_process(code, **environment):
    inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_importing_indexes_chooses_before_numpy_is_loaded():
    code = (
        "import os, sys, indexes; from indexes.blas_kernel import choose_kernel; "
        "print('numpy' in sys.modules, 'faiss' in sys.modules, "
        f"os.environ.get({VARIABLE!r}), choose_kernel().applied)"
    )
    expected = fitting_kernel(processor_flags())
    assert in_a_fresh_process(code) == ["False", "False", str(expected), str(expected is not None)]
    assert in_a_fresh_process(code, **{VARIABLE: "Nehalem"}) == ["False", "False", "Nehalem", "False"]


@pytest.mark.skipif(fitting_kernel(processor_flags()) is None, reason="no kernel to choose on this processor")
def test_the_libraries_run_the_chosen_kernel():
    code = (
        "from indexes.blas_kernel import loaded_kernels; "
        "print(*(f'{k.library}={k.kernel}' for k in loaded_kernels() if 'openblas' in k.library))"
    )
    found = in_a_fresh_process(code)
    assert found
    assert {item.split("=")[1] for item in found} == {fitting_kernel(processor_flags())}
