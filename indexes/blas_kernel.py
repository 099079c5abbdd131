"""Which matrix kernel OpenBLAS uses, chosen before numpy or FAISS load it.

The FAISS wheels bundle OpenBLAS 0.3.15 (2021). It recognises processors by vendor, family and model, so
anything newer than itself falls to a kernel of 2006-2008 ("Prescott" on Intel, "Barcelona" on AMD) whatever
the processor can do. The remedy is `OPENBLAS_CORETYPE`, which OpenBLAS reads once, when its library is
loaded (and a name that it does not know, such as a newer "Sapphirerapids", gives "Prescott" again).
`choose_kernel` sets it from what the processor can do, not from who made it; a value of the user's always
wins.

What OpenBLAS would have picked cannot be known without loading it, so the choice is made so that it can do
no harm: both names are known to every OpenBLAS since 0.3.0, need exactly the instructions that were found,
and are what OpenBLAS itself picks for the processors that it does know (Zen is Haswell's matrix kernel
under another name, and numpy's newer OpenBLAS runs SkylakeX on Zen 5).

Measured with `IndexFlatIP.search`, 1,024 queries x 20,000 rows x 512 dimensions, on two cores of an AMD Zen
5 (EPYC, family 26): Barcelona (the default there) 110 GFLOP/s, Haswell 245, SkylakeX 410. The library of
numpy 2.4 (OpenBLAS 0.3.31) chooses SkylakeX by itself.

This module imports neither numpy nor FAISS when it is loaded; `indexes/__init__.py` calls `choose_kernel`
first of all.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VARIABLE = "OPENBLAS_CORETYPE"

# OpenBLAS kernel -> the processor flags (as in /proc/cpuinfo) that it needs; the first that fits is the best
KERNELS: Mapping[str, frozenset[str]] = {
    "SkylakeX": frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd", "avx2", "fma"}),
    "Haswell": frozenset({"avx2", "fma"}),
}


@dataclass(frozen=True)
class KernelChoice:
    """What was found and done about the OpenBLAS kernel.

    `fitting` is the best kernel for the processor (None where none is known to be better than OpenBLAS's
    own choice), `user_value` what the user had set (None when nothing), `applied` whether `fitting` was
    set, `loaded_before` which of numpy and faiss were loaded already (their OpenBLAS no longer reads the
    variable).
    """

    fitting: str | None
    user_value: str | None
    applied: bool
    loaded_before: tuple[str, ...]

    def __str__(self) -> str:
        """One line for a person."""
        if self.user_value is not None:
            advice = (
                f", {self.fitting} fits this processor" if self.fitting not in (None, self.user_value) else ""
            )
            return f"{VARIABLE}={self.user_value} was set by the user{advice}"
        if self.fitting is None:
            return f"{VARIABLE} left unset: not an x86-64 Linux machine with AVX2 or AVX-512"
        if not self.applied:
            return f"{VARIABLE} left unset: faiss was loaded before; import indexes first for {self.fitting}"
        late = (
            f", too late for {' and '.join(self.loaded_before)} (loaded before)" if self.loaded_before else ""
        )
        return f"{VARIABLE}={self.fitting} set from the processor's flags{late}"


@dataclass(frozen=True)
class LoadedKernel:
    """One BLAS library in this process: its file's name, its version, the kernel it runs, and its threads."""

    library: str
    version: str | None
    kernel: str | None
    threads: int

    def __str__(self) -> str:
        """One line for a person."""
        return (
            f"{self.library} {self.version or '?'}: {self.kernel or 'kernel unknown'}, {self.threads} threads"
        )


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The processor's feature flags; empty where it is not x86-64 Linux or the file cannot be read.

    The kernel lists AVX-512 only where the operating system saves its registers, so a flag means that it
    can be used.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = cpuinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def fitting_kernel(flags: frozenset[str]) -> str | None:
    """The best OpenBLAS kernel that these flags allow, None when there is none in `KERNELS`."""
    return next((kernel for kernel, needed in KERNELS.items() if needed <= flags), None)


def apply_choice(
    flags: frozenset[str], environment: MutableMapping[str, str], loaded: tuple[str, ...]
) -> KernelChoice:
    """Set the kernel in `environment` unless the user did or FAISS is loaded already; say what was done."""
    fitting = fitting_kernel(flags)
    user_value = environment.get(VARIABLE) or None
    applied = fitting is not None and user_value is None and "faiss" not in loaded
    if applied and fitting is not None:
        environment[VARIABLE] = fitting
    return KernelChoice(fitting, user_value, applied, loaded)


@cache
def choose_kernel() -> KernelChoice:
    """Choose for this process, once; later calls return the first record. Children inherit the variable."""
    loaded = tuple(name for name in ("numpy", "faiss") if name in sys.modules)
    return apply_choice(processor_flags(), os.environ, loaded)


def loaded_kernels() -> tuple[LoadedKernel, ...]:
    """Import FAISS, then ask every BLAS in the process which kernel it runs; sorted by file name."""
    importlib.import_module("faiss")
    threadpoolctl = importlib.import_module("threadpoolctl")
    found = [
        LoadedKernel(
            Path(info["filepath"]).name, info["version"], info.get("architecture"), info["num_threads"]
        )
        for info in threadpoolctl.threadpool_info()
        if info["user_api"] == "blas"
    ]
    return tuple(sorted(found, key=lambda kernel: kernel.library))
