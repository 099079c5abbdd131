"""What `embed` adds to the encoder's own time on the same batches, for images and for texts.

    python -m bench.encoding_overhead [--architecture NAME] [--images N] [--repeat 5] [--json FILE]
    python -m bench.encoding_overhead --corpus FILE --folder DIR [--model SPEC] ...

Images are encoded in three ways, which take turns so that all see the same machine: by the towers alone, by
the loop that a careful user of PyTorch writes (a `DataLoader` with as many worker processes, the same
preprocessing, the same batches), and by `embed`.

The encoder's own time is that of its towers alone, on the very tensors that `embed` gave them: images decoded
and preprocessed, texts sorted and tokenised before the clock starts. `embed` is its whole path into a new
store: reading and digesting the files, decoding in threads, tokenising, normalising, checksums and writing to
the disk, but not opening the model.

Decoding overlaps with the encoder as far as there are cores that it leaves alone. On a CPU the two share
them: nothing is faster than the encoder, which keeps all cores busy, and the processor seconds of decoding
spread over all cores. That bound is shown beside. Without `--corpus` the images are the demo's. Without
`--architecture` the model is the demo's last checkpoint, which is so small that what is outside of it weighs
most; an architecture of open_clip (ViT-B-32, ...) has random weights.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast
from unittest.mock import patch

from bench.machine import describe_machine, usable_cores
from bench.report import add_output, output_of
from engine.corpus.corpus import Corpus
from engine.corpus.decoding import decoding_threads
from engine.corpus.images import open_image
from engine.corpus.read import DEFAULT_SPLIT, read_corpus
from engine.demo import checkpoints, write_corpus
from engine.encoders.registry import open_encoder
from engine.encoders.request import DEFAULT_BATCH_SIZE
from engine.store.embedding.embed import embed
from engine.store.embedding.report import EmbedReport
from engine.variants.variant import Modality

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from engine.encoders.open_clip import OpenClipEncoder

IMAGES = 64
UNITS: Mapping[Modality, str] = {"images": "images", "captions": "texts"}

Pass = tuple[Callable[["Tensor"], "Tensor"], "Tensor"]  # a tower, and a batch ready for it


@dataclass(frozen=True)
class Measurement:
    """One kind of items; seconds are medians over the repetitions.

    `forwarded` items went through the model in `batches`. `ratio` is the median of `embed`'s seconds over the
    encoder's own of the same repetition. `stages` are wall seconds of the repetition with that ratio;
    `decoder_seconds` is what its decoding threads worked together, beside the encoder, waiting for a core
    included. `loop_seconds` are those of the plain loop, `decode_seconds` the processor seconds of one thread
    that decodes all images with nothing beside; both 0 for texts. `bound_seconds` is the encoder's own time
    and that decoding spread over all cores.
    """

    kind: str
    forwarded: int
    batches: int
    encoder_seconds: float
    embed_seconds: float
    ratio: float
    stages: Mapping[str, float]
    decoder_seconds: float
    loop_seconds: float
    decode_seconds: float
    bound_seconds: float


@dataclass(frozen=True)
class Task:
    """What is embedded, with what; `workers` threads decode."""

    encoder: OpenClipEncoder
    corpus: Corpus
    folder: Path
    batch_size: int
    workers: int

    def embed(self, kind: Modality, store: Path) -> EmbedReport:
        """The whole path of one kind of items into a new store."""
        return embed(
            self.encoder,
            self.corpus,
            self.folder,
            [],
            store,
            batch_size=self.batch_size,
            workers=self.workers,
            modalities=(kind,),
        )


def measure(task: Task, kind: Modality, repeat: int) -> Measurement:
    """Let the towers alone, the plain loop and `embed` take turns `repeat` times, after one turn that is not
    counted."""
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-") as folder:
        with recorded_passes(task.encoder) as passes:
            forwarded = task.embed(kind, Path(folder) / "first.h5").forwarded[UNITS[kind]]
        passes = passes[-batches_of(forwarded, passes) :]
        run_passes(task.encoder, passes)
        turns = []
        for number in range(repeat):
            own = run_passes(task.encoder, passes)
            loop = run_plain_loop(task) if kind == "images" else 0.0
            turns.append((own, task.embed(kind, Path(folder) / f"{number}.h5"), loop))
    decode = decode_alone(task) if kind == "images" else 0.0
    turns.sort(key=lambda turn: turn[1].seconds["total"] / turn[0])
    own, report, _ = turns[(repeat - 1) // 2]
    alone = statistics.median(own for own, _, _ in turns)
    shares_cores = task.encoder._forward.device.type == "cpu"
    return Measurement(
        kind=UNITS[kind],
        forwarded=forwarded,
        batches=len(passes),
        encoder_seconds=alone,
        embed_seconds=statistics.median(report.seconds["total"] for _, report, _ in turns),
        ratio=report.seconds["total"] / own,
        stages=report.seconds,
        decoder_seconds=report.decoder_seconds,
        loop_seconds=statistics.median(loop for _, _, loop in turns),
        decode_seconds=decode,
        bound_seconds=alone + (decode / usable_cores() if shares_cores else 0.0),
    )


@dataclass(frozen=True)
class DecodedFiles:
    """The image files of a task as a data set of PyTorch's: prepared tensors by row."""

    task: Task

    def __len__(self) -> int:
        return len(self.task.corpus.images)

    def __getitem__(self, row: int) -> Tensor:
        image = open_image(self.task.folder, self.task.corpus.images[row].file)
        return self.task.encoder.prepare_image(image)


