"""Texts cut to the tokens that count give what open_clip's own forward pass gives, padding and all."""

from __future__ import annotations

import open_clip
import pytest
import torch
from torch.nn.functional import normalize

from engine.encoders.forward import batches_by_length
from engine.encoders.open_clip_text import STEP, encode_text, is_causal, needed_lengths

CONTEXT, VOCABULARY = 40, 64
EOS = VOCABULARY - 1  # the largest id, as in CLIP's own vocabulary
VISION = open_clip.CLIPVisionCfg(layers=1, width=16, head_width=8, patch_size=8, image_size=16)


def model(**text: object) -> torch.nn.Module:
    torch.manual_seed(0)
    config = {"context_length": CONTEXT, "vocab_size": VOCABULARY, "width": 16, "heads": 2, "layers": 3}
    return open_clip.CLIP(8, VISION, open_clip.CLIPTextCfg(**{**config, **text})).eval()


def tokens(lengths: list[int]) -> torch.Tensor:
    """Random texts of so many tokens, the last of them end-of-text, then zeros."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.zeros(len(lengths), CONTEXT, dtype=torch.long)
    for row, length in zip(rows, lengths, strict=True):
        row[:length] = torch.randint(1, EOS, (length,), generator=generator)
        row[length - 1] = EOS
    return rows


@pytest.mark.parametrize(
    "text",
    [{}, {"pool_type": "eos", "eos_id": EOS}, {"proj_bias": True}, {"proj_type": "none"}],
    ids=["argmax", "eos", "linear projection", "no projection"],
)
@torch.inference_mode()
def test_cut_texts_are_encoded_as_whole_ones(text: dict[str, object]) -> None:
    clip = model(**text)
    assert is_causal(clip)
    texts = tokens([2, 3, STEP - 1, STEP, STEP + 1, 17, CONTEXT - 1, CONTEXT])
    whole = normalize(clip.encode_text(texts), dim=-1)
    seen = []
    lengths = needed_lengths(clip, texts).tolist()
    for numbers in batches_by_length(lengths, len(texts), equal=True):
        cut = normalize(encode_text(clip, texts[numbers, : lengths[numbers[0]]]), dim=-1)
        assert torch.allclose(cut, whole[numbers], atol=1e-6, rtol=0)
        seen += numbers.tolist()
    assert sorted(seen) == list(range(len(texts)))


def test_lengths_reach_the_end_of_text_token_and_no_further_than_needed() -> None:
    lengths = [2, STEP - 1, STEP, STEP + 1, CONTEXT - 1, CONTEXT]
    needed = needed_lengths(model(), tokens(lengths)).tolist()
    assert needed == [STEP, STEP, STEP, 2 * STEP, CONTEXT, CONTEXT]


def test_towers_of_another_kind_are_left_alone() -> None:
    custom = open_clip.CustomTextCLIP(
        8,
        VISION,
        open_clip.CLIPTextCfg(context_length=CONTEXT, vocab_size=VOCABULARY, width=16, heads=2, layers=1),
    )
    assert not is_causal(custom)
    assert not is_causal(model(pool_type="last"))
