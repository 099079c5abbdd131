"""Vocabularies: the JSON form, pickles of Python 2 and 3, and pickles that would run code."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.encoders.vocabulary import MASK, choose_vocabulary, find_vocabularies, read_vocabulary
from engine.errors import InputError

IDS = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4, "caf\u00e9": 5}


def python2_pickle(ids: dict[str, int], new_style: bool = True) -> bytes:
    """What Python 2's cPickle writes for ``__main__.Vocabulary``: byte strings, no frame."""
    words = b"".join(
        b"U" + bytes([len(word.encode("latin1"))]) + word.encode("latin1") + b"K" + bytes([row])
        for word, row in ids.items()
    )
    attributes = b"}(U\x08word2idx}(" + words + b"uU\x03idxK" + bytes([len(ids)]) + b"U\x08idx2word}u"
    made = b"c__main__\nVocabulary\n)\x81" if new_style else b"(c__main__\nVocabulary\no"
    return b"\x80\x02" + made + attributes + b"b."


def python2_text_pickle(ids: dict[str, int]) -> bytes:
    """Protocol 0 of a class that derives from object: it goes through ``copy_reg._reconstructor``."""
    words = "".join(
        f"S'{word.encode('unicode_escape').decode('ascii')}'\nI{row}\ns" for word, row in ids.items()
    )
    return (
        "ccopy_reg\n_reconstructor\n(c__main__\nVocabulary\nc__builtin__\nobject\nNtR(dS'word2idx'\n(d"
        + words
        + "sb."
    ).encode("latin1")


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"word2idx": IDS, "idx2word": {}, "idx": 6}).encode(),
        python2_pickle(IDS),
        python2_pickle(IDS, new_style=False),
        python2_text_pickle(IDS),
        pickle.dumps({"word2idx": IDS}),
    ],
    ids=["json", "python 2", "python 2 old class", "protocol 0", "a pickled dict"],
)
def test_every_published_form_gives_the_same_words(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "words"
    path.write_bytes(data)

    vocabulary = read_vocabulary(path)

    assert vocabulary.ids == IDS
    assert len(vocabulary) == 6
    assert vocabulary.encode(["dog", "nothing", "caf\u00e9"]) == [1, 4, 3, 5, 2]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_pickles_of_python_3_in_every_protocol(
    tmp_path: Path, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = type("Vocabulary", (), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Vocabulary", made, raising=False)
    value = made()
    value.word2idx, value.idx = IDS, 6
    (tmp_path / "words.pkl").write_bytes(pickle.dumps(value, protocol=protocol))
    monkeypatch.undo()

    assert read_vocabulary(tmp_path / "words.pkl").ids == IDS


class RunsCode:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_would_run_code_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    path, target = tmp_path / "words.pkl", tmp_path / "ran"
    path.write_bytes(pickle.dumps({"word2idx": IDS, "more": RunsCode(target)}, protocol=protocol))

    with pytest.raises(
        InputError, match=r"refused: this pickle asks for posix\.system, which could run code"
    ):
        read_vocabulary(path)
    assert not target.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"cbuiltins\ngetattr\n(c__main__\nVocabulary\nS'__class__'\ntR.",
        b"ccopy_reg\n_reconstructor\n(c__builtin__\nobject\nc__builtin__\nobject\nNtR.",
        b"\x80\x02ccollections\nOrderedDict\n)R.",
        b"\x80\x04\x8c\x08builtins\x8c\x04exec\x93.",
    ],
)
def test_other_callables_are_refused_by_name(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "words.pkl").write_bytes(data)
    with pytest.raises(InputError, match="refused"):
        read_vocabulary(tmp_path / "words.pkl")


def test_a_file_cannot_change_how_the_next_one_is_read(tmp_path: Path) -> None:
    """A state for the class itself, with slots: it would set attributes of the class."""
    hostile = b"\x80\x02c__main__\nVocabulary\n(N}U\x0c__setstate__c__main__\nVocabulary\nstb."
    pickletools.dis(hostile, out=open(os.devnull, "w"))  # noqa: PTH123, SIM115 - it is a whole pickle
    (tmp_path / "bad.pkl").write_bytes(hostile)
    with pytest.raises(InputError):
        read_vocabulary(tmp_path / "bad.pkl")

    (tmp_path / "good.pkl").write_bytes(python2_pickle(IDS))
    assert read_vocabulary(tmp_path / "good.pkl").ids == IDS


def test_a_memo_index_cannot_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "words.pkl").write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")
    tracemalloc.start()
    with pytest.raises(InputError, match="no 'word2idx'"):
        read_vocabulary(tmp_path / "words.pkl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(min_size=1, max_size=60))
@example(python2_pickle(IDS)[:-5])
@example(b"(" * 60)
@example(b"{" + b"[" * 50)
def test_no_bytes_give_anything_but_an_input_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "words").write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_vocabulary(tmp_path / "words")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ({}, "no words"),
        ({"<start>": 0, "<end>": 1}, "the word '<unk>' is missing"),
        ({**IDS, "cat": 9}, "not 0 to 6, each once"),
        ({**IDS, "cat": 5}, "not 0 to 6, each once"),
        ({**IDS, "cat": "6"}, "word 'cat' has the id '6'"),
        ({**IDS, "cat": True}, "word 'cat' has the id True"),
    ],
)
def test_ids_that_are_no_rows_of_a_table_are_named(tmp_path: Path, ids: dict[str, Any], said: str) -> None:
    (tmp_path / "words.json").write_text(json.dumps({"word2idx": ids}))
    with pytest.raises(InputError, match=said):
        read_vocabulary(tmp_path / "words.json")


def test_the_vocabulary_is_chosen_by_size(tmp_path: Path) -> None:
    more = {**IDS, "cat": 6}
    (tmp_path / "a_vocab.json").write_text(json.dumps({"word2idx": IDS}))
    (tmp_path / "b_vocab.pkl").write_bytes(python2_pickle(more))
    (tmp_path / "other.json").write_text("not a vocabulary")
    found = find_vocabularies([tmp_path])

    assert choose_vocabulary(found, 6, "x.pth").ids == IDS
    assert choose_vocabulary(found, 7, "x.pth").ids == more
    with pytest.raises(
        InputError, match=r"x\.pth: needs a vocabulary of 8 words; .*a_vocab\.json has 6, .* has 7"
    ):
        choose_vocabulary(found, 8, "x.pth")
    with pytest.raises(InputError, match="none is beside it"):
        choose_vocabulary([], 8, "x.pth")


def test_two_vocabularies_of_one_size_that_differ_are_an_error(tmp_path: Path) -> None:
    """VSRN's and SCAN's vocabularies of one data set agree in the special words only."""
    swapped = {**IDS, "dog": 5, "caf\u00e9": 4}
    (tmp_path / "a_vocab.json").write_text(json.dumps({"word2idx": IDS}))
    (tmp_path / "b_vocab.json").write_text(json.dumps({"word2idx": swapped}))
    with pytest.raises(InputError, match="6 words each and differ"):
        choose_vocabulary(find_vocabularies([tmp_path]), 6, "x.pth")


def test_a_word_added_behind_has_the_next_id(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text(json.dumps({"word2idx": IDS}))
    extended = read_vocabulary(tmp_path / "words.json").with_word(MASK)
    assert extended.ids[MASK] == 6
    assert len(extended) == 7
