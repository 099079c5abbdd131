"""Measurements as JSON, a Markdown table and a picture, written whole or not at all."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from engine.errors import InputError
from engine.outputs.file import OutputFile

SCHEMA = 1
PICTURES = (".png", ".svg")
YARDSTICK = "itrstress"  # what the others are compared with, where it was measured


def document(
    command: str, task: Mapping[str, Any], machine: object, records: Sequence[Any]
) -> dict[str, Any]:
    """What is written as JSON; `rows` holds a record for each contestant."""
    return {
        "schema": SCHEMA,
        "command": command,
        "task": dict(task),
        "machine": machine,
        "rows": compared(records),
    }


def compared(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records with `times_itrstress` (how many times as long as `YARDSTICK`) and `ceiling_share`.

    The share is the time of the bfloat16 product alone over the record's; both are None where there is
    nothing to compare with.
    """
    medians = {record["name"]: record["median_seconds"] for record in records}

    def ratio(numerator: float | None, denominator: float | None) -> float | None:
        return numerator / denominator if numerator and denominator else None

    return [
        {
            **record,
            "times_itrstress": ratio(record["median_seconds"], medians.get(YARDSTICK)),
            "ceiling_share": ratio(medians.get("product_bfloat16"), record["median_seconds"]),
        }
        for record in records
    ]


def markdown(found: Mapping[str, Any]) -> str:
    """The machine in a line, and a table."""
    machine = found["machine"]
    size = ", ".join(f"{name} {value}" for name, value in found["task"].items())
    lines = [
        f"`itrstress bench {found['command']}`: {size}.",
        f"{machine['processor']}, {machine['cores']} cores ({', '.join(machine['instructions'])}), "
        f"GPU: {machine['gpu'] or 'none'}; load before: {machine['load_before']}.",
        "",
        "| what | work | seconds, median (lowest to highest) | x itrstress | queries/s | GFLOP/s "
        "| share of bfloat16 product | whole top-k right | recall | peak MiB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(_line(record) for record in found["rows"]), *_curves(found["rows"]), ""])


def _line(record: Mapping[str, Any]) -> str:
    low, high = record["spread"]
    cells = (
        record["name"],
        record["work"],
        f"{record['median_seconds']:.3f} ({low:.3f} to {high:.3f})",
        _shown(record["times_itrstress"], ".2f"),
        f"{record['queries_per_second']:,.0f}",
        _shown(record.get("gflops"), ",.0f"),
        _shown(record["ceiling_share"], ".2f"),
        _shown(record["agreement"], ".4f"),
        _shown(record.get("recall"), ".4f"),
        f"{record['peak_rss_bytes'] / 2**20:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _curves(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of single queries and batch sizes; nothing where they were not measured."""
    measured = [record for record in records if "batches" in record]
    if not measured:
        return []
    sizes = list(measured[0]["batches"])
    lines = [
        "",
        "Milliseconds of one query, of bringing one to the GPU and its answer back, "
        "and queries a second by the size of a batch:",
        "",
        f"| what | first | p50 | p95 | p99 | transfer p50 | {' | '.join(map(str, sizes))} |",
        "|---|---|---|---|---|---|" + "---|" * len(sizes),
    ]
    for record in measured:
        times = [record["first_query_seconds"], *record["one_query_seconds"].values()]
        transfer = record["transfer_seconds"]
        cells = [f"{1e3 * time:.2f}" for time in times]
        cells += ["" if transfer is None else f"{1e3 * transfer['p50']:.2f}"]
        cells += [f"{record['batches'][s]:,.0f}" for s in sizes]
        lines.append(f"| {record['name']} | {' | '.join(cells)} |")
    return lines


def places(file: Path, *, force: bool) -> dict[str, OutputFile]:
    """Suffix -> the place for what `write_all` writes. Raises `InputError` as `OutputFile.at`."""
    return {
        suffix: OutputFile.at(file.with_suffix(suffix), "--json", force=force)
        for suffix in (".json", ".md", *PICTURES)
    }


def write_all(at: Mapping[str, OutputFile], found: Mapping[str, Any]) -> list[Path]:
    """The JSON, and beside it the table and the pictures (with matplotlib); what was written."""
    texts = {".json": f"{json.dumps(found, indent=1)}\n", ".md": markdown(found)}
    contents = {suffix: text.encode() for suffix, text in texts.items()} | draw(found)
    for suffix, content in contents.items():
        at[suffix].write(content)
    return [at[suffix].path for suffix in contents]


def add_output(parser: argparse.ArgumentParser) -> None:
    """Give a script `--json` and `--force`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements here")
    parser.add_argument("--force", action="store_true", help="replace FILE")


def output_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> OutputFile | None:
    """Where a script's `--json` goes, if it was given; ends the script when that is no place for a file."""
    if options.json is None:
        return None
    try:
        return OutputFile.at(options.json, "--json", force=options.force)
    except InputError as error:
        parser.error(str(error))


def write_rows(output: OutputFile, rows: Sequence[Any]) -> None:
    """Write measurements (dataclass objects) with the machine that they were made on."""
    document = {"machine": describe_machine(), "rows": [asdict(row) for row in rows]}
    output.write(f"{json.dumps(document, indent=1)}\n".encode())


def draw(found: Mapping[str, Any]) -> dict[str, bytes]:
    """Suffix -> picture: bars of the medians, with their spread, and the batch curves.

    Empty without matplotlib.
    """
    import io

    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    records = found["rows"]
    curves = [record for record in records if "batches" in record]
    figure = Figure(figsize=(9, 1.5 + 0.35 * len(records)), layout="constrained")
    bars, *others = figure.subplots(1, 1 + bool(curves), squeeze=False)[0]
    medians = [record["median_seconds"] for record in records]
    low = [median - record["spread"][0] for median, record in zip(medians, records, strict=True)]
    high = [record["spread"][1] - median for median, record in zip(medians, records, strict=True)]
    colours = ["#1b6ca8" if record["name"].startswith(YARDSTICK) else "#b0b0b0" for record in records]
    names = [record["name"] if record["exact"] else f"{record['name']} (approximate)" for record in records]
    bars.barh(names, medians, xerr=[low, high], color=colours)
    bars.invert_yaxis()
    bars.set_xscale("log")
    bars.set_xlabel("seconds, median; lines: lowest to highest")
    for axes in others:
        for record in curves:
            sizes = [int(size) for size in record["batches"]]
            axes.plot(sizes, list(record["batches"].values()), marker="o", label=record["name"])
        axes.set(xscale="log", yscale="log", xlabel="queries in a call", ylabel="queries a second")
        axes.legend()
    pictures = {}
    for suffix in PICTURES:
        image = io.BytesIO()
        figure.savefig(image, format=suffix[1:], dpi=150)
        pictures[suffix] = image.getvalue()
    return pictures
