"""Run files: what is read, and that every error names line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.sweeps.run_file import load as module
from engine.sweeps.run_file.load import load_run_file, load_run_files
from engine.variants.registry import with_seed

GOOD = """\
checkpoints:
  - open_clip:ViT-B-32:openai
  - {model: "open_clip:local-dir:last", preprocess: openai}
corpus:
  path: corpus.json
  images: pictures
variants: ["rococo:sets/same.json", "mix:0.9"]
stores: stores
out: results
"""
LAST = "out: results"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus.json").write_text("[]")
    for name in ("pictures", "last", "elsewhere", "sets"):
        (tmp_path / name).mkdir()
    (tmp_path / "sets" / "same.json").write_text("[]")
    (tmp_path / "file").write_text("")
    return tmp_path


def load(folder: Path, text: str) -> str:
    """The error that the text gives, without the file's name."""
    file = folder / "run.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        load_run_file(file)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{file} ").removeprefix(f"{file}: ")


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "run.yaml").write_text(GOOD)
    monkeypatch.chdir(folder / "elsewhere")
    run_file = load_run_file(Path("../run.yaml"))
    assert run_file.corpus.path == folder / "corpus.json"
    assert run_file.stores == folder / "stores"
    assert run_file.variants == (f"rococo:{folder / 'sets/same.json'}", "mix:0.9:seed=0")
    assert [one.model for one in run_file.checkpoints] == [
        "open_clip:ViT-B-32:openai",
        f"open_clip:local-dir:{folder / 'last'}",
    ]
    assert [one.label for one in run_file.checkpoints] == ["open_clip:ViT-B-32:openai", "last"]
    assert run_file.directions == ("i2t", "t2i")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("out: results", "outt: results", "line 9: unknown key 'outt'; did you mean 'out'?"),
        (
            "out: results",
            "out: results\nmemory_limit: 2 pigs",
            "line 10: '2 pigs' is not a size of memory; expected one such as 1.5GiB or 800MiB",
        ),
        (
            "  images: pictures",
            "  imagess: pictures",
            "line 6: unknown key 'imagess'; did you mean 'images'?",
        ),
        (
            "preprocess: openai",
            "preproces: clip",
            "line 3: unknown key 'preproces'; did you mean 'preprocess'?",
        ),
        ("out: results\n", "", "line 1: out is missing"),
        ("  path: corpus.json\n", "", "line 5: corpus.path is missing"),
        (
            "out: results",
            "out: results\nseed: soon",
            "line 10: seed is text ('soon'); expected a whole number",
        ),
        (
            "out: results",
            "out: results\nbatch_size: 0",
            "line 10: batch_size is a number (0); expected at least 1",
        ),
        (
            "out: results",
            f"out: results\nseed: 0x{'f' * 5000}",
            "line 10: 0xf",
        ),
        (
            "out: results",
            f"out: results\nseed: {'9' * 5000}",
            f"line 10: {'9' * 37}... has 5,000 characters; expected a number of at most 40",
        ),
        ("out: results", f"out: results\nseed: {10**18}", "line 10: seed is a number (1000000000000000000)"),
        ("out: results", 'out: "a\\0b"', r"line 9: 'a\x00b' has a NUL character; leave it out"),
        ("out: results", "out: 3", "line 9: out is a number (3); expected text, in quotes"),
        ("  - open_clip:ViT-B-32:openai", "  - 12", "line 2: checkpoints[0] is a number (12); expected text"),
        (
            "out: results",
            "out: results\nties: lucky",
            "line 10: ties is text ('lucky'); expected 'optimistic', ",
        ),
        (
            "out: results",
            "out: results\ndirections: [i2t, t2t]",
            "line 10: directions[1] is text ('t2t'); expected 'i2t' or 't2i'",
        ),
        (
            "out: results",
            "out: results\ndirections: []",
            "line 10: directions is an empty list; expected at least 1 in the list",
        ),
        ("path: corpus.json", "path: gone.json", "line 5: corpus.path 'gone.json' is not there"),
        ("images: pictures", "images: gone", "line 6: corpus.images 'gone' is not there"),
        ("out: results", "out: results\nout: twice", "line 10: the key 'out' is given twice"),
        ("path: corpus.json", "path: corpus.json\n  path: b", "line 6: the key 'path' is given twice"),
        ("out: results", "out: [results", "line 10: not YAML"),
        ("out: results", "out: &here results\ndevice: *here", "line 10: the alias *here is not supported"),
        ("out: results", "out: !!python/object/apply:os.getcwd []", "line 9: not YAML"),
        ("{model: ", "{name: 'Open_clip:vit-b-32:OPENAI', model: ", "line 3: checkpoints[1] has the name"),
        ("out: results", "out: results\nbackend: fais", "line 10: unknown search backend 'fais'; did you"),
        ("out: results", "out: results\nprecision: bf61", "line 10: unknown precision 'bf61'; did you"),
        (
            "images: pictures",
            "images: pictures\n  reader: roccoo",
            "line 7: unknown reader 'roccoo'; did you",
        ),
        ("mix:0.9", "mixx:0.9", "line 7: unknown variant 'mixx'; did you mean 'mix'"),
        ("out: results", "out: 2024-13-01", "a value that YAML cannot read"),
        ("out: results", "? [a]\n: b\nout: results", "line 9: "),
        (LAST, "out: ''", "line 9: out is text (''); expected a path"),
        (LAST, "out: file", "line 9: out is 'file': "),
        (LAST, "out: file/results", "line 9: out is 'file/results': "),
        ("stores: stores", "stores: file", "line 8: stores is 'file': "),
        ("path: corpus.json", "path: ''", "line 5: corpus.path is text (''); expected a path"),
        (LAST, f"{LAST}\ndirections: [i2t, i2t]", "line 10: directions[1] is i2t once more; give it once"),
        (LAST, f"{LAST}\ndirections:\n- t2i\n- i2t\n- t2i", "line 13: directions[2] is t2i once more"),
        (LAST, f"{LAST}\ndirections: [i2t]", "line 7: variants[1] plays a part in t2i only, and directions"),
        (LAST, f"{LAST}\ndevice: gpu", "line 10: unknown device 'gpu'; "),
        (LAST, f"{LAST}\ndevice: cuda:x", "line 10: unknown device 'cuda:x'; "),
        (
            LAST,
            f"{LAST}\nresamples: 1000000000",
            "line 10: resamples is a number (1000000000); expected at most",
        ),
        (LAST, f"{LAST}\nworkers: 1000000000", "line 10: workers is a number (1000000000); expected at most"),
        (
            LAST,
            f"{LAST}\nbatch_size: 1000000000",
            "line 10: batch_size is a number (1000000000); expected at",
        ),
        (LAST, f"{LAST}\nskip_unreadable: 1", "line 10: skip_unreadable is a number (1); expected true or f"),
        (LAST, f"{LAST}\nmemory_limit: 12", "line 10: memory_limit is a number (12); expected text"),
        ("open_clip:ViT-B-32:openai", "gone:toy:1", "line 2: unknown model family 'gone'; "),
        (
            "open_clip:ViT-B-32:openai",
            "open_clip:ViT-B-32:a/b.pt",
            "line 2: 'a/b.pt' is not there; paths are",
        ),
        ("open_clip:ViT-B-32:openai", "open_clip:ViT-B-32:b.pt", "line 2: 'b.pt' is not there; paths are"),
        ("open_clip:ViT-B-32:openai", "blip:gone", "line 2: 'gone' is not there; paths are relative to this"),
        ("open_clip:ViT-B-32:openai", "saf+sgr:file+gone", "line 2: 'gone' is not there"),
        ("local-dir:last", "local-dir:gone", "line 3: 'gone' is not there; paths are relative to this file"),
        ("sets/same.json", "sets/gone.json", "line 7: variants[0] "),
        (
            '"mix:0.9"]',
            '"mix:0.9", "mix:0.9:seed=0"]',
            "line 7: variants[2] is the variant 'mix:0.9:seed=0' on",
        ),
        (
            "local-dir:last",
            "ViT-B-32:openai",
            "line 3: checkpoints[1] has the name 'open_clip:ViT-B-32:openai'",
        ),
        ("open_clip:ViT-B-32:openai", "openclip", "line 2: the model 'openclip' is not a spec"),
    ],
)
def test_errors_name_line_and_key(folder: Path, old: str, new: str, expected: str) -> None:
    assert old in GOOD
    message = load(folder, GOOD.replace(old, new, 1))
    assert message.startswith(expected), message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a run file, keys with values"),
        ("- a\n- b\n", "expected a run file"),
        ("\t", "line 1: not"),
    ],
)
def test_a_file_that_is_no_mapping(folder: Path, text: str, expected: str) -> None:
    assert load(folder, text).startswith(expected)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone.yaml: no such file; expected a run file"):
        load_run_file(tmp_path / "gone.yaml")


