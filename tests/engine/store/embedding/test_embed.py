"""Embedding a corpus: killed and resumed to the same bytes, nothing twice, unreadable images."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from engine.cli.main import run
from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.corpus.images import open_image
from engine.encoders.registry import open_encoder
from engine.errors import InputError
from engine.progress import Advance, Silent
from engine.store.embedding.embed import embed
from engine.store.embedding.report import EmbedReport, UnreadableImagesError
from engine.store.image_source import as_source, digest_images
from engine.store.reader import open_store
from engine.variants.registry import make_variant
from engine.variants.variant import Modality, Side, VariantItem, VariantItems

DIM = 4


class CountingEncoder:
    """An encoder whose rows are a plain function of the item, and that remembers what it was given."""

    spec, dim, fingerprint = "fake:encoder", DIM, "f" * 64

    def __init__(self, fail_after: int | None = None) -> None:
        self.texts: list[str] = []
        self.images: list[float] = []
        self.batches = 0
        self.fail_after = fail_after

    def prepare_image(self, image: Image.Image) -> float:
        return float(np.asarray(image, dtype=np.float64).mean())

    def _count(self) -> None:
        self.batches += 1
        if self.fail_after is not None and self.batches > self.fail_after:
            raise KeyboardInterrupt

    def encode_images(self, images: Sequence[float]) -> NDArray[np.float32]:
        self._count()
        self.images += images
        return unit_rows([[value, 1.0, 2.0, 3.0] for value in images])

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._count()
        self.texts += texts
        return unit_rows([text_vector(text) for text in texts])


def text_vector(text: str) -> list[float]:
    return [float(len(text)) + 1.0, float(sum(map(ord, text)) % 97), 5.0, float(text.count("a"))]


def unit_rows(rows: Sequence[Sequence[float]]) -> NDArray[np.float32]:
    table = np.array(rows, dtype=np.float64).reshape(-1, DIM)
    return (table / np.linalg.norm(table, axis=1, keepdims=True)).astype(np.float32)


class Shouting:
    """A caption variant that changes only some captions, so that the others are equal to their originals."""

    name, side, modality = "shouting", "gallery", "captions"
    side: Side
    modality: Modality

    def apply(self, corpus: Corpus) -> VariantItems:
        items = (
            VariantItem(f"{c.id}-s", i, c.text.upper() if i % 3 == 0 else c.text, i % 3 == 0)
            for i, c in enumerate(corpus.captions)
        )
        return VariantItems(tuple(items), note="shouting: louder than its name says")


def save_images(folder: Path, count: int) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    names = [f"{i:03d}.png" for i in range(count)]
    for name in names:
        pixels = rng.integers(0, 256, (24 + len(name), 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / name)
    return names


def make_corpus(folder: Path, count: int = 10) -> Corpus:
    names = save_images(folder, count)
    captions = [Caption(f"c{i}", f"caption {i % (2 * count - 3)} a", i // 2) for i in range(2 * count)]
    return Corpus("small", tuple(ImageItem(n, n) for n in names), tuple(captions))


def go(
    encoder: Any, corpus: Corpus, folder: Path, out: Path, variants: Sequence[Any] = (), **options: Any
) -> EmbedReport:
    options = {"batch_size": 4, "workers": 2, **options}
    return embed(encoder, corpus, folder, variants, out, **options)


def rows_of(path: Path, modality: str, name: str) -> NDArray[np.float32]:
    with open_store(path) as store:
        there = store.load(modality, name)
        return there.rows.read(0, len(there.ids))


def everything(path: Path) -> dict[str, bytes]:
    with open_store(path) as store:
        names = [(info.modality, info.name) for info in store.sets]
    return {f"{m}/{n}": rows_of(path, m, n).tobytes() for m, n in names}


def test_rows_are_what_the_encoder_gives_for_each_item(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "images")
    mix = make_variant("mix:0.9:seed=1")
    out = tmp_path / "s.h5"
    report = go(CountingEncoder(), corpus, tmp_path / "images", out, [Shouting(), mix])
    oracle = CountingEncoder()
    originals = [open_image(tmp_path / "images", image.file) for image in corpus.images]
    wanted = oracle.encode_images([oracle.prepare_image(image) for image in originals])
    np.testing.assert_array_equal(rows_of(out, "images", "original"), wanted)
    fakes = [
        item.content.draw([originals[s] for s in item.content.sources]) for item in mix.apply(corpus).items
    ]
    wanted = oracle.encode_images([oracle.prepare_image(image) for image in fakes])
    np.testing.assert_array_equal(rows_of(out, "images", mix.name), wanted)
    for name, words in (
        ("original", [c.text for c in corpus.captions]),
        ("shouting", [item.content for item in Shouting().apply(corpus).items]),
    ):
        np.testing.assert_array_equal(rows_of(out, "captions", name), oracle.encode_texts(words))
    assert report.pending == 0
    assert report.unreadable == {}
    assert sum(v for k, v in report.seconds.items() if k != "total") == pytest.approx(report.seconds["total"])


def test_equal_texts_are_encoded_once(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "images")
    encoder = CountingEncoder()
    report = go(encoder, corpus, tmp_path / "images", tmp_path / "s.h5", [Shouting()])
    wanted = {c.text for c in corpus.captions} | {i.content for i in Shouting().apply(corpus).items}
    probe, *texts = encoder.texts
    assert probe == corpus.captions[0].text
    assert sorted(texts) == sorted(wanted)
    assert report.forwarded["texts"] == len(wanted)
    assert sum(c.copied for k, c in report.sets.items() if k.startswith("captions")) == 40 - len(wanted)


def test_what_is_there_is_not_encoded_again(tmp_path: Path) -> None:
    corpus, out = make_corpus(tmp_path / "images"), tmp_path / "s.h5"
    go(CountingEncoder(), corpus, tmp_path / "images", out)
    before = everything(out)
    encoder = CountingEncoder()
    report = go(encoder, corpus, tmp_path / "images", out, [Shouting()])
    new = {i.content for i in Shouting().apply(corpus).items} - {c.text for c in corpus.captions}
    assert sorted(encoder.texts) == sorted(new)
    assert encoder.images == []
    assert report.sets["captions/original"].there == 20
    again = CountingEncoder()
    go(again, corpus, tmp_path / "images", out, [Shouting()])
    assert again.batches == 0
    assert {k: everything(out)[k] for k in before} == before


@settings(max_examples=15, deadline=None)
@given(stop=st.integers(0, 16), batch=st.sampled_from([1, 3, 4, 64]))
def test_a_run_stopped_anywhere_is_finished_with_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, stop: int, batch: int
) -> None:
    folder = tmp_path_factory.mktemp("stopped")
    corpus, variants = make_corpus(folder / "images", 8), [Shouting(), make_variant("patch:0.8:seed=1")]
    whole = go(CountingEncoder(), corpus, folder / "images", folder / "a.h5", variants, batch_size=batch)
    first = CountingEncoder(fail_after=stop)
    try:
        go(first, corpus, folder / "images", folder / "b.h5", variants, batch_size=batch)
    except KeyboardInterrupt:
        assert first.batches == stop + 1
    probed_again = not (folder / "b.h5").exists()  # stopped in the probe, of a text and then of an image
    second = CountingEncoder()
    go(second, corpus, folder / "images", folder / "b.h5", variants, batch_size=batch)
    assert everything(folder / "a.h5") == everything(folder / "b.h5")
    probes = {"texts": (stop >= 1) + probed_again, "images": (stop >= 2) + probed_again}
    assert len(first.texts) + len(second.texts) == whole.forwarded["texts"] + probes["texts"]
    assert len(first.images) + len(second.images) == whole.forwarded["images"] + probes["images"]


KILLED = """
import os, signal, sys
from engine.cli.main import run
from engine.encoders.open_clip import OpenClipEncoder

