"""The facts of `corpus inspect` against slow oracles, and what the command shows and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from engine.cli.main import run
from engine.corpus import AdversarialCaption, Caption, Corpus, ImageItem, LoadedCorpus, load_corpus
from engine.corpus.inspect import (
    COMPARISONS,
    captions_per_image,
    compare_adversarials,
    inspect_corpus,
    inspect_images,
    repeat_facts,
    surface_facts,
)

few_texts = st.text(st.sampled_from("aA. \n"), max_size=3)


def make_corpus(captions: list[tuple[int, str]], images: int = 3) -> Corpus:
    return Corpus(
        "made",
        tuple(ImageItem(f"i{n}", f"{n}.png") for n in range(images)),
        tuple(Caption(f"c{n}", text, image) for n, (image, text) in enumerate(captions)),
    )


@given(st.lists(st.tuples(st.integers(0, 2), few_texts), max_size=12), st.sampled_from(list(COMPARISONS)))
def test_repeats_are_counted_as_by_hand(captions: list[tuple[int, str]], comparison: str) -> None:
    form = COMPARISONS[comparison]
    formed = [(image, form(text)) for image, text in captions]
    facts = repeat_facts(make_corpus(captions), form)
    assert facts.occurrences == sum(text in [t for _, t in formed[:n]] for n, (_, text) in enumerate(formed))
    distinct = {text for _, text in formed}
    assert facts.across_images == sum(len({i for i, t in formed if t == text}) > 1 for text in distinct)
    assert facts.within_image == sum(any(formed.count((i, text)) > 1 for i in range(3)) for text in distinct)


@given(
    st.lists(st.tuples(st.integers(0, 2), few_texts), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), few_texts), max_size=8),
    st.sampled_from(list(COMPARISONS)),
)
def test_adversarials_are_compared_as_by_hand(
    captions: list[tuple[int, str]], fakes: list[tuple[int, str]], comparison: str
) -> None:
    form = COMPARISONS[comparison]
    items = tuple(
        AdversarialCaption(f"a{n}", text, row % len(captions)) for n, (row, text) in enumerate(fakes)
    )
    facts = compare_adversarials(LoadedCorpus(make_corpus(captions), items, "rococo", "", None), form)
    own = other = unchanged = 0
    for item in items:
        image, text = captions[item.original]
        unchanged += form(text) == form(item.text)
        own += any(form(t) == form(item.text) for i, t in captions if i == image)
        other += any(form(t) == form(item.text) for i, t in captions if i != image)
    assert (facts.unchanged, facts.same_as_own_image, facts.same_as_other_image) == (unchanged, own, other)
    assert facts.repeats == len(items) - len({form(item.text) for item in items})


def test_surface_by_example() -> None:
    facts = surface_facts(["A dog. ", " a dog\n", "caf\xe9  au lait", "\t", "", "two\nlines."])
    assert facts.texts == 6
    assert (facts.trailing_white_space, facts.trailing_space) == (3, 1)
    assert (facts.leading_white_space, facts.leading_space) == (2, 1)
    assert (facts.newline, facts.double_space, facts.final_full_stop) == (2, 1, 2)
    assert (facts.upper_case, facts.non_ascii, facts.empty) == (1, 1, 2)


def test_the_histogram_counts_images_without_captions() -> None:
    assert captions_per_image(make_corpus([(0, "a"), (2, "b"), (2, "c")], images=4)) == {0: 2, 1: 1, 2: 1}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Six entries, five bad in five ways or fine, in a folder beside their BLIP list."""
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (8, 8), (200, 0, 0)).save(folder / "good.png")
    Image.new("RGB", (8, 8)).save(folder / "named.png")
    (folder / "zero.png").touch()
    (folder / "text.png").write_text("no image")
    (folder / "out.png").symlink_to(tmp_path / "list.json")
    entries = [
        "good.png",
        "val/named.png",
        "test/named.png",
        "zero.png",
        "text.png",
        "out.png",
        "gone[red].png",
    ]
    (tmp_path / "list.json").write_text(
        json.dumps([{"image": file, "caption": [f"a {n}", "b"]} for n, file in enumerate(entries)])
    )
    return tmp_path