def test_deep_nesting_is_an_error_not_a_crash(folder: Path) -> None:
    assert load(folder, "out: " + "[" * 500_000).startswith("line 1: nested more than 16 deep")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_one_line(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_text(text, encoding="utf-8", errors="replace", newline="")
    with pytest.raises(InputError):
        load_run_file(file)


@pytest.mark.parametrize(
    ("spec", "seeded"),
    [
        ("mix:0.9", "mix:0.9:seed=7"),
        ("mix:0.9:seed=1", "mix:0.9:seed=1"),
        ("rococo:a.json", "rococo:a.json"),
        ("unknown", "unknown"),
    ],
)
def test_the_seed_goes_to_variants_that_name_none(spec: str, seeded: str) -> None:
    assert with_seed(spec, 7) == seeded


def test_the_example_of_the_documentation_is_a_run_file(folder: Path) -> None:
    example = "\n".join(line[4:] for line in (module.__doc__ or "").splitlines() if line.startswith("    "))
    for name in (
        "dataset_coco.json",
        "epoch_9.pt",
        "same_concept.json",
        "runs/a/epoch_10.pt",
        "runs/a/epoch_9.pt",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("[]")
    (folder / "val2014").mkdir()
    (folder / "run.yaml").write_text(example)
    run_file = load_run_file(folder / "run.yaml")
    labels = [one.label for one in run_file.checkpoints]
    assert labels == ["open_clip:ViT-B-32:openai", "epoch 9", "epoch_9", "epoch_10"]
    assert run_file.variants[1:] == tuple(f"mix:0.9:seed={seed}" for seed in (1, 2, 3))


def written(folder: Path, old: str, new: str) -> Path:
    """The run file with a change."""
    assert old in GOOD
    (folder / "run.yaml").write_text(GOOD.replace(old, new, 1))
    return folder / "run.yaml"


def weights(folder: Path, *names: str) -> None:
    """Files of weights."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"weights")


CHECKPOINT = '{model: "open_clip:local-dir:last", preprocess: openai}'


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        ('"open_clip:ViT-B-32:runs/a/*.pt"', ["epoch_2", "epoch_9", "epoch_10"]),
        ('"open_clip:ViT-B-32:runs/*/epoch_9.pt"', ["a/epoch_9", "b/epoch_9"]),
        ('"open_clip:ViT-B-32:runs/[b]/*"', ["epoch_9"]),
        (
            '["open_clip:ViT-B-32:runs/b/epoch_9.pt", "blip:runs/a/epoch_?.pt"]',
            ["epoch_9", "epoch_2", "epoch_9"],
        ),
        ('"open_clip:local-dir:runs/*"', ["a", "b"]),
        ('"vsrn:runs/a/epoch_10.pt+runs/b/epoch_9.pt"', ["vsrn:runs/a/epoch_10.pt+runs/b/epoch_9.pt"]),
    ],
)
def test_a_pattern_stands_for_its_files_in_natural_order(folder: Path, model: str, labels: list[str]) -> None:
    weights(folder, *(f"runs/a/epoch_{number}.pt" for number in (10, 9, 2)), "runs/b/epoch_9.pt")
    file = written(folder, CHECKPOINT, f"{{model: {model}, preprocess: openai}}")
    if len(set(labels)) < len(labels):
        with pytest.raises(
            InputError, match=r"line 3: checkpoints\[1\] has the name 'epoch_9', as 'epoch_9'"
        ):
            load_run_file(file)
        return
    found = load_run_file(file).checkpoints[1:]
    assert [one.label for one in found] == labels
    assert {one.preprocess for one in found} == {"openai"}
    assert all(str(folder / "runs") in one.model for one in found)


@pytest.mark.parametrize(
    ("second", "label"),
    [
        ('"blip:rb/base.pth"', None),
        ("blip:ra/base.pth, preprocess: openai", None),
        ('"blip:ra/base.pth"', "base, reranked 256"),
        ('"blip:rb/base.pth", name: other', "other"),
    ],
)
def test_a_store_is_shared_by_one_model_only(folder: Path, second: str, label: str | None) -> None:
    weights(folder, "ra/base.pth", "rb/base.pth")
    entries = f'"blip:ra/base.pth"\n  - {{model: {second}, rerank: coco}}'
    if label is None:
        assert load(folder, GOOD.replace(CHECKPOINT, entries)) == (
            "line 4: checkpoints[2] has the store 'base', as 'base' before, which is of another model or "
            "preprocessing; give each a name of its own"
        )
        return
    *_, plain, reranked = load_run_file(written(folder, CHECKPOINT, entries)).checkpoints
    assert (plain.label, reranked.label) == ("base", label)
    assert (plain.store_label == reranked.store_label) == (plain.model == reranked.model)


def test_a_file_with_the_name_of_a_pattern_is_that_file(folder: Path) -> None:
    weights(folder, "runs/[b].pt", "runs/b.pt")
    file = written(folder, CHECKPOINT, '"open_clip:ViT-B-32:runs/[b].pt"')
    assert load_run_file(file).checkpoints[1].model == f"open_clip:ViT-B-32:{folder / 'runs/[b].pt'}"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            '"open_clip:ViT-B-32:runs/*.pt"',
            "line 3: 'runs/*.pt' matches no file; paths are relative to this file",
        ),
        ('"open_clip:local-dir:runs/*"', "line 3: 'runs/*' matches no folder"),
        (
            '{model: "open_clip:ViT-B-32:sets/*", name: a}',
            "line 3: checkpoints[1].name is one name for 2 check",
        ),
        ("{model: []}", "line 3: checkpoints[1].model is an empty list; expected at least 1 in the list"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_named(folder: Path, entry: str, expected: str) -> None:
    weights(folder, "sets/a.pt", "runs/no.txt")
    message = load(folder, GOOD.replace(CHECKPOINT, entry))
    assert message.startswith(expected), message


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("{name: 'mix:0.9', seeds: []}", "line 7: variants[1].seeds is an empty list; expected at least 1"),
        (
            "{name: 'mix:0.9', seeds: [1, 2, 1]}",
            "line 7: variants[1] is the variant 'mix:0.9:seed=1' once more",
        ),
        (
            "{name: 'mix:0.9:seed=1', seeds: [1]}",
            "line 7: the variant 'mix:0.9:seed=1' takes no seed, or names one",
        ),
        ("{name: 'reencode', seeds: [1]}", "line 7: the variant 'reencode' takes no seed, or names one"),
        ("{name: 'mix:0.9', seed: 1}", "line 7: unknown key 'seed'; did you mean 'seeds'?"),
        (
            "{name: 'mix:0.9', seeds: [-1]}",
            "line 7: variants[1].seeds[0] is a number (-1); expected at least 0",
        ),
    ],
)
def test_seeds_that_cannot_be_used_are_named(folder: Path, variant: str, expected: str) -> None:
    message = load(folder, GOOD.replace('"mix:0.9"', variant))
    assert message.startswith(expected), message


def test_distractors_are_sizes_as_people_write_them(folder: Path) -> None:
    file = written(folder, LAST, f"{LAST}\ndistractors: [0, 10k, 1.5M]\ndistractor_set: noise")
    run_file = load_run_file(file)
    assert run_file.distractors == (0, 10_000, 1_500_000)
    assert run_file.distractor_set == "noise"
    assert load_run_file(written(folder, LAST, LAST)).distractors == (0,)


def test_ranked_metrics_take_the_cosines_of_a_store(folder: Path) -> None:
    (folder / "other.h5").write_text("")
    run_file = load_run_file(written(folder, LAST, f"{LAST}\nranked: true\nrelevance: other.h5"))
    assert (run_file.ranked, run_file.relevance) == (True, folder / "other.h5")


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("distractors: [0, ten]", "line 10: distractors ten: 'ten' is not a number of rows"),
        (
            "distractors:\n- 10k\n- 5",
            "line 12: distractors[1] is 5 after 10,000; give the sizes in ascending",
        ),
        ("distractor_set: noise", "line 10: distractor_set belongs to distractors"),
        ("distractors: [0]\ndistractor_set: noise", "line 11: distractor_set belongs to distractors"),
        ("ranked: true\ndistractors: [5]", "line 10: ranked lists no distractors; leave one of"),
        ("relevance: file", "line 10: relevance belongs to `ranked: true`; add it or leave it out"),
        ("ranked: true\nrelevance: gone.h5", "line 11: relevance 'gone.h5' is not there"),
    ],
)
def test_options_that_do_not_go_together_are_named(folder: Path, lines: str, expected: str) -> None:
    message = load(folder, GOOD.replace(LAST, f"{LAST}\n{lines}"))
    assert message.startswith(expected), message


CORPUS = """corpus:
  path: corpus.json
  images: pictures
"""
CORPORA = """corpora:
  - {name: coco, path: corpus.json, images: pictures}
  - {name: "a/b", path: corpus.json, images: elsewhere, split: all}
"""


def test_every_corpus_is_a_sweep_with_folders_of_its_own(folder: Path) -> None:
    first, second = load_run_files(written(folder, CORPUS, CORPORA))
    assert (first.stores, first.out) == (folder / "stores/coco", folder / "results/coco")
    assert second.corpus.images == folder / "elsewhere"
    assert second.corpus.split == "all"
    assert second.out.parent == folder / "results"
    assert first.checkpoints == second.checkpoints
    with pytest.raises(InputError, match="describes 2 sweeps, one a corpus; expected one corpus"):
        load_run_file(folder / "run.yaml")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (CORPUS, "", "line 1: corpus is missing; expected corpus for one, or corpora, a list, for several"),
        (CORPUS, "corpora: []\n", "line 1: corpus is missing"),
        (CORPUS, CORPUS + CORPORA, "line 5: corpus and corpora are both there"),
        (CORPUS, CORPORA.replace("a/b", "Coco"), "line 6: corpora[1] has the name 'Coco', as 'coco' before"),
        (CORPUS, CORPORA.replace("name: coco, ", ""), "line 5: corpora[0].name is missing"),
        (CORPUS, CORPORA.replace("elsewhere", "gone"), "line 6: corpora[1].images 'gone' is not there"),
        (CORPUS, CORPORA.replace("split", "spilt"), "line 6: unknown key 'spilt'; did you mean 'split'?"),
        ("  images: pictures", "  images: pictures\n  name: a", "line 7: unknown key 'name'"),
    ],
)
def test_corpora_that_cannot_be_used_are_named(folder: Path, old: str, new: str, expected: str) -> None:
    message = load(folder, GOOD.replace(old, new))
    assert message.startswith(expected), message


def test_a_preprocessing_that_is_not_known_stops_before_any_work(folder: Path) -> None:
    expected = load(folder, GOOD.replace("preprocess: openai", "preprocess: clip"))
    assert expected.startswith("line 3: ")
    assert "clip" in expected
