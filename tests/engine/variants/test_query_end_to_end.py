"""From a corpus to a verdict with query variants: `embed`, then `evaluate`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from engine.cli.main import run
from engine.store.reader import open_store

VARIANTS = ("char_swap:seed=3", "shuffle_all_words:mode=paper:seed=0", "distraction_true")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    rows = []
    for k, colour in enumerate(("red", "green", "blue", "white")):
        Image.new("RGB", (40, 30), colour).save(tmp_path / "images" / f"{k}.png")
        for text in (f"a {colour} picture of nothing", f"nothing but {colour} .", "..."):
            rows.append({"image": f"{k}.png", "caption": text})
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_queries_are_replaced_and_the_gallery_is_left_alone(corpus: Path, tiny_model: Path) -> None:
    store, out = corpus.with_name("store.h5"), corpus.with_name("out")
    wanted = [word for variant in VARIANTS for word in ("--variant", variant)]
    model = f"open_clip:local-dir:{tiny_model}"
    images = str(corpus.with_name("images"))
    embed = ["embed", "--model", model, "--corpus", str(corpus), "--images", images, "--out", str(store)]
    assert run([*embed, *wanted]) == 0
    assert run(["evaluate", str(store), "--out", str(out)]) == 0
    runs = json.loads((out / "results.json").read_text())["runs"]
    queried = {one["variant"]: one for one in runs if one["direction"] == "t2i"}
    assert set(queried) == {None, *VARIANTS}
    assert [one["variant"] for one in runs if one["direction"] == "i2t"] == [None]
    with open_store(store) as stored:
        changed = {info.name: info.variant.changed_rate for info in stored.sets if info.variant is not None}
    assert changed["char_swap:seed=3"] == pytest.approx(8 / 12)  # not "..."
    for variant in VARIANTS:
        one = queried[variant]
        assert one["side"] == "query"
        assert one["queries"] == 12
        assert one["gallery"] == {"original": 4}
        assert one["metrics"]["changed_rate"] == pytest.approx(100 * changed[variant])
        assert one["base"]["recall@1"] == queried[None]["metrics"]["recall@1"]
    assert run(["evaluate", str(store), "--variant", VARIANTS[0], "--direction", "i2t"]) == 2