inner, left = OpenClipEncoder._run, int(sys.argv[1])

def run_model(self, *arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return inner(self, *arguments)

OpenClipEncoder._run = run_model
sys.exit(run(sys.argv[2:]))
"""


def test_a_killed_process_is_resumed_to_the_same_bytes(tmp_path: Path, tiny_model: Path) -> None:
    arguments = command_line(tmp_path, tiny_model)
    assert run([*arguments, "--out", str(tmp_path / "whole.h5")]) == 0
    killed = [*arguments, "--out", str(tmp_path / "killed.h5")]
    done = subprocess.run([sys.executable, "-c", KILLED, "9", *killed], check=False, capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    with open_store(tmp_path / "killed.h5") as store:
        assert 0 < sum(info.complete for info in store.sets) < sum(info.rows for info in store.sets)
    assert run(killed) == 0
    assert everything(tmp_path / "killed.h5") == everything(tmp_path / "whole.h5")


def command_line(folder: Path, model: Path, count: int = 12) -> list[str]:
    names = save_images(folder / "images", count)
    with (folder / "captions.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image", "caption"])
        table.writerows([name, f"caption {k} of {name}"] for name in names for k in range(2))
    return [
        "embed", "--model", f"open_clip:local-dir:{model}", "--corpus", str(folder / "captions.csv"),
        "--images", str(folder / "images"), "--batch-size", "5", "--device", "cpu",
        "--variant", "mix:0.9:seed=1",
    ]  # fmt: skip


def test_the_command_says_what_it_did(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*command_line(tmp_path, tiny_model), "--out", str(tmp_path / "s.h5"), "--dtype", "float16"]
    assert run(arguments) == 0
    shown = capsys.readouterr()
    assert "12 images, 24 captions" in shown.out
    assert "images a second" in shown.out
    assert "encoding: 24 images in " in shown.err
    assert run(arguments) == 0
    assert ["captions/original", "24", "24", "0", "0", "0", "0"] in [
        text.split() for text in capsys.readouterr().out.splitlines()
    ]


def test_another_checkpoint_is_not_mixed_in(
    tmp_path: Path, make_tiny_model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path / "s.h5")]
    assert run([*command_line(tmp_path, make_tiny_model("one")), *out]) == 0
    other = [*command_line(tmp_path, make_tiny_model("two", seed=2)), *out]
    assert run(other) == 2
    assert "is of the checkpoint" in capsys.readouterr().err
    assert run([*other, "--force"]) == 0


def spoil(folder: Path) -> dict[str, bytes]:
    """Three images that cannot be read: missing, empty, cut off. Gives their bytes."""
    names = ("001.png", "004.png", "005.png")
    whole = {name: (folder / name).read_bytes() for name in names}
    (folder / "001.png").unlink()
    (folder / "004.png").write_bytes(b"")
    (folder / "005.png").write_bytes(whole["005.png"][:200])
    return whole


def test_unreadable_images_stop_the_run_at_its_end_and_can_be_put_right(tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "s.h5"
    corpus = make_corpus(folder)
    go(CountingEncoder(), corpus, folder, tmp_path / "whole.h5", [make_variant("mix:0.9:seed=1")])
    whole = spoil(folder)
    with pytest.raises(UnreadableImagesError) as caught:
        go(CountingEncoder(), corpus, folder, out, [make_variant("mix:0.9:seed=1")])
    assert set(caught.value.report.unreadable) == set(whole)
    assert all(name in str(caught.value) for name in whole)
    with open_store(out) as store:
        states = store.load("images", "original", complete=False).state
        assert np.flatnonzero(states == 0).tolist() == [1, 4, 5]
        assert store.load("captions", "original").state.min() == 1
    for name, data in whole.items():
        (folder / name).write_bytes(data)
    report = go(CountingEncoder(), corpus, folder, out, [make_variant("mix:0.9:seed=1")])
    assert report.sets["images/original"].encoded == 3
    assert everything(out) == everything(tmp_path / "whole.h5")


class Watcher(Silent):
    """Keeps the tasks it was told of: label, total, unit, worked on, passed over; and the notes."""

    def __init__(self) -> None:
        self.tasks: list[list[Any]] = []
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)

    @contextmanager
    def task(self, label: str, total: int, unit: str) -> Iterator[Advance]:
        told = [label, total, unit, 0, 0]
        self.tasks.append(told)

        def advance(done: int, passed_over: int = 0) -> None:
            told[3] += done
            told[4] += passed_over

        yield advance


def test_progress_tells_work_from_what_took_none(tmp_path: Path) -> None:
    folder, watcher = tmp_path / "images", Watcher()
    corpus = make_corpus(folder)
    spoil(folder)
    report = go(
        CountingEncoder(),
        corpus,
        folder,
        tmp_path / "s.h5",
        [Shouting()],
        skip_unreadable=True,
        progress=watcher,
        label="early",
    )
    unreadable, texts = report.sets["images/original"].skipped, report.forwarded["texts"]
    assert unreadable == 3
    assert watcher.notes == ["shouting: louder than its name says"]
    assert watcher.tasks == [
        ["early", 40, "texts", texts, 40 - texts],
        ["early", 10, "images", 10 - unreadable, unreadable],
    ]
    again = Watcher()
    go(CountingEncoder(), corpus, folder, tmp_path / "s.h5", [Shouting()], progress=again)
    assert again.tasks == []


def test_unreadable_images_can_be_left_out(tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "s.h5"
    corpus = make_corpus(folder)
    mix = make_variant("mix:0.9:seed=1")
    spoil(folder)
    report = go(CountingEncoder(), corpus, folder, out, [mix], skip_unreadable=True)
    lost = {item.id for item in mix.apply(corpus).items if set(item.content.sources) & {1, 4, 5}}
    with open_store(out) as store:
        originals, fakes = store.load("images", "original"), store.load("images", mix.name)
        assert sorted(originals.reasons) == [1, 4, 5]
        assert "001.png" in originals.reasons[1]
        assert {fakes.ids[row] for row in fakes.reasons} == lost
    assert report.pending == 0
    again = CountingEncoder()
    report = go(again, corpus, folder, out, [mix], skip_unreadable=True)
    assert again.batches == 0
    assert report.sets["images/original"].left_out == 3


def test_another_file_under_the_same_name_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "s.h5"
    corpus = make_corpus(folder)
    go(CountingEncoder(), corpus, folder, out)
    Image.new("RGB", (20, 20), "red").save(folder / "002.png")
    with pytest.raises(InputError, match=r"another digest at row 2 \(the bytes of 002.png\)"):
        go(CountingEncoder(), corpus, folder, out)
    assert go(CountingEncoder(), corpus, folder, out, force=True).sets["images/original"].encoded == 10


@pytest.mark.parametrize("variants", [[], ["mix:0.9:seed=1"]])
def test_a_file_replaced_after_its_digest_was_taken_is_not_embedded(
    tmp_path: Path, variants: list[str]
) -> None:
    folder, out = tmp_path / "images", tmp_path / "s.h5"
    corpus, made = make_corpus(folder), [make_variant(name) for name in variants]
    digests = digest_images(as_source(folder, corpus), 2)
    whole = (folder / "002.png").read_bytes()
    Image.new("RGB", (20, 20), "red").save(folder / "002.png")
    with pytest.raises(InputError, match="image 2 was changed while it was read"):
        go(CountingEncoder(), corpus, folder, out, made, file_digests=digests)
    (folder / "002.png").write_bytes(whole)
    go(CountingEncoder(), corpus, folder, out, made)
    go(CountingEncoder(), corpus, folder, tmp_path / "undisturbed.h5", made)
    assert everything(out) == everything(tmp_path / "undisturbed.h5")


def test_an_image_file_is_read_once_for_its_digest_and_once_to_decode_it(tmp_path: Path) -> None:
    """The second time its bytes are in memory: what is checked against the digest is what was decoded."""
    folder = tmp_path / "images"
    corpus = make_corpus(folder)
    opened: Counter[str] = Counter()
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event == "open" and str(arguments[0]).startswith(str(folder)):
            opened[Path(arguments[0]).name] += 1

    sys.addaudithook(watch)  # it cannot be taken away again
    try:
        go(CountingEncoder(), corpus, folder, tmp_path / "s.h5")
    finally:
        watching = False
    probed = corpus.images[0].file
    assert opened == {image.file: 2 + (image.file == probed) for image in corpus.images}


def test_a_file_that_is_gone_is_named_and_its_row_is_kept(tmp_path: Path) -> None:
    folder, out = tmp_path / "images", tmp_path / "s.h5"
    corpus, mix = make_corpus(folder), make_variant("mix:0.9:seed=1")
    go(CountingEncoder(), corpus, folder, out)
    whole, before = (folder / "002.png").read_bytes(), everything(out)
    (folder / "002.png").unlink()
    (folder / "003.png").write_bytes((folder / "003.png").read_bytes()[:-100])
    report = go(CountingEncoder(), corpus, folder, out)
    assert report.gone == ("002.png", "003.png")
    assert everything(out) == before
    with pytest.raises(UnreadableImagesError, match=r"002.png \(no such file"):
        go(CountingEncoder(), corpus, folder, out, [mix])
    (folder / "002.png").write_bytes(whole)
    with pytest.raises(UnreadableImagesError, match=r"003.png \(cannot be decoded"):
        go(CountingEncoder(), corpus, folder, out, [mix])
    Image.new("RGB", (20, 20), "red").save(folder / "003.png")
    with pytest.raises(InputError, match=r"another digest at row 3 \(the bytes of 003.png\)"):
        go(CountingEncoder(), corpus, folder, out, [mix])


@pytest.mark.parametrize("mode", ["CMYK", "L", "P", "RGBA", "1", "I;16"])
def test_images_of_every_mode_go_through(tmp_path: Path, tiny_model: Path, mode: str) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    file = "a.tiff"
    picture = Image.new("L", (30, 40), 128)
    (Image.new(mode, (30, 40), 30_000) if mode == "I;16" else picture.convert(mode)).save(folder / file)
    corpus = Corpus("one", (ImageItem("a", file),), (Caption("c", "a text", 0),))
    encoder = open_encoder(f"open_clip:local-dir:{tiny_model}", device="cpu")
    assert go(encoder, corpus, folder, tmp_path / "s.h5").pending == 0


def test_a_missing_image_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["embed", "--model", "x:y", "--corpus", "c.csv", "--images", "nowhere", "--out", "s.h5"])
    assert code == 2
    assert "nowhere" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_set_says_how_it_was_made_and_so_do_the_results(tmp_path: Path, tiny_model: Path) -> None:
    """Command, model, precision, batch size, and every package that decides pixels, texts or weights."""
    from engine.evaluate.run import evaluate_store

    corpus = make_corpus(tmp_path / "images", 4)
    out = tmp_path / "s.h5"
    encoder = open_encoder(f"open_clip:local-dir:{tiny_model}", batch_size=4, device="cpu")
    go(encoder, corpus, tmp_path / "images", out, [make_variant("mix:0.9")], command=["itrstress", "embed"])
    with open_store(out) as store:
        results = evaluate_store(store)
    records = [record.made for record in results.provenance.sets]
    assert len(records) == 3
    for made in records:
        assert made["command"] == ["itrstress", "embed"]
        assert made["batch_size"] == 4
        assert made["encoder"]["spec"] == encoder.spec
        assert "fp32 on cpu" in made["encoder"]["computed"]
        assert {"torch", "open_clip_torch", "Pillow", "spacy", "wordfreq", "inflect"} <= set(made["versions"])


class Cutting(CountingEncoder):
    """Reads eleven characters of a text."""

    def is_cut(self, texts: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([len(text) > 11 for text in texts])


def test_texts_that_are_cut_are_counted_in_report_set_and_results(tmp_path: Path) -> None:
    from engine.evaluate.run import evaluate_store

    corpus = make_corpus(tmp_path / "images", 7)  # captions 0 to 10, three of them twice
    out = tmp_path / "s.h5"
    wanted = sum(len(caption.text) > 11 for caption in corpus.captions)
    assert 0 < wanted < len(corpus.captions)
    report = go(Cutting(), corpus, tmp_path / "images", out, [Shouting()])
    again = go(Cutting(), corpus, tmp_path / "images", out, [Shouting()])
    assert report.cut_texts["captions/original"] == again.cut_texts["captions/original"] == wanted
    assert set(report.cut_texts) == {"captions/original", "captions/shouting"}
    with open_store(out) as store:
        results = evaluate_store(store)
    made = {
        f"{record.modality}/{record.name}": record.made.get("texts_cut") for record in results.provenance.sets
    }
    assert made["captions/original"] == wanted
    assert made["images/original"] is None
    plain = go(CountingEncoder(), corpus, tmp_path / "images", tmp_path / "plain.h5")
    assert plain.cut_texts == {}


def test_the_command_says_how_many_texts_are_cut(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*command_line(tmp_path, tiny_model), "--out", str(tmp_path / "s.h5")]
    assert run(arguments) == 0  # the model reads twelve letters, every caption has more
    assert "captions/original: 24 of 24 texts are longer than the model reads" in capsys.readouterr().out


def test_a_model_of_region_features_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    class Regions(CountingEncoder):
        reads = "regions"

    encoder, out = Regions(), tmp_path / "s.h5"
    with pytest.raises(InputError, match="reads precomputed region features"):
        go(encoder, make_corpus(tmp_path / "images", 3), tmp_path / "images", out)
    assert not out.exists()
    assert not encoder.batches
