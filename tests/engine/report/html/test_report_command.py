"""`itrstress report` as a user types it: what the page says, what is missing, and that captions stay text."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from engine.cli.main import run
from engine.report.html.render import breakable

MACHINE = '{"processor": "x", "cores": 2}'


class Reader(HTMLParser):
    """The tags, the visible text, and the data of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(text.replace("<wbr>", ""))  # where a word may break it is still one

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def data(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.scripts[0])
        return document


def written(paths: list[Path], out: Path, *options: str) -> Reader:
    assert run(["report", *map(str, paths), "--out", str(out), *options]) == 0
    return Reader(out.read_text(encoding="utf-8"))


def test_the_page_says_what_the_results_say(study: Any, tmp_path: Path) -> None:
    page = written([study.results], tmp_path / "r.html")
    document = json.loads((study.results / "step-10" / "results.json").read_text())
    runs = {(one["variant"], one["direction"]): one for one in document["runs"]}
    shown = next(figure for figure in page.data["figures"] if figure["key"] == "changes")
    assert [panel["title"][:3] for panel in shown["panels"]] == ["i2t", "t2i"]
    changes = {
        (one["variant"], panel["title"][:3]): one
        for panel in shown["panels"]
        for one in panel["changes"]
        if one["checkpoint"] == "step-10"
    }
    for (variant, direction), one in runs.items():
        if variant is None:
            continue
        change = changes[variant.removesuffix(":seed=0"), direction]
        low, high = one["intervals"]["recall@1"]
        assert change["after"] == pytest.approx([one["metrics"]["recall@1"], low, high], abs=1e-3)
        assert change["before"][0] == pytest.approx(one["base"]["recall@1"], abs=1e-3)
        assert f"{one['metrics']['recall@1']:.1f} [{low:.1f}, {high:.1f}]" in page.text
    base = runs[None, "i2t"]["intervals"]["recall@1"]
    assert changes["same_concept", "i2t"]["before"][1:] == pytest.approx(base, abs=1e-3)


