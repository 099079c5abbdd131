"""From a corpus and an encoder to a store: what is pending is encoded, nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.corpus.corpus import Corpus
from engine.encoders.encoder import Encoder
from engine.progress import Progress, Silent
from engine.stopwatch import Stopwatch
from engine.store.embedding.probe import probe
from engine.store.embedding.report import EmbedReport, UnreadableImagesError
from engine.store.embedding.run import Run
from engine.store.embedding.work import (
    check_modalities,
    gone_files,
    header_of,
    image_digests,
    made_by,
    plan_work,
    with_cut_texts,
)
from engine.store.image_source import (
    ImageSource,
    UnchangedImages,
    as_source,
    check_features,
    check_source,
    digest_images,
)
from engine.store.schema import MODALITIES, StoredDtype
from engine.store.writer import open_writer
from engine.variants.variant import Modality, Variant


def embed(
    encoder: Encoder,
    corpus: Corpus,
    images: str | Path | ImageSource,
    variants: Sequence[Variant],
    path: str | Path,
    *,
    batch_size: int,
    workers: int,
    dtype: StoredDtype = "float32",
    skip_unreadable: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    label: str = "encoding",
    file_digests: Sequence[str] | None = None,
    command: Sequence[str] = (),
    modalities: Sequence[Modality] = MODALITIES,
    space: str = "",
) -> EmbedReport:
    """Encode a corpus and its variants into the store at `path`, or finish one.

    `images` is the folder of the image files, or a source of what the encoder reads (region features).
    `batch_size` items go through the encoder at once (give the encoder the same); `workers` threads decode
    images. Equal texts are encoded once, whichever captions and variants they are in, those already in the
    store included. An image file counts as its bytes, features as their values: another file under the same
    name is an error, not a silent reuse. Where a file was missing or cut off when the store was laid out
    there is no digest of it, so that it can be put right and the run resumed. `file_digests` are those of
    `digest_images` where the caller has them already. What a set was made with (`command`, encoder, versions)
    is kept beside it. `progress` has a task for the texts and one for the images, both called `label`.
    `modalities` are what is embedded: the queries of a fixed index need one of them only, and captions alone
    no images. `space` declares the space of the vectors, where several checkpoints share one.

    Raises `UnreadableImagesError` at the end, when all else is complete, unless `skip_unreadable`, which
    records them in the store; `InputError` as `open_writer` does, with `force` as there. A kill at any moment
    loses at most the batch at hand.
    """
    source, progress = as_source(images, corpus), progress or Silent()
    check_modalities(modalities, variants)
    clock = Stopwatch()
    with clock.stage("plan"):
        digests, gone = None, tuple[str, ...]()
        if "images" in modalities:
            check_source(source, encoder, variants)
            check_features(source, encoder, corpus, workers)
            if file_digests is None:
                file_digests = digest_images(source, workers)
            digests = image_digests(file_digests, None if force else Path(path))
            gone = gone_files(corpus, file_digests, digests)
            source = UnchangedImages(source, file_digests)
        if not Path(path).exists():
            probe(encoder, corpus, source, file_digests or ())
        made = made_by(encoder, batch_size, command)
        work = plan_work(corpus, variants, digests, made, modalities)
        work = replace(work, captions=with_cut_texts(work.captions, encoder))
        header = replace(header_of(encoder, corpus, dtype), space=space)
        writer = open_writer(path, header, [*work.captions, *work.images], force=force)
    with writer:
        for note in work.notes:
            progress.note(note)
        run = Run(encoder, corpus, source, writer, work, batch_size, clock, progress, label, gone)
        run.encode_captions()
        if work.images:
            run.encode_images(workers, skip_unreadable)
        report = run.report()
    if report.unreadable and not skip_unreadable:
        raise UnreadableImagesError(report)
    return report
