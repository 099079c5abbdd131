"""What a measurement was made on, in words that mean something elsewhere: no host names, no paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

PACKAGES = ("numpy", "torch", "numba", "faiss-gpu", "faiss-cpu", "usearch", "hnswlib", "clip-benchmark")
MATRIX_FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8")


def describe_machine() -> dict[str, object]:
    """Processor, cores, memory, GPU, versions, and the load of the machine at this moment."""
    from indexes.blas_kernel import processor_flags

    flags = processor_flags()
    return {
        "processor": processor_name(),
        "cores": usable_cores(),
        "instructions": [flag for flag in MATRIX_FLAGS if flag in flags],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpu": gpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": package_versions(),
        "load_before": round(os.getloadavg()[0], 2),
    }


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model's name, family and number where Linux tells them."""
    if not cpuinfo.exists():
        return platform.processor() or platform.machine()
    first = cpuinfo.read_text(errors="replace").split("\n\n")[0].splitlines()
    pairs = (line.partition(":") for line in first)
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    name = fields.get("model name", platform.machine())
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def gpu_name() -> str | None:
    """The first GPU that torch sees."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def package_versions() -> dict[str, str]:
    """Versions of what was measured, as far as it is installed."""
    installed = {name.lower() for dist in importlib.metadata.distributions() if (name := dist.name)}
    return {name: importlib.metadata.version(name) for name in PACKAGES if name in installed}


def peak_memory() -> int:
    """Largest resident bytes of this process so far.

    From /proc where there is one: what getrusage says begins with the memory of the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