def plain_loop(task: Task) -> NDArray[np.float32]:
    """float32 [images, dim]: PyTorch's own way from files to rows of length 1, with worker processes,
    no store."""
    import torch
    from torch.utils.data import DataLoader

    encoder = task.encoder
    loader = DataLoader(
        cast("torch.utils.data.Dataset[Tensor]", DecodedFiles(task)),
        batch_size=task.batch_size,
        num_workers=task.workers,
        pin_memory=encoder._forward.device.type == "cuda",
    )
    rows = []
    for batch in loader:
        vectors = encoder._run(encoder._model.encode_image, batch.to(encoder._forward.device))
        rows.append(torch.nn.functional.normalize(vectors.float(), dim=-1).cpu())
    return cast("NDArray[np.float32]", torch.cat(rows).numpy())


def run_plain_loop(task: Task) -> float:
    """Seconds of the `plain_loop`."""
    started = time.perf_counter()
    plain_loop(task)
    return time.perf_counter() - started


def decode_alone(task: Task) -> float:
    """Processor seconds of one thread that reads, decodes and prepares every image, nothing beside it."""
    import torch

    images, threads = DecodedFiles(task), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        started = time.thread_time()
        for row in range(len(images)):
            images[row]
        return time.thread_time() - started
    finally:
        torch.set_num_threads(threads)


@contextmanager
def recorded_passes(encoder: OpenClipEncoder) -> Iterator[list[Pass]]:
    """Inside it, every batch that a tower is given is kept, and computed as ever."""
    passes: list[Pass] = []
    run = encoder._run

    def keep(tower: Callable[[Tensor], Tensor], batch: Tensor) -> Tensor:
        passes.append((tower, batch))
        return run(tower, batch)

    with patch.object(encoder, "_run", keep):
        yield passes


def batches_of(forwarded: int, passes: Sequence[Pass]) -> int:
    """How many of the passes, the last ones, are of the items and not of the probe before them."""
    items = 0
    for count, (_, batch) in enumerate(reversed(passes), start=1):
        items += len(batch)
        if items == forwarded:
            return count
    raise ValueError(f"{items} items in the passes, {forwarded} expected")


def run_passes(encoder: OpenClipEncoder, passes: Sequence[Pass]) -> float:
    """Seconds of the towers alone; the result of each batch is brought to the CPU, as `embed` must."""
    started = time.perf_counter()
    for tower, batch in passes:
        encoder._run(tower, batch).cpu()
    return time.perf_counter() - started


def first_images(corpus: Corpus, count: int) -> Corpus:
    """The first images of a corpus, and their captions."""
    captions = tuple(caption for caption in corpus.captions if caption.image < count)
    return replace(corpus, images=corpus.images[:count], captions=captions)


