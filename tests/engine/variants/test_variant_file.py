"""A variant as a file: what is written is read back the same, and what is wrong with a file is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.corpus.corpus import Caption, Corpus, ImageItem
from engine.errors import InputError
from engine.variants import variant_file_reader
from engine.variants.registry import make_variant, parse_spec, split_specs
from engine.variants.variant import VariantItem, VariantItems
from engine.variants.variant_file import Header, file_lines, header_of
from engine.variants.variant_file_reader import read_header, read_variant_file

VERSIONS = {"itrstress": "1"}
WORDS = ("a red dog on a mat", "two cats .", "!", "a dog's bed\u2028and a hat")

Edit = Callable[[list[dict[str, Any]]], object]


@pytest.fixture
def corpus() -> Corpus:
    images = tuple(ImageItem(f"i{n}", f"{n}.png") for n in range(4))
    return Corpus("test", images, tuple(Caption(f"c{n}", text, n) for n, text in enumerate(WORDS)))


def content_of(spec: str, corpus: Corpus) -> bytes:
    chosen, parameters = parse_spec(spec)
    variant = make_variant(spec)
    items = variant.apply(corpus)
    header = header_of(variant, items, corpus, family=chosen.name, parameters=parameters, versions=VERSIONS)
    return b"".join(file_lines(header, items, corpus))


def written(spec: str, corpus: Corpus, folder: Path) -> Path:
    path = folder / "variant.jsonl"
    path.write_bytes(content_of(spec, corpus))
    return path


def edited(path: Path, edit: Edit) -> Path:
    records = [json.loads(line) for line in path.read_bytes().splitlines()]
    edit(records)
    path.write_bytes(b"".join(json.dumps(record).encode() + b"\n" for record in records))
    return path


SPECS = (
    *("char_swap:seed=3", "distraction_true", "shuffle_all_words:mode=paper"),
    *("mix:0.9:seed=2", "patch:0.8:mode=paper:seed=1", "reencode", "occlude:2:3"),
)


@pytest.mark.parametrize("spec", SPECS)
def test_a_file_gives_the_variant_back(spec: str, corpus: Corpus, tmp_path: Path) -> None:
    path, variant = written(spec, corpus, tmp_path), make_variant(spec)
    again = make_variant(f"file:{path}")
    assert (again.name, again.side, again.modality) == (variant.name, variant.side, variant.modality)
    assert again.apply(corpus) == variant.apply(corpus)
    assert path.read_bytes() == content_of(spec, corpus)


def test_the_header_says_what_the_file_is(corpus: Corpus, tmp_path: Path) -> None:
    path = written("patch:0.80:seed=7", corpus, tmp_path)
    assert json.loads(path.read_bytes().splitlines()[0]) == {
        "itrstress_variant": 1,
        "name": "patch:0.8:seed=7",
        "family": "patch",
        "parameters": {"level": "0.8", "mode": "default", "seed": 7},
        "seed": 7,
        "side": "gallery",
        "modality": "images",
        "corpus": {
            "name": "test", "fingerprint": corpus.fingerprint, "normalisation": "raw",
            "images": 4, "captions": 4,
        },
        "items": 4,
        "left_out": 0,
        "changed_rate": 1.0,
        "made_with": {},
        "versions": VERSIONS,
    }  # fmt: skip
    assert read_header(path).seed == 7


@pytest.mark.parametrize("parameters", [{}, {"seed": None}, {"seed": 7}])
def test_the_seed_may_stand_in_either_place(
    parameters: dict[str, Any], corpus: Corpus, tmp_path: Path
) -> None:
    path = edited(written("patch:0.8:seed=7", corpus, tmp_path), _set(0, parameters=parameters))
    assert read_header(path).seed == 7
    assert read_header(edited(path, _set(0, seed=None))).seed == parameters.get("seed")


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
values = st.recursive(st.none() | st.booleans() | st.integers() | texts, st.lists, max_leaves=5)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_items_come_back(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    captions = tuple(
        Caption(name, text, 0)
        for name, text in data.draw(
            st.dictionaries(texts.filter(bool), texts, min_size=1, max_size=4)
        ).items()
    )
    corpus = Corpus("any", (ImageItem("i", "i.png"),), captions)
    rows = data.draw(st.lists(st.integers(0, len(captions) - 1), min_size=1, max_size=6))
    changed = [True, *(data.draw(st.booleans()) for _ in rows[1:])]
    items = VariantItems(
        tuple(
            VariantItem(
                f"{n}", row,
                f"{captions[row].text}{data.draw(texts)} other" if differs else captions[row].text,
                differs, data.draw(st.dictionaries(texts, values, max_size=3)),
            )
            for n, (row, differs) in enumerate(zip(rows, changed, strict=True))
        ),
        {row: data.draw(texts) for row in range(len(captions)) if row not in rows},
        data.draw(st.dictionaries(texts, values, max_size=2)),
    )  # fmt: skip
    header = Header(
        "any:seed=1", "gallery", "captions", corpus.name, corpus.fingerprint, "raw",
        {"images": 1, "captions": len(captions)}, len(items.items), len(items.left_out), items.changed_rate,
        made_with=items.made_with,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("any") / "file.jsonl"
    path.write_bytes(b"".join(file_lines(header, items, corpus)))
    assert read_variant_file(path, corpus) == (header, items)


# ---------------------------------------------------------------- files that are not right


def _set(number: int, **fields: Any) -> Edit:
    return lambda records: records[number].update(fields)


def _drop(number: int, name: str) -> Edit:
    return lambda records: records[number].pop(name)


def _corpus(**fields: Any) -> Edit:
    return lambda records: records[0]["corpus"].update(fields)


def _image(number: int, name: str, **fields: Any) -> Edit:
    return lambda records: records[number]["recipe"][name].update(fields)


CAPTIONS, IMAGES = "char_swap:seed=3", "mix:0.9:seed=2"
FAULTS: tuple[tuple[str, Edit, str], ...] = (
    (CAPTIONS, _drop(0, "itrstress_variant"), "line 1: no field 'itrstress_variant'; expected 1"),
    (CAPTIONS, _set(0, itrstress_variant=2), "line 1: a number (2) in the field 'itrstress_variant'"),
    (CAPTIONS, _drop(0, "name"), "line 1: field 'name' is missing"),
    (CAPTIONS, _set(0, name="a/b"), "line 1: field 'name' is 'a/b'; expected a variant's name"),
    (CAPTIONS, _set(0, name="original"), "line 1: field 'name' is 'original'"),
    (CAPTIONS, _set(0, name="x" * 300), "line 1: field 'name' is longer than 255 bytes"),
    (CAPTIONS, _set(0, side="left"), "field 'side' is text ('left'); expected gallery or query"),
    (CAPTIONS, _set(0, modality=[]), "field 'modality' is an empty list; expected captions or images"),
    (CAPTIONS, _set(0, items=-1), "field 'items' is a number (-1); expected a whole number"),
    (CAPTIONS, _set(0, items=True), "field 'items' is true"),
    (CAPTIONS, _set(0, items=5), "4 items; expected 5 as in its header"),
    (CAPTIONS, _set(0, items=3), "line 5: one item more than the 3 of the header"),
    (CAPTIONS, _set(0, left_out=1), "0 originals left out; expected 1"),
    (CAPTIONS, _set(0, changed_rate=1), "changed rate 0.7500; expected 1.0000 as in its header"),
    (
        CAPTIONS,
        _set(0, changed_rate=2),
        "field 'changed_rate' is a number (2); expected a number from 0 to 1",
    ),
    (CAPTIONS, _set(0, itrstress_variant=True), "line 1: true in the field 'itrstress_variant'"),
    *(
        (CAPTIONS, _set(0, seed=seed), f"line 1: field 'seed' is {found}; expected a whole number from 0 up")
        for seed, found in (
            ("7", "text ('7')"),
            (7.0, "a number (7.0)"),
            (-1, "a number (-1)"),
            (True, "true"),
        )
    ),
    (CAPTIONS, _set(0, parameters={"seed": "3"}), "field 'parameters': field 'seed' is text ('3')"),
    (CAPTIONS, _set(0, seed=4), "line 1: field 'seed' is not the seed among the parameters"),
    (CAPTIONS, _set(0, family=3), "line 1: field 'family' is a number (3); expected text"),
    (CAPTIONS, _set(0, parameters=[]), "line 1: field 'parameters': found an empty list; expected an object"),
    (CAPTIONS, _set(0, made_with="x"), "line 1: field 'made_with': found text ('x'); expected an object"),
    (CAPTIONS, _set(0, versions=[]), "line 1: field 'versions': found an empty list"),
    (CAPTIONS, _set(0, versions={"nltk": 3}), "field 'versions': 'nltk' is a number (3); expected text"),
    (CAPTIONS, _set(0, seeds=3), "line 1: unknown field 'seeds'; did you mean 'seed'?"),
    (CAPTIONS, _set(0, corpus=[]), "line 1: field 'corpus': found an empty list; expected an object"),
    (CAPTIONS, _corpus(nmae="x"), "line 1: field 'corpus': unknown field 'nmae'; did you mean 'name'?"),
    (CAPTIONS, _corpus(captions="4"), "field 'corpus': field 'captions' is text ('4')"),
    (CAPTIONS, _corpus(name=None), "field 'corpus': 'name' is null; expected text"),
    (CAPTIONS, _corpus(fingerprint="0" * 64), "made from the corpus 'test' (fingerprint 000000000..."),
    (CAPTIONS, _corpus(fingerprint="0", normalisation="pre_caption"), "use --normalisation pre_caption"),
    (
        CAPTIONS,
        _set(2, original="c9"),
        "line 3: original 'c9' is none of the 4 captions of the corpus 'test'",
    ),
    (CAPTIONS, _set(2, original="i1"), "line 3: original 'i1' is none of the 4 captions"),
    (CAPTIONS, _set(2, original=[]), "line 3: field 'original' is an empty list"),
    (CAPTIONS, _set(3, original="c0"), "line 4: a second item of one original"),
    (CAPTIONS, _set(2, id="c0@char_swap:seed=3"), "is that of line 2, too"),
    (CAPTIONS, _set(2, id=""), "line 3: field 'id' is text (''); expected"),
    (CAPTIONS, _set(2, text=3), "line 3: field 'text' is a number (3); expected text"),
    (CAPTIONS, _set(2, text="\ud800"), "line 3: field 'text' holds a NUL or half a surrogate pair"),
    (CAPTIONS, _drop(2, "text"), "line 3: field 'text' is missing"),
    (CAPTIONS, _set(2, chnage={}), "line 3: unknown field 'chnage'; did you mean 'change'?"),
    (CAPTIONS, _set(2, recipe={}), "line 3: unknown field 'recipe'"),
    (CAPTIONS, _set(2, changed=1), "line 3: field 'changed' is a number (1); expected true or false"),
    (
        CAPTIONS,
        _set(2, text="two cats ."),
        "line 3: field 'changed' is true, but the text is that of its original; expected false",
    ),
    (CAPTIONS, _set(3, text="?"), "line 4: field 'changed' is false, but the text says something else"),
    (CAPTIONS, _set(2, changed=False), "line 3: field 'changed' is false, but the text says something else"),
    (CAPTIONS, _set(2, change=[1]), "line 3: field 'change': found a list of 1; expected an object"),
    (CAPTIONS, _set(2, change={"x": float("nan")}), "line 3: not valid JSON"),
    (CAPTIONS, _set(2, left_out="why"), "line 3: unknown field 'id'"),
    (IMAGES, _set(2, recipe="mix"), "line 3: field 'recipe': found text ('mix'); expected an object"),
    (IMAGES, _set(2, recipe={"kind": "mux"}), "line 3: unknown image recipe 'mux'; did you mean 'mix'?"),
    (IMAGES, _image(2, "fake", row=4), "which the corpus 'test' has not there"),
    (IMAGES, _image(2, "fake", id="i9"), "line 3: the recipe draws from image 'i9' in row"),
    (IMAGES, _image(2, "original", row=0, id="i0"), "expected the item's original 'i1'"),
)


@pytest.mark.parametrize(("spec", "edit", "message"), FAULTS)
def test_a_fault_is_one_line_with_its_place(
    spec: str, edit: Edit, message: str, corpus: Corpus, tmp_path: Path
) -> None:
    path = edited(written(spec, corpus, tmp_path), edit)
    with pytest.raises(InputError) as caught:
        make_variant(f"file:{path}").apply(corpus)
    found = str(caught.value)
    assert message in found
    assert found.startswith(str(path))
    assert "\n" not in found
    assert len(found) < len(str(path)) + 350


@pytest.mark.parametrize("text", ["two cats .", "two  cats.", "Two cats"])
def test_spacing_case_and_full_stops_may_be_no_change(text: str, corpus: Corpus, tmp_path: Path) -> None:
    def undo(records: list[dict[str, Any]]) -> None:
        records[0].update(changed_rate=0.5)
        records[2].update(changed=False, text=text)
        records[3].update(text=" ! ")

    _, items = read_variant_file(edited(written(CAPTIONS, corpus, tmp_path), undo), corpus)
    assert [item.changed for item in items.items] == [True, False, False, True]


def _left_out_twice(records: list[dict[str, Any]]) -> None:
    records[0].update(items=3, left_out=2, changed_rate=1.0)
    records[3] = {"original": "c2", "left_out": "why"}
    records.append(records[3])


def _left_out_and_there(records: list[dict[str, Any]]) -> None:
    records[0].update(left_out=1)
    records.insert(1, {"original": "c2", "left_out": "why"})


@pytest.mark.parametrize(
    ("edit", "message"),
    [(_left_out_twice, "line 6: original 'c2' is there before"), (_left_out_and_there, "left out in a line")],
)
def test_an_original_has_items_or_a_reason(edit: Edit, message: str, corpus: Corpus, tmp_path: Path) -> None:
    path = edited(written(CAPTIONS, corpus, tmp_path), edit)
    with pytest.raises(InputError, match=message):
        read_variant_file(path, corpus)


def _raw(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_raw(lambda data: b""), "line 1: no header of a variant"),
        (_raw(lambda data: b"[1]\n"), "line 1: no header of a variant"),
        (_raw(lambda data: data[:-9]), "line 5: not valid JSON"),
        (_raw(lambda data: data.replace(b"two", b"\xff")), "line 3: not UTF-8"),
        (_raw(lambda data: data + b"\n"), "line 6: not valid JSON"),
        (
            _raw(lambda data: data + b'{"id":"a","id":"b"}\n'),
            "line 6: not valid JSON (the key 'id' stands twice",
        ),
        (_raw(lambda data: data + b"[" * 1900 + b"\n"), "line 6: not valid JSON"),
        (_raw(lambda data: data + b"x" * 3000 + b"\n"), "line 6: longer than 2,048 bytes"),
        (_raw(lambda data: data.replace(b"\n", b"\n\n")), "line 2: not valid JSON"),
        (lambda path: path.write_bytes(path.read_bytes() * 99), "bytes; expected 50,000 at most"),
        (Path.unlink, "no such file"),
        (
            lambda path: (path.unlink(), os.mkfifo(path)),
            "is a pipe; expected a file of `itrstress variants make`",
        ),
        (lambda path: (path.unlink(), path.mkdir()), "is a folder"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(
    spoil: Callable[[Path], object],
    message: str,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(variant_file_reader, "LONGEST_LINE", 2048)
    monkeypatch.setattr(variant_file_reader, "LARGEST_FILE", 50_000)
    path = written(CAPTIONS, corpus, tmp_path)
    spoil(path)
    with pytest.raises(InputError) as caught:
        read_variant_file(path, corpus)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_changes_nothing_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    def undo(records: list[dict[str, Any]]) -> None:
        records[0]["changed_rate"] = 0
        for record, text in zip(records[1:], WORDS, strict=True):
            record.update(changed=False, text=text)

    path = edited(written(CAPTIONS, corpus, tmp_path), undo)
    with pytest.raises(InputError, match="changed rate 0"):
        read_variant_file(path, corpus)


def test_another_corpus_is_refused_even_with_the_same_ids(corpus: Corpus, tmp_path: Path) -> None:
    path = written(IMAGES, corpus, tmp_path)
    other = Corpus("other", corpus.images[::-1], corpus.captions)
    with pytest.raises(
        InputError, match="it has 4 images and 4 captions, the corpus 4 and 4; use that corpus"
    ):
        read_variant_file(path, other)


# ---------------------------------------------------------------- lists of specs


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("mix:0.9", ["mix:0.9"]),
        ("mix:0.9:seed=1,patch:0.8", ["mix:0.9:seed=1", "patch:0.8"]),
        ("rococo:a,b.json,mix:0.9", ["rococo:a,b.json", "mix:0.9"]),
        ("file:a.jsonl,reencode,rococo:x", ["file:a.jsonl", "reencode", "rococo:x"]),
        ("mix:0.9,ptch:0.8", ["mix:0.9", "ptch:0.8"]),
        ("mix:0.9,", ["mix:0.9", ""]),
    ],
)
def test_a_comma_parts_specs_but_not_paths(text: str, specs: list[str]) -> None:
    assert split_specs(text) == specs


def test_mappings_of_parameters_are_plain(corpus: Corpus, tmp_path: Path) -> None:
    odd = Path(os.fsdecode(b"w\xff.json"))
    parameters: Mapping[str, Any] = {
        "file": tmp_path / "words.json",
        "groups": frozenset({"b", "a"}),
        "odd": odd,
    }
    variant = make_variant(CAPTIONS)
    items = variant.apply(corpus)
    header = header_of(variant, items, corpus, family="x", parameters=parameters, versions=VERSIONS)
    path = tmp_path / "variant.jsonl"
    path.write_bytes(b"".join(file_lines(header, items, corpus)))
    assert read_header(path).parameters == {"file": "words.json", "groups": ["a", "b"], "odd": "w\\xff.json"}
