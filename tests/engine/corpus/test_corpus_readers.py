"""Every layout gives back what was written in it, and content alone decides the layout."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus import Corpus, load_corpus, read_corpus, read_rococo
from engine.corpus.document import Document
from engine.corpus.readers.caption_list import copies_at_original
from engine.corpus.registry import READERS, detect_reader
from engine.errors import InputError

Captioned = dict[str, list[str]]
"""What a test writes: image file -> captions."""

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
names = st.text(st.characters(categories=["L", "N"], include_characters="#-_ é"), min_size=1, max_size=6)
files = st.one_of(names, st.tuples(names, names).map("/".join))


def captioned(min_captions: int) -> st.SearchStrategy[Captioned]:
    return st.dictionaries(
        files, st.lists(texts, min_size=min_captions, max_size=4), min_size=1, max_size=5
    ).filter(lambda images: any(images.values()))


def as_blip(images: Captioned) -> str:
    return json.dumps([{"image": file, "caption": captions} for file, captions in images.items()])


def as_karpathy(images: Captioned) -> str:
    entries = []
    sentence = 100
    for number, (file, captions) in enumerate(images.items()):
        folder, _, name = file.rpartition("/")
        sentences = [{"raw": text, "sentid": sentence + k} for k, text in enumerate(captions)]
        sentence += len(captions)
        entry = {
            "filename": name,
            "filepath": folder,
            "split": "test",
            "sentences": sentences,
            "cocoid": number,
        }
        entries.append(entry)
    return json.dumps({"images": entries, "dataset": "coco"})


def as_coco(images: Captioned) -> str:
    rows = [{"id": n, "file_name": file} for n, file in enumerate(images)]
    annotations = [
        {"id": 1000 * n + k, "image_id": n, "caption": text}
        for n, captions in enumerate(images.values())
        for k, text in enumerate(captions)
    ]
    return json.dumps({"images": rows, "annotations": annotations})


def as_json_lines(images: Captioned) -> str:
    rows = [{"image": file, "caption": text} for file, captions in images.items() for text in captions]
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)


def as_delimited(images: Captioned, delimiter: str) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["caption", "row", "image"])
    writer.writerows([text, k, file] for file, captions in images.items() for k, text in enumerate(captions))
    return out.getvalue()


def as_csv(images: Captioned) -> str:
    return as_delimited(images, ",")


def as_tsv(images: Captioned) -> str:
    return as_delimited(images, "\t")


def content(corpus: Corpus) -> Captioned:
    found: Captioned = {image.file: [] for image in corpus.images}
    for caption in corpus.captions:
        found[corpus.images[caption.image].file].append(caption.text)
    return found


def write(folder: Path, text: str, name: str = "corpus.bin", encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


LAYOUTS: dict[Callable[[Captioned], str], tuple[str, int]] = {
    as_blip: ("blip", 1),
    as_karpathy: ("karpathy", 0),
    as_coco: ("coco_captions", 0),
    as_json_lines: ("table", 1),
    as_csv: ("table", 1),
    as_tsv: ("table", 1),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_every_layout_gives_back_what_was_written(
    layout: Callable[[Captioned], str],
    encoding: str,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    reader, min_captions = LAYOUTS[layout]
    images = data.draw(captioned(min_captions))
    path = write(tmp_path_factory.mktemp("corpus"), layout(images), encoding=encoding)
    loaded = load_corpus(path)
    assert loaded.reader == reader
    assert content(loaded.corpus) == images
    assert list(content(loaded.corpus)) == list(images)  # in the file's order
    assert len({image.id for image in loaded.corpus.images}) == len(images)
    assert len({c.id for c in loaded.corpus.captions}) == sum(map(len, images.values()))
    assert read_corpus(path).fingerprint == loaded.corpus.fingerprint


@given(
    entries=st.dictionaries(
        files,
        st.tuples(st.lists(texts, min_size=5, max_size=7), st.lists(texts, min_size=5, max_size=5)),
        min_size=1,
    )
)
@settings(max_examples=60, deadline=None)
def test_rococo_pairs_the_last_five_with_the_first_five(
    entries: dict[str, tuple[list[str], list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("rococo")
    path = write(folder, as_blip({file: originals + fakes for file, (originals, fakes) in entries.items()}))
    corpus, adversarials = read_rococo(path)
    assert content(corpus) == {file: originals for file, (originals, _) in entries.items()}
    expected = [
        (file, originals[k], fakes[k])
        for file, (originals, fakes) in entries.items()
        for k in range(len(fakes))
    ]
    rows = [corpus.captions[item.original] for item in adversarials]
    found = [
        (corpus.images[row.image].file, row.text, item.text)
        for row, item in zip(rows, adversarials, strict=True)
    ]
    assert found == expected
    assert len({item.id for item in adversarials}) == len(adversarials)
    # the originals are the same corpus as the plain list of them, whatever the attack
    plain = write(folder, as_blip({file: originals for file, (originals, _) in entries.items()}), "plain")
    assert read_corpus(plain, reader="blip").fingerprint == corpus.fingerprint


def test_ids_come_from_the_file_where_it_has_them(tmp_path: Path) -> None:
    images = {"val2014/a.jpg": ["one", "two"], "val2014/b.jpg": ["three"]}
    karpathy = read_corpus(write(tmp_path, as_karpathy(images)))
    assert [image.id for image in karpathy.images] == ["0", "1"]
    assert [caption.id for caption in karpathy.captions] == ["100", "101", "102"]
    blip = read_corpus(write(tmp_path, as_blip(images)))
    assert [image.id for image in blip.images] == list(images)
    assert [caption.id for caption in blip.captions] == [
        "val2014/a.jpg#0",
        "val2014/a.jpg#1",
        "val2014/b.jpg#0",
    ]


def test_karpathy_falls_to_imgid_and_counted_captions(tmp_path: Path) -> None:
    entries = [
        {"filename": f"{n}.jpg", "split": "test", "imgid": n + 7, "sentences": [{"raw": "x"}, {"raw": "y"}]}
        for n in range(2)
    ]
    corpus = read_corpus(write(tmp_path, json.dumps({"images": entries})))
    assert [image.id for image in corpus.images] == ["7", "8"]
    assert [caption.id for caption in corpus.captions] == ["7#0", "7#1", "8#0", "8#1"]


def test_karpathy_reads_the_split_asked_for(tmp_path: Path) -> None:
    document = json.loads(as_karpathy({f"{n}.jpg": [f"caption {n}"] for n in range(4)}))
    for entry, split in zip(document["images"], ["train", "val", "test", "val"], strict=True):
        entry["split"] = split
    path = write(tmp_path, json.dumps(document), "dataset_coco.json")
    assert [image.file for image in read_corpus(path).images] == ["2.jpg"]
    assert [image.file for image in read_corpus(path, split="val").images] == ["1.jpg", "3.jpg"]
    assert len(read_corpus(path, split="all").images) == 4
    assert load_corpus(path, split="val").corpus.name == "dataset_coco-val"
    with pytest.raises(InputError, match=r"unknown split 'vall'; did you mean 'val'.*val \(2 images\)"):
        read_corpus(path, split="vall")


def test_a_split_is_refused_where_there_are_none(tmp_path: Path) -> None:
    path = write(tmp_path, as_csv({"a.jpg": ["x"]}))
    with pytest.raises(InputError, match=r"--split val: a table file has no splits"):
        read_corpus(path, split="val")
    assert read_corpus(path, split="all").captions


def test_images_without_captions_are_kept(tmp_path: Path) -> None:
    images: Captioned = {"a.jpg": [], "b.jpg": ["x"], "c.jpg": []}
    for layout in (as_karpathy, as_coco):
        corpus = read_corpus(write(tmp_path, layout(images)))
        assert [len(rows) for rows in corpus.captions_of_image] == [0, 1, 0]


def test_coco_captions_stay_in_the_order_of_the_file(tmp_path: Path) -> None:
    document = json.loads(as_coco({"a.jpg": ["one", "two"], "b.jpg": ["three"]}))
    document["annotations"].reverse()
    corpus = read_corpus(write(tmp_path, json.dumps(document)))
    assert [caption.text for caption in corpus.captions] == ["three", "two", "one"]
    assert corpus.image_of_caption.tolist() == [1, 0, 0]


def test_rows_of_one_image_need_not_be_together(tmp_path: Path) -> None:
    path = write(tmp_path, "image,caption\na.jpg,one\nb.jpg,two\n\n./a.jpg,three\n")
    corpus = read_corpus(path)
    assert content(corpus) == {"a.jpg": ["one", "three"], "b.jpg": ["two"]}
    assert [caption.id for caption in corpus.captions] == ["a.jpg#0", "b.jpg#0", "a.jpg#1"]


def test_json_lines_keep_a_line_separator_inside_a_text(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"image": "a.jpg", "caption": "one\u2028two\u0085"}\r\n{"image": "a.jpg", "caption": "x"}\r\n',
    )
    assert content(read_corpus(path)) == {"a.jpg": ["one\u2028two\u0085", "x"]}


@pytest.mark.parametrize("normalisation", ["raw", "pre_caption"])
def test_normalisation_is_applied_to_both_sides_and_recorded(tmp_path: Path, normalisation: str) -> None:
    originals = [f"A big-eyed Dog, number {k}." for k in "abcde"]
    fakes = [f"a big-eyed CAT , number {k}" for k in "abcde"]
    corpus, adversarials = read_rococo(write(tmp_path, as_blip({"a.jpg": originals + fakes})), normalisation)
    assert corpus.normalisation == normalisation
    raw = normalisation == "raw"
    assert corpus.captions[0].text == ("A big-eyed Dog, number a." if raw else "a big eyed dog, number a")
    assert adversarials[4].text == ("a big-eyed CAT , number e" if raw else "a big eyed cat , number e")


WORDS = ["small", "red", "old", "wooden", "green", "near", "road", "tree", "table", "water", "running", "sky"]


def sentences(generator: random.Random, count: int) -> list[str]:
    """Different descriptions of one scene: they share a subject and common words, as real captions do."""
    subject = generator.choice(["dog", "man", "train", "kitchen"])
    picks = [generator.sample(WORDS, generator.randint(4, 8)) for _ in range(count)]
    return [f"A {subject} {' '.join(words)} on the hill." for words in picks]


def replace_words(generator: random.Random, text: str, count: int) -> str:
    words = text.lower().rstrip(".").split()
    for place in generator.sample(range(len(words)), min(count, len(words) - 1)):
        words[place] = generator.choice(["zebra", "mine", "weapon", "lava"])
    return " ".join(words)


@pytest.mark.parametrize("captions", [10, 11, 15, 20])
@pytest.mark.parametrize("images", [3, 200])
def test_a_plain_list_with_many_captions_is_blip(captions: int, images: int) -> None:
    generator = random.Random(images * 100 + captions)
    entries = {f"{n}.jpg": sentences(generator, captions) for n in range(images)}
    assert detect(as_blip(entries)) == "blip"


@pytest.mark.parametrize("originals", [5, 6])
@pytest.mark.parametrize("changed", [0, 1, 3])
@pytest.mark.parametrize("images", [2, 200])
def test_altered_copies_in_order_are_rococo(originals: int, changed: int, images: int) -> None:
    generator = random.Random(changed)
    entries = {}
    for n in range(images):
        texts = sentences(generator, originals)
        entries[f"{n}.jpg"] = texts + [replace_words(generator, text, changed) for text in texts[:5]]
    assert detect(as_blip(entries)) == "rococo"


def test_a_damaged_rococo_file_is_not_read_as_a_plain_list(tmp_path: Path) -> None:
    generator = random.Random(0)
    entries = {}
    for n in range(50):
        texts = sentences(generator, 5)
        entries[f"{n}.jpg"] = texts + [replace_words(generator, text, 1) for text in texts]
    entries["17.jpg"].pop()
    with pytest.raises(InputError, match=r"entry 17 .*has 9 texts; expected 10 or more in a RoCOCO file"):
        read_corpus(write(tmp_path, as_blip(entries)))


def test_a_list_between_the_two_asks_for_the_reader(tmp_path: Path) -> None:
    generator = random.Random(0)
    entries = {}
    for n in range(40):
        texts = sentences(generator, 5)
        copies = texts if n % 3 else sentences(generator, 5)
        entries[f"{n}.jpg"] = texts + [replace_words(generator, text, 1) for text in copies]
    path = write(tmp_path, as_blip(entries))
    with pytest.raises(InputError, match=r"could be blip or rococo .*say which with --reader"):
        read_corpus(path)
    assert len(read_corpus(path, reader="blip").captions) == 400
    assert len(read_corpus(path, reader="rococo").captions) == 200


def test_nearest_means_strictly_nearest() -> None:
    assert copies_at_original(["a b", "c d", "e f", "g h", "i j"] * 2) == [True] * 5
    assert copies_at_original(["a b"] * 10) == [False] * 5
    assert copies_at_original(["a b", "c d", "e f", "g h", "i j", "c d", "a b", "e x", "y z", ""]) == [
        False,
        False,
        True,
        False,
        False,
    ]


def detect(text: str) -> str:
    reader, _ = detect_reader(Document(Path("x"), text, value=json.loads(text)))
    return reader.name


def test_every_reader_shows_its_layout() -> None:
    assert set(READERS) == {"karpathy", "blip", "rococo", "coco_captions", "fine_grained", "table", "precomp"}
    assert all(reader.layout and name == reader.name for name, reader in READERS.items())


def test_an_unknown_reader_is_met_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown reader 'rococco'; did you mean 'rococo'"):
        read_corpus(tmp_path, reader="rococco")