def test_the_worst_attack_is_the_headline_where_enough_queries_were_right(
    study: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    large = make_study(images=60)
    page = written([large.results], tmp_path / "large.html")
    runs = json.loads((large.results / "step-10" / "results.json").read_text())["runs"]
    attacked = [one for one in runs if one["variant"] is not None]
    assert all(one["base"]["recall@1"] * one["queries"] >= 3000 for one in attacked)
    worst = max(attacked, key=lambda one: one["metrics"]["drop_rate"])
    name = worst["variant"].removesuffix(":seed=0")
    assert f"step-10 loses {worst['metrics']['drop_rate']:.0f}% of its R@1 to {name}" in page.text
    assert "too few to say" not in page.text.split("step-9")[0]
    page = written([study.results], tmp_path / "small.html")
    assert "% of its R@1 to" not in page.text
    assert page.text.count("queries, too few to say.") == 4


def test_folders_of_a_name_are_left_out_where_that_tells_checkpoints_apart(
    make_study: Callable[..., Any], tmp_path: Path
) -> None:
    study = make_study(checkpoints=("open_clip:local-dir:/a/b/one", "mine/two"))
    page = written([study.results], tmp_path / "r.html")
    assert page.data["names"] == ["mine/two", "open_clip:local-dir:\u2026/one"]
    assert re.search("open_clip:local-dir:\u2026/one i2t|mine/two i2t", page.text)
    same = make_study(checkpoints=("f:/a/b/one", "f:/c/d/one"))
    page = written([same.results], tmp_path / "s.html")
    assert page.data["names"] == page.data["checkpoints"] == ["f:/a/b/one", "f:/c/d/one"]


def test_the_order_of_checkpoints_is_natural(study: Any, tmp_path: Path) -> None:
    page = written([study.results], tmp_path / "r.html")
    assert page.data["checkpoints"] == ["step-9", "step-10"]
    training = next(figure for figure in page.data["figures"] if figure["key"] == "training")
    assert all(
        [point["x"] for point in series["points"]] == ["step-9", "step-10"]
        for panel in training["panels"]
        for series in panel["series"]
    )


def test_failures_are_the_widest_margins_of_the_outcomes(study: Any, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    page = written([study.results], tmp_path / "r.html", "--worst", "3")
    failures = page.data["failures"]
    for checkpoint, name, direction in (
        ("step-9", "same_concept:seed=0", "i2t"),
        ("step-9", "mix:0.8:seed=0", "t2i"),
    ):
        table = pq.read_table(next((study.results / checkpoint).glob(f"{name.replace(':', ',')}.*.parquet")))
        lost = [one for one in table.to_pylist() if one["top_origin"] == "adversarial"]
        expected = sorted((one["top_score"] - one["positive_score"] for one in lost), reverse=True)[:3]
        shown = [
            one
            for one in failures
            if (one["name"], one["direction"], page.data["checkpoints"][one["checkpoint"]])
            == (name, direction, checkpoint)
        ]
        assert [one["margin"] for one in shown] == pytest.approx(expected, abs=1e-4)
        assert len(shown) > 0
        for one in shown:
            row = next(row for row in lost if row["query_id"] == one["asked"]["id"])
            assert (one["winner"]["id"], one["truth"]["id"]) == (row["top_id"], row["positive_id"])
            assert one["kind"] == ("own" if row["top_is_own_fake"] else "other")


def test_a_perturbed_query_is_shown_with_its_original(study: Any, tmp_path: Path) -> None:
    failures = written([study.results], tmp_path / "r.html").data["failures"]
    perturbed = [one for one in failures if one["name"] == "typo:seed=0"]
    assert perturbed
    for one in perturbed:
        assert one["asked"]["text"] != one["original"]["text"]
        assert "kettle" in one["asked"]["text"]
        assert one["kind"] == "genuine"
        assert one["winner"]["id"] != one["truth"]["id"]


def test_images_are_embedded_and_no_other_file_under_their_name(study: Any, tmp_path: Path) -> None:
    page = written([study.results], tmp_path / "r.html")
    assert page.data["thumbnails"]
    assert all(one.startswith("data:image/webp;base64,") for one in page.data["thumbnails"])
    folder = tmp_path / "images"
    shutil.copytree(study.images, folder)
    changed = sorted(folder.iterdir())
    shutil.copy(changed[0], changed[1])
    changed[2].unlink()
    changed[3].write_bytes(b"not an image")
    page = written([study.results], tmp_path / "s.html", "--images", str(folder), "--worst", "50")
    reasons = {
        one[side]["id"]: page.data["reasons"][one[side]["missing"]]
        for one in page.data["failures"]
        for side in ("asked", "truth", "winner")
        if "missing" in one[side]
    }
    assert {name: why for name, why in reasons.items() if "@" not in name} == {
        "001.jpg": "the file is not the one that was embedded",
        "002.jpg": "the file is not in the image folder",
        "003.jpg": "the file is not the one that was embedded",
    }


def test_images_of_a_store_without_digests_are_shown_and_said_to_be_taken_by_name(
    study: Any, make_study: Callable[..., Any], tmp_path: Path
) -> None:
    said = "The store keeps no digests of its images, so files are taken by their names."
    assert said not in written([study.results], tmp_path / "r.html").text
    undigested = make_study(checkpoints=("one",), digested=False)
    page = written([undigested.results], tmp_path / "s.html")
    assert page.data["thumbnails"]
    assert said in page.text


def test_captions_stay_text(study: Any, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    page = written([study.results], out)
    text = out.read_text(encoding="utf-8")
    assert len(page.scripts) == 3  # data, library, ours: no text has begun or ended one
    assert not [
        tag for tag, attributes in page.tags if "onerror" in attributes or attributes.get("src") == "x"
    ]
    assert "</script><script>document" not in text
    assert any(one["asked"].get("text", "").startswith("<script>") for one in page.data["failures"])
    assert "toy <corpus>" in page.text
    assert "{{ 7 * 7 }}" in " ".join(one["truth"].get("text", "") for one in page.data["failures"])


def test_endless_captions_are_cut(make_study: Callable[..., Any], tmp_path: Path) -> None:
    study = make_study(images=6, tail=f" {'very ' * 20_000}long")
    out = tmp_path / "r.html"
    failures = written([study.results], out, "--worst", "50").data["failures"]
    assert {len(one["asked"].get("text", "x" * 601)) for one in failures} == {601}
    assert out.stat().st_size < 4_000_000


def test_the_policy_allows_its_own_scripts_only_and_no_request(study: Any, tmp_path: Path) -> None:
    page = written([study.results], tmp_path / "r.html")
    (policy,) = (
        str(attributes["content"])
        for tag, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    script = policy.split("script-src ")[1].split(";")[0]
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]{44}' 'sha256-[A-Za-z0-9+/=]{44}'", script)
    assert "connect-src" not in policy  # the default forbids it
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed") or attributes.get("href") == "data:,"
        assert "src" not in attributes


def test_equal_results_give_equal_bytes(study: Any, tmp_path: Path) -> None:
    written([study.results], tmp_path / "a.html")
    written([study.results], tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_what_is_missing_is_said(make_study: Callable[..., Any], tmp_path: Path) -> None:
    study = make_study(checkpoints=("only",))
    for file in study.results.glob("*/same_concept*.parquet"):
        file.unlink()
    shutil.rmtree(study.images)
    page = written([study.results], tmp_path / "r.html")
    assert "only, same_concept:seed=0, i2t" in page.text
    assert f"The recorded image folder {study.images} is not there; name it with --images" in page.text
    assert "These results hold one checkpoint; a curve needs two or more." in page.text
    assert "These results hold no gallery at two or more numbers of distractors." in page.text
    assert "No measurement was given." in page.text
    assert {one["name"] for one in page.data["failures"]} >= {"mix:0.9:seed=0"}
    assert "same_concept:seed=0" not in {one["name"] for one in page.data["failures"]}
    study.store("only").unlink()
    page = written([study.results], tmp_path / "s.html")
    assert "no such file" in page.text
    assert page.data["failures"] == []
    assert "no store at hand holds the variant" not in page.text  # that there is no store is said once
    assert "None can be shown; what is missing is listed at the top." in page.text
    for file in study.results.glob("*/*.parquet"):
        file.unlink()
    page = written([study.results], tmp_path / "t.html")
    assert "The runs have no per-query outcomes at hand" in page.text


def test_texts_come_only_from_a_store_with_the_items_of_the_run(
    make_study: Callable[..., Any], study: Any, tmp_path: Path
) -> None:
    options = ("--store", str(study.store("step-10")))
    page = written([study.results / "step-9"], tmp_path / "same.html", *options)
    assert "same_concept:seed=0" in {one["name"] for one in page.data["failures"]}
    other = make_study(checkpoints=("step-9",), tail=" of another make")
    page = written([study.results], tmp_path / "other.html", "--store", str(other.store("step-9")))
    assert {one["name"] for one in page.data["failures"]} == {"mix:0.8:seed=0", "mix:0.9:seed=0"}
    assert "step-9, same_concept:seed=0, i2t: no store at hand holds the variant" in page.text


def test_no_failure_is_shown_when_none_is_asked_for(study: Any, tmp_path: Path) -> None:
    page = written([study.results], tmp_path / "r.html", "--worst", "0")
    assert "None was asked for: --worst 0 ." in page.text
    assert (page.data["failures"], page.data["thumbnails"]) == ([], [])


def test_one_run_without_outcomes_intervals_and_variant(study: Any, tmp_path: Path) -> None:
    document = json.loads((study.results / "step-9" / "results.json").read_text())
    document.pop("sha256")  # it is edited
    run_ = {**document["runs"][0], "outcomes": None, "intervals": {}, "bootstrap": None}
    run_ = {name: None if "sha256" in name or "digest" in name else value for name, value in run_.items()}
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "results.json").write_text(json.dumps({**document, "runs": [run_]}))
    page = written([tmp_path / "one"], tmp_path / "r.html")
    assert "1 checkpoint, 0 attacks, 1 run" in page.text
    assert "These results hold no variant, so nothing is lost to one." in page.text
    assert "No intervals were drawn." in page.text


def test_one_query_and_all_tied(make_study: Callable[..., Any], tmp_path: Path) -> None:
    study = make_study(checkpoints=("tied",), images=1, captions=1, tied=True)
    page = written([study.results], tmp_path / "r.html")
    # the expected value of a tie of two
    assert re.search(r"worst attack same_concept drop rate 50\.0 ?%", page.text)
    assert "Right without it: 1 of 1 queries, too few to say." in page.text
    assert "i2t 1 queries, 1 originals" in page.text
    assert "No intervals were drawn." in page.text
    assert page.data["failures"] == []
    assert "No query of these runs is lost to a wrong answer." in page.text


def test_measurements_are_shown(study: Any, tmp_path: Path) -> None:
    file = next(Path(__file__).parents[4].glob("bench/results/*-peers.json"))
    page = written([study.results], tmp_path / "r.html", "--bench", str(file))
    row = next(one for one in json.loads(file.read_text())["rows"] if one["name"] == "itrstress")
    assert f"{row['queries_per_second']:,.0f}" in page.text
    assert f"{1e3 * row['one_query_seconds']['p99']:,.2f}" in page.text
    assert page.data["benchmarks"][0]["rows"][1]["batches"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "no JSON object"),
        ("{", "not JSON, or cut off"),
        ('{"rows": []}', "machine is missing"),
        (f'{{"machine": {MACHINE}, "rows": [{{"name": "a"}}]}}', "rows.0.median_seconds is missing"),
        (None, "no such file"),
    ],
)
def test_measurements_that_are_none(
    study: Any, tmp_path: Path, capsys: Any, text: str | None, message: str
) -> None:
    file = tmp_path / "bench.json"
    if text is not None:
        file.write_text(text)
    out = tmp_path / "r.html"
    assert run(["report", str(study.results), "--out", str(out), "--bench", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]
    assert not out.exists()


def test_wrong_input_is_one_line(study: Any, tmp_path: Path, capsys: Any) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    other, older = tmp_path / "other", tmp_path / "older"
    document = json.loads((study.results / "step-9" / "results.json").read_text())
    document.pop("sha256")  # it is edited
    for folder, change in (
        (other, {"provenance": {**document["provenance"], "corpus_fingerprint": "d" * 64}}),
        (older, {"schema_version": 0}),
    ):
        folder.mkdir()
        (folder / "results.json").write_text(json.dumps({**document, **change}))
    there = tmp_path / "there.html"
    there.write_text("mine")
    results, out = str(study.results), str(tmp_path / "r.html")
    for arguments, message in (
        ([str(empty)], "no results under"),
        ([results, str(other)], "results of several corpora"),
        ([results, str(older)], "results of several schema versions"),
        ([results, "--out", str(there)], "there already"),
        ([results, "--store", str(tmp_path / "no.h5")], "no such file"),
        ([results, "--images", str(tmp_path / "no")], "expected a folder, give it with --images"),
    ):
        assert run(["report", "--out", out, *arguments]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        assert message in error
    assert there.read_text() == "mine"
    assert not Path(out).exists()


def test_the_demo_ends_with_the_report_of_its_folder(study: Any) -> None:
    from engine.cli.demo import write_report
    from engine.progress import Silent

    for _ in range(2):  # a demo that goes on writes it anew
        file = write_report(study.folder, Silent())
    page = Reader(file.read_text(encoding="utf-8"))
    assert page.data["checkpoints"] == ["step-9", "step-10"]
    assert page.data["thumbnails"]
    file.unlink()


def test_a_long_name_breaks_at_its_parts_and_stays_text() -> None:
    assert breakable("mix:0.9") == "mix:<wbr>0.9"
    assert breakable("delete_low_ei") == "delete_<wbr>low_<wbr>ei"
    assert breakable("<b>_&") == "&lt;b&gt;_<wbr>&amp;"
