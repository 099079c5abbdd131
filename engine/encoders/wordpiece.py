"""BERT's word pieces from a ``vocab.txt`` of the user's; nothing is ever downloaded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordPiece as WordPieceModel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from engine.errors import InputError

PADDING, UNKNOWN, FIRST, LAST = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
_LONGEST_WORD = 100  # characters; BERT reads a longer one as unknown


@dataclass(frozen=True)
class WordPiece:
    """An uncased BERT tokeniser: token to id, in the order of the lines of `path`."""

    path: Path
    ids: dict[str, int]

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, text: str, limit: int | None = None) -> tuple[list[int], bool]:
        """Ids from ``[CLS]`` to ``[SEP]``, and whether text was cut to get `limit` ids (``[SEP]`` stays)."""
        pieces: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        kept = pieces if limit is None else pieces[: limit - 2]
        return [self.ids[FIRST], *kept, self.ids[LAST]], len(kept) < len(pieces)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the tokens in order."""
        return hashlib.sha256("\n".join(self.ids).encode()).hexdigest()

    @cached_property
    def _tokenizer(self) -> Any:
        model = WordPieceModel(dict(self.ids), unk_token=UNKNOWN, max_input_chars_per_word=_LONGEST_WORD)
        tokenizer = Tokenizer(model)
        tokenizer.normalizer = BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = BertPreTokenizer()
        return tokenizer


def read_wordpiece(path: Path, rows: int, checkpoint: Path, added: int = 0) -> WordPiece:
    """The tokeniser of a ``vocab.txt`` (one token a line) for a checkpoint whose token table has `rows` rows.

    `added` of the rows are tokens that the model adds behind those of the file. Raises `InputError` when the
    file is missing, no such file, or has another number of tokens.
    """
    if not path.is_file():
        raise InputError(
            f"{checkpoint}: needs BERT's vocab.txt of {rows - added} tokens, looked for {path}; "
            "give it with vocab=PATH (it comes with bert-base-uncased)"
        )
    try:
        lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8; expected BERT's vocab.txt, one token a line") from None
    ids = {token: row for row, token in enumerate(lines)}
    absent = [token for token in (PADDING, UNKNOWN, FIRST, LAST) if token not in ids]
    if absent or len(ids) != len(lines):
        found = f"the token {absent[0]} is missing" if absent else "a token is there twice"
        raise InputError(f"{path}: {found}; expected BERT's vocab.txt, one token a line")
    if ids[PADDING]:
        raise InputError(f"{path}: [PAD] is line {ids[PADDING] + 1}; expected it in the first line")
    if len(ids) + added != rows:
        raise InputError(f"{checkpoint}: needs a vocabulary of {rows - added} tokens; {path} has {len(ids)}")
    return WordPiece(path, ids)