def write_random_model(architecture: str, folder: Path) -> str:
    """A folder with an architecture of open_clip and random weights (seed 0); the model's spec."""
    import open_clip
    import torch
    from safetensors.torch import save_file

    from engine.encoders.open_clip import build_model
    from engine.encoders.open_clip_source import CONFIG_FILE, USUAL_WEIGHTS, ModelSource
    from engine.encoders.preprocess import PRESETS

    config = open_clip.get_model_config(architecture)
    if config is None:
        raise SystemExit(f"--architecture {architecture}: open_clip has none of this name")
    preprocess, weights = PRESETS["openai"], folder / USUAL_WEIGHTS[0]
    torch.manual_seed(0)
    model = build_model(ModelSource(architecture, config, weights, preprocess, None, online=False))
    document = {"model_cfg": config, "preprocess_cfg": preprocess.describe()}
    (folder / CONFIG_FILE).write_text(json.dumps(document))
    save_file(model.state_dict(), weights)
    return f"open_clip:local-dir:{folder}"


def table(rows: Sequence[Measurement]) -> str:
    """The measurements in Markdown."""
    lines = [
        "| what | items | batches | encoder alone | at best | plain loop | embed | embed / encoder | plan "
        "| waiting for decoders | encode | write | the rest | decoders worked | decoding alone |",
        f"|{'---|' * 15}",
    ]
    for row in rows:
        stages = [row.stages.get(name, 0.0) for name in ("plan", "decode", "encode", "write", "untracked")]
        times = [row.encoder_seconds, row.bound_seconds, row.loop_seconds, row.embed_seconds]
        cells = [f"{one:.3f} s" for one in times] + [f"{row.ratio:.3f}"]
        cells += [f"{one:.3f} s" for one in [*stages, row.decoder_seconds, row.decode_seconds]]
        lines.append(f"| {row.kind} | {row.forwarded:,} | {row.batches:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the options, measure, print a Markdown table, write the JSON when asked."""
    parser = argparse.ArgumentParser(description="Compare embed with the encoder's own time.")
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--model", help="an open_clip model; default: the demo's last checkpoint")
    model.add_argument("--architecture", metavar="NAME", help="of open_clip, with random weights")
    parser.add_argument("--corpus", type=Path, help="a captioned image set; default: the demo's")
    parser.add_argument("--folder", type=Path, help="the folder of its images")
    parser.add_argument("--split", default=DEFAULT_SPLIT)
    parser.add_argument("--images", type=int, default=IMAGES, help="the first ones (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="turns of each (default %(default)s)")
    parser.add_argument("--batch-size", type=int, default=DEFAULT_BATCH_SIZE, help="default %(default)s")
    parser.add_argument("--workers", type=int, default=decoding_threads(), help="default %(default)s")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp32")
    add_output(parser)
    options = parser.parse_args(arguments)
    if (options.corpus is None) != (options.folder is None):
        parser.error("--corpus and --folder come together")
    if min(options.images, options.repeat, options.batch_size, options.workers) < 1:
        parser.error("--images, --repeat, --batch-size and --workers are 1 or more")
    output = output_of(parser, options)
    with tempfile.TemporaryDirectory(prefix="itrstress-bench-") as folder:
        task = prepare(options, Path(folder))
        rows = [measure(task, kind, options.repeat) for kind in UNITS]
    print(table(rows))
    if output:
        import torch

        found = {
            "machine": describe_machine(),
            "model": options.architecture or Path(options.model or checkpoints()[-1]).name,
            "computed": task.encoder.description["computed"],
            "torch_threads": torch.get_num_threads(),
            "workers": options.workers,
            "corpus": task.corpus.name,
            "rows": [asdict(row) for row in rows],
        }
        output.write(f"{json.dumps(found, indent=1)}\n".encode())


def prepare(options: argparse.Namespace, scratch: Path) -> Task:
    """The corpus and the model that the options name, made in a scratch folder where they name none."""
    spec = options.model or f"open_clip:local-dir:{checkpoints()[-1]}"
    if not spec.startswith("open_clip:"):
        raise SystemExit(f"--model {spec}: expected a model of open_clip")
    if options.architecture:
        spec = write_random_model(options.architecture, scratch)
    folder = options.folder or scratch
    file = options.corpus or write_corpus(scratch, images=options.images)
    encoder = open_encoder(
        spec, device=options.device, precision=options.precision, batch_size=options.batch_size
    )
    return Task(
        cast("OpenClipEncoder", encoder),
        first_images(read_corpus(file, split=options.split), options.images),
        folder,
        options.batch_size,
        options.workers,
    )


if __name__ == "__main__":
    main()
