"""Which first pass is fastest on this machine: measured once, kept in the user's cache folder.

A probe multiplies one tile in every precision that the device has and keeps the best of a few runs; it takes
some milliseconds. On a processor one core does it, as in a search, so what other cores do disturbs it little.
What it found is kept in a JSON file whose name holds a hash of what it depends on: the processor and its
flags, or the GPU, the versions of torch and numpy, and the variables that change which kernels they choose. A
file that cannot be read is measured again, one that cannot be written costs the next process a probe. The
choice changes the time of a search, never its answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from indexes.blas_kernel import processor_flags
from indexes.device_tiles import exact_products, product
from indexes.float32_products import HOST_VARIABLES, host_rounding
from indexes.prepared import PRECISIONS

SHAPE = (256, 2048, 512)  # queries, rows, dimensions of the tile
GPU_SHAPE = (4096, 16384, 512)
RUNS = 9
GAIN = 1.25  # a low precision costs more rescored rows: it must be so much faster
VARIABLES = (
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "OPENBLAS_CORETYPE"),
    *HOST_VARIABLES,
)
LOW_ON_CPU = frozenset({"amx_bf16", "avx512_bf16"})
NUMPY = "numpy"  # a float32 product by numpy's BLAS instead of torch's

Rates = Mapping[str, float]


def cache_folder() -> Path:
    """Where this user's caches are kept on this system; it need not exist."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "itrstress"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "itrstress"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "itrstress"


def machine_key(device: torch.device) -> str:
    """A hash of everything that the choice depends on."""
    unit = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    variables = [os.environ.get(name, "") for name in VARIABLES]
    parts = [device.type, unit, torch.__version__, np.__version__, *variables]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    return " ".join([platform.machine(), platform.processor(), *sorted(processor_flags())])


def read_rates(path: Path) -> Rates | None:
    """GFLOP/s by precision as `write_rates` left them; None where there is no such file, or another's."""
    try:
        rates = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = {*PRECISIONS, NUMPY}
    valid = isinstance(rates, dict) and "float32" in rates and known >= set(rates)
    valid = valid and all(isinstance(rate, float) and rate > 0 for rate in rates.values())
    return rates if valid else None


def write_rates(path: Path, rates: Rates) -> None:
    """Put the file in place whole, or not at all; a folder that cannot be written is left alone."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(dict(rates), file)
        Path(temporary).replace(path)


@cache
def product_rates(device: torch.device) -> Rates:
    """GFLOP/s of the products that a first pass may use here: kept ones, else measured now and kept."""
    path = cache_folder() / f"products-{machine_key(device)}.json"
    rates = read_rates(path)
    if rates is None:
        rates = measure_rates(device)
        write_rates(path, rates)
    return rates


def candidates(device: torch.device) -> tuple[str, ...]:
    """The precisions worth measuring on a device."""
    if device.type == "cuda":
        return tuple(PRECISIONS)
    return ("bfloat16", "float32") if processor_flags() & LOW_ON_CPU else ("float32",)


def measure_rates(device: torch.device) -> Rates:
    """GFLOP/s of one tile in every candidate precision, and of numpy's float32 on a processor."""
    queries, rows, dim = SHAPE if device.type == "cpu" else GPU_SHAPE
    random = torch.Generator().manual_seed(0)
    left, right = (torch.rand(count, dim, generator=random).to(device) for count in (queries, rows))
    rates = {}
    for name in candidates(device):
        precision = PRECISIONS[name]
        low_left, low_right = left.to(precision.dtype), right.to(precision.dtype)

        def multiply(a: torch.Tensor = low_left, b: torch.Tensor = low_right, name: str = name) -> None:
            if device.type == "cpu":
                torch.matmul(a, b.T)
            else:
                product(a, b, PRECISIONS[name])
                torch.cuda.synchronize(device)

        with exact_products(precision, device), threadpool_limits(1):
            rates[name] = 2e-9 * queries * rows * dim / _best_time(multiply)
    if device.type == "cpu":
        arrays = left.numpy(), right.numpy()
        with threadpool_limits(1):
            rates[NUMPY] = 2e-9 * queries * rows * dim / _best_time(lambda: arrays[0] @ arrays[1].T)
    return rates


def _best_time(work: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs: what disturbs a run only makes it longer."""
    work()
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def fastest_precision(device: torch.device) -> str:
    """The precision whose product is fastest on a device; float32 unless another gains enough."""
    rates = product_rates(device)
    low = max((name for name in rates if name not in ("float32", NUMPY)), key=rates.__getitem__, default=None)
    return low if low is not None and rates[low] > GAIN * rates["float32"] else "float32"


def fastest_on_cpu() -> str:
    """The fastest backend on the processor: "torch-cpu", or "numpy" where no product of torch's is faster
    than numpy's, or its float32 products are rounded."""
    cpu = torch.device("cpu")
    rates, precision = product_rates(cpu), fastest_precision(cpu)
    if precision == "float32" and host_rounding():
        return NUMPY
    needed = rates[NUMPY] if precision == "float32" else GAIN * rates[NUMPY]
    return "torch-cpu" if rates[precision] > needed else "numpy"