def test_every_image_file_is_accounted_for(pictures: Path) -> None:
    done: list[None] = []
    corpus = load_corpus(pictures / "list.json").corpus
    facts = inspect_images(corpus, pictures / "images", workers=3, on_image=lambda: done.append(None))
    assert facts.readable == 3
    assert (facts.by_path, facts.by_name) == (2, 2)
    assert facts.missing == ("gone[red].png",)
    assert [image.file for image in facts.unreadable] == ["zero.png", "text.png", "out.png"]
    assert "0 bytes" in facts.unreadable[0].reason
    assert "link out" in facts.unreadable[2].reason
    assert list(facts.shared.values()) == [("val/named.png", "test/named.png")]
    assert len(done) == len(corpus.images)


def test_the_command_names_what_is_wrong(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["corpus", "inspect", str(pictures / "list.json"), "--images", str(pictures / "images")]) == 0
    printed = capsys.readouterr()
    for words in (
        "layout      blip (",
        "missing  gone[red].png",
        "unreadable  zero.png: ",
        "val/named.png, test/named.png",
    ):
        assert words in printed.out
    assert "decoded: 7 images" in printed.err
    assert "\x1b" not in printed.out + printed.err  # plain when it is no terminal


def test_a_terminal_sees_the_same_facts(
    pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes every stream for a terminal
    monkeypatch.setenv("TERM", "xterm")
    assert run(["corpus", "inspect", str(pictures / "list.json"), "--images", str(pictures / "images")]) == 0
    printed = capsys.readouterr()
    assert "\x1b" in printed.out
    assert "gone[red].png" in printed.out
    assert "7 of 7 images" in printed.err


def test_a_file_cannot_write_to_the_terminal_with_its_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "images").mkdir()
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"image": "\x1b[31mred\n.png", "caption": ["x"]}]))
    assert run(["corpus", "inspect", str(path), "--images", str(tmp_path / "images")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert r"missing  \x1b[31mred .png" in out


def test_long_lists_are_cut_on_the_terminal_and_whole_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "images").mkdir()
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"image": f"{n}.png", "caption": ["x"]} for n in range(25)]))
    arguments = ["corpus", "inspect", str(path), "--images", str(tmp_path / "images")]
    assert run([*arguments, "--json", str(tmp_path / "out.json")]) == 0
    out = capsys.readouterr().out
    assert out.count("missing  ") == 11 + 1  # ten names, one line for the rest, one row of the table
    assert "and 15 more; --json FILE names all" in out
    assert "is it the right folder?" in out
    assert len(json.loads((tmp_path / "out.json").read_text())["image_files"]["missing"]) == 25


def test_json_holds_every_fact_and_is_not_overwritten(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["corpus", "inspect", str(pictures / "list.json")]
    target = pictures / "out.json"
    target.write_text("mine")
    assert run([*arguments, "--json", str(target)]) == 2
    assert "there already; name another file, or --force replaces it" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert run([*arguments, "--json", str(target), "--force"]) == 0
    capsys.readouterr()
    assert run([*arguments, "--json", "-"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record == json.loads(target.read_text())
    assert record["images"] == 7
    assert record["captions_per_image"] == {"2": 7}
    assert record["repeats"]["exact"] == {"occurrences": 6, "across_images": 1, "within_image": 0}
    assert not list(pictures.glob("*.partial"))


def test_findings_point_out_tell_tales_and_no_ops(tmp_path: Path) -> None:
    originals = ["A red dog.", "Two cats sit.", "The old train.", "Some green food.", "My big house."]
    fakes = ["a red bomb", "two cats sit", "the old lava", "some green mine", "my big weapon"]
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"image": "a.png", "caption": originals + fakes}]))
    inspection = inspect_corpus(load_corpus(path, reader="rococo"))
    assert inspection.adversarial is not None
    assert inspection.adversarial.changed_rate == pytest.approx(0.8)
    found = " ".join(inspection.findings())
    assert "100.0% of the originals and 0.0% of the adversarial captions end in a full stop" in found
    assert "change only case, spaces or punctuation: 1." in found
    assert "after pre_caption: 1 (before: 0)" in found


def test_options_that_do_not_exist_end_with_exit_code_2(
    pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(pictures / "list.json")
    for arguments, message in (
        (["--reader", "blipp"], "unknown reader 'blipp'; did you mean 'blip'?"),
        (
            ["--normalisation", "pre-caption"],
            "unknown text normalisation 'pre-caption'; did you mean 'pre_caption'?",
        ),
        (["--split", "val"], "--split val: a blip file has no splits"),
    ):
        assert run(["corpus", "inspect", path, *arguments]) == 2
        assert message in capsys.readouterr().err
