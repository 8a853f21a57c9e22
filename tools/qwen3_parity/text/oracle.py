"""Hugging Face's tokenizer of a directory as the witness of blame and mistakes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwen3_golden import pb

if TYPE_CHECKING:  # recordings are compared where neither transformers nor torch is installed
    from qwen3_reference.tokenization.loading import ReferenceTokenizer


@dataclass(frozen=True, eq=False)
class Oracle:
    """Hugging Face's tokenizer of a directory, with its settings (tokenizer.json) as data."""

    reference: ReferenceTokenizer
    _encodings: dict[tuple[str, bool], pb.Encoding] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, directory: Path) -> Oracle:
        """Load it; raises `ParityError` for what is no byte-level BPE tokenizer of Hugging Face."""
        from qwen3_reference.tokenization.loading import load_tokenizer

        return cls(load_tokenizer(directory))

    @cached_property
    def settings(self) -> dict[str, Any]:
        """tokenizer.json without vocabulary and merges."""
        settings: dict[str, Any] = json.loads(self.reference.backend.to_str())
        return settings | {"model": settings["model"] | {"vocab": {}, "merges": []}}

    @cached_property
    def added_tokens(self) -> list[dict[str, Any]]:
        """The added tokens as tokenizer.json has them."""
        return list(self.settings["added_tokens"])

    @cached_property
    def pattern(self) -> str:
        """The regex (or literal) that cuts pre-tokens."""
        return str(next(iter(self.settings["pre_tokenizer"]["pretokenizers"][0]["pattern"].values())))

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

    @property
    def added(self) -> Collection[int]:
        """The ids of added tokens."""
        return self.reference.added

    @property
    def special(self) -> Collection[int]:
        """The ids of special tokens."""
        return self.reference.special

    def token(self, role: str) -> int | None:
        """The id of the token with a role (eos, pad, bos, unk); None where there is none."""
        number = getattr(self.reference.tokenizer, f"{role}_token_id", None)
        return None if number is None else int(number)

    def variant(self, **changes: Any) -> Any:
        """Hugging Face's tokenizer with other settings and an empty vocabulary (that of the added tokens alone)."""
        settings = self.settings | changes
        vocabulary = {token["content"]: token["id"] for token in settings["added_tokens"]}
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

    def encoded(self, text: str, split_special_tokens: bool = False) -> tuple[int, ...]:
        """The ids of a whole text, no special tokens added."""
        tokenizer = self.reference.tokenizer
        return tuple(tokenizer(text, add_special_tokens=False, split_special_tokens=split_special_tokens)["input_ids"])

    def encoding(self, message: pb.Encoding) -> pb.Encoding:
        """Every stage of a text, each text asked for once."""
        from qwen3_reference.tokenization.stages import encoding

        key = message.text, message.split_special_tokens
        if key not in self._encodings:
            self._encodings[key] = encoding(self.reference, message)
        return self._encodings[key]

    def decoding(self, message: pb.Decoding) -> pb.Decoding:
        """Every stage of a decoding."""
        from qwen3_reference.tokenization.decoding import decoding

        return decoding(self.reference, message)

    def batch(self, message: pb.Batch) -> pb.Batch:
        """A batch of texts, truncated and padded."""
        from qwen3_reference.tokenization.chat import batch

        return batch(self.reference, message)

    def conversation(self, message: pb.Conversation) -> pb.Conversation:
        """A conversation, rendered by the chat template."""
        from qwen3_reference.tokenization.chat import conversation

        return conversation(self.reference, message)

    def bytes_of(self, number: int) -> bytes:
        """What an id stands for; none for an id that is none."""
        from qwen3_reference.tokenization.decoding import piece_bytes

        return piece_bytes(self.pieces.get(number, ""))
