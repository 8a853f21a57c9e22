"""Hugging Face's tokenizer of a directory as the witness of blame and hypotheses; the values that stages have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from qwen3_golden import pb
from qwen3_reference.tokenization.loading import ReferenceTokenizer, load_tokenizer
from qwen3_reference.tokenization.stages import encoding

State = dict[str, Any]
"""Values of one text's stages by name.

segments: (begin, end, id or None) each; normalized: of each plain segment; pre_tokens: of each plain segment the
`Piece`s; symbols, merges: of each pre-token; ids: `Ids`; offsets: (begin, end) of each id; pieces, decoded, chunks,
rendered, rendered_ids: as in the schema; batch: (ids, mask) of each row. `cut`, where it is known, holds the final
pieces of each pre-token.
"""


class Piece(NamedTuple):
    """Where a pre-token stands in its normalised segment: characters, bytes of UTF-8."""

    begin: int
    end: int
    begin_byte: int
    end_byte: int


class Ids(NamedTuple):
    """Ids of each pre-token (None: not told), and of the whole text."""

    each: tuple[tuple[int, ...], ...] | None
    whole: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Oracle:
    """Hugging Face's tokenizer of a directory, with its settings (tokenizer.json) as data."""

    reference: ReferenceTokenizer
    _encoded: dict[tuple[str, bool], pb.Encoding] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, directory: Path) -> Oracle:
        """Load it; raises `ParityError` for what is no byte-level BPE tokenizer of Hugging Face."""
        return cls(load_tokenizer(directory))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """tokenizer.json without vocabulary and merges."""
        settings: dict[str, Any] = json.loads(self.reference.backend.to_str())
        return settings | {"model": settings["model"] | {"vocab": {}, "merges": []}}

    @cached_property
    def added(self) -> list[dict[str, Any]]:
        """The added tokens as tokenizer.json has them."""
        return list(self.settings["added_tokens"])

    @cached_property
    def pattern(self) -> str:
        """The regex (or literal) that cuts pre-tokens."""
        found: str = next(iter(self.settings["pre_tokenizer"]["pretokenizers"][0]["pattern"].values()))
        return found

    @cached_property
    def vocabulary(self) -> Mapping[str, int]:
        """Pieces of the BPE model with their ids."""
        return self.reference.backend.get_vocab(with_added_tokens=False)

    @cached_property
    def pieces(self) -> Mapping[int, str]:
        """Every id's piece, added tokens included."""
        return {number: piece for piece, number in self.reference.backend.get_vocab().items()}

    @cached_property
    def ranks(self) -> Mapping[tuple[str, str], int]:
        """Merges with their ranks."""
        return {pair: rank for rank, pair in enumerate(self.reference.merges.pairs)}

    def variant(self, **changes: Any) -> Any:
        """Hugging Face's tokenizer with other settings and an empty vocabulary (that of the added tokens alone)."""
        settings = self.settings | changes
        vocabulary = {one["content"]: one["id"] for one in settings["added_tokens"]}
        settings["model"] = settings["model"] | {"vocab": vocabulary}
        return type(self.reference.backend).from_str(json.dumps(settings))

    @cached_property
    def _bytes_alone(self) -> Any:
        return self.variant(pre_tokenizer=self.settings["pre_tokenizer"]["pretokenizers"][-1])

    def symbols(self, text: str) -> str:
        """The printable characters of the text's bytes."""
        return "".join(symbols for symbols, _ in self._bytes_alone.pre_tokenizer.pre_tokenize_str(text))

    def cut(self, symbols: str) -> tuple[str, ...]:
        """The final pieces of a pre-token; characters that the vocabulary lacks are left out, as Hugging Face does."""
        return tuple(token.value for token in self.reference.backend.model.tokenize(symbols))

    def encoded(self, text: str) -> tuple[int, ...]:
        """The ids of a whole text, special tokens found and none added."""
        found = self.reference.tokenizer(text, add_special_tokens=False, split_special_tokens=False)
        return tuple(found["input_ids"])

    def encoding(self, given: pb.Encoding) -> pb.Encoding:
        """Every stage of a text, each text asked for once."""
        key = given.text, given.split_special_tokens
        if key not in self._encoded:
            self._encoded[key] = encoding(self.reference, given)
        return self._encoded[key]
