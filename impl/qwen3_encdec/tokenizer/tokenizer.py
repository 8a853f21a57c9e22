"""The tokenizer: a composition of six functions, each one stage.

Encoding: `split` the text at its added tokens; `normalize` what stands between them; `pre_tokenize` that; each
pre-token `to_symbols`; `merge` those to pieces, which have ids.
Decoding: ids to pieces, pieces `to_bytes`, all bytes to text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .added_tokens import AddedToken, Part, splitter, unchanged_with_origin
from .batch import Batch, encoded, rectangle
from .byte_symbols import to_bytes, to_symbols
from .chat import render
from .decode import joined, piece_of, text_of
from .errors import TokenizerError
from .files import TokenizerFiles, read_directory
from .merge import merge
from .normalize import nfc, nfc_with_origin
from .piece_encoder import PieceEncoder
from .pretokenize import compile_literal, compile_pattern, pre_tokenize
from .stages import Stages, checked, stages_of
from .stream import StreamDecoder


class ByteLevelTokenizer:
    """A byte-level BPE tokenizer, equal to Hugging Face's in every stage. Whatever it refuses raises `TokenizerError`.

    The six functions are attributes: whoever sets one replaces that stage. `encode` has a faster road to the same ids,
    which it takes as long as none is replaced.
    """

    def __init__(self, files: TokenizerFiles) -> None:
        nothing = files.normalizer == ""
        compiled = (compile_literal if files.pattern_is_literal else compile_pattern)(files.pattern)
        ranks = {pair: rank for rank, pair in enumerate(files.merges)}

        self.files = files
        self.vocabulary: dict[str, int] = files.vocabulary
        self.added_tokens: tuple[AddedToken, ...] = files.added_tokens
        self.pieces: dict[int, str] = {id: piece for piece, id in files.vocabulary.items()}
        for token in files.added_tokens:
            # Hugging Face writes an added token as it looks for it.
            self.pieces[token.id] = nfc(token.content) if token.normalized and not nothing else token.content

        self.split: Callable[[str, bool], list[Part]] = splitter(
            files.added_tokens, unchanged_with_origin if nothing else nfc_with_origin
        )
        self.normalize: Callable[[str], str] = str if nothing else nfc
        self.pre_tokenize: Callable[[str], list[str]] = partial(pre_tokenize, compiled)
        self.to_symbols: Callable[[str], str] = to_symbols
        self.merge: Callable[[str], tuple[list[str], list[int]]] = partial(merge, ranks=ranks)
        self.to_bytes: Callable[[str], bytes] = to_bytes

        self._built_in_functions = self._encoding_functions()
        self._piece_encoder = PieceEncoder(files.vocabulary, files.merges)
        special = {token.content for token in files.added_tokens if token.special}
        self._special_ids = frozenset(token.id for token in files.added_tokens if self.pieces[token.id] in special)

    @classmethod
    def from_directory(cls, path: Path | str) -> ByteLevelTokenizer:
        """The tokenizer of a Hugging Face directory: `tokenizer.json`, or `vocab.json` and `merges.txt`."""
        return cls(read_directory(Path(path)))

    def encode(self, text: str, *, split_special_tokens: bool = False) -> list[int]:
        """The ids of a text; nothing is added. `split_special_tokens`: names of special tokens in it are plain text."""
        if self._encoding_functions() != self._built_in_functions:
            return self.stages(text, split_special_tokens=split_special_tokens).ids
        ids: list[int] = []
        for begin, end, added_token in self.split(checked(text), split_special_tokens):
            if added_token is None:
                ids += self._piece_encoder.encode_all(self.pre_tokenize(self.normalize(text[begin:end])))
            else:
                ids.append(added_token)
        return ids

    def stages(self, text: str, *, split_special_tokens: bool = False) -> Stages:
        """The same, every stage shown, and the characters of the text that each id stands for."""
        return stages_of(self, text, split_special_tokens)

    def id_of(self, token: str) -> int:
        """The id of a token by its name: an added token's content, or a piece in symbols."""
        for added in self.added_tokens:
            if added.content == token:
                return added.id
        if token not in self.vocabulary:
            raise TokenizerError(
                repr(token),
                "a token that is named is in the vocabulary",
                expected=f"one of {len(self.pieces)} tokens",
                got="no such token",
                next_step="check its spelling in tokenizer_config.json and tokenizer.json",
            )
        return self.vocabulary[token]

    def token_bytes(self, id: int) -> bytes:
        """The bytes that one id stands for; they need not be whole characters."""
        return self._bytes_of(id, 0)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes that the ids stand for, one behind the other."""
        return joined(ids, self._bytes_of)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of the ids, U+FFFD where their bytes are no characters; nothing is trimmed or cleaned up."""
        return text_of(joined(ids, self._visible_bytes_of if skip_special_tokens else self._bytes_of))

    def stream(self, *, skip_special_tokens: bool = False) -> StreamDecoder:
        """A decoder for ids that come one by one; what it gives out is, together, what `decode` gives."""
        return StreamDecoder(self._visible_bytes_of if skip_special_tokens else self._bytes_of)

    def batch(
        self,
        texts: Sequence[str],
        *,
        padding_side: str | None = None,
        truncation_side: str | None = None,
        max_length: int = 0,
        pad_to_multiple_of: int = 0,
    ) -> Batch:
        """The texts as one rectangle of ids and its mask; sides that are not given are the tokenizer's own."""
        if self.files.pad_token is None:
            raise TokenizerError(
                "batch",
                "rows are padded with the pad token",
                expected="pad_token in tokenizer_config.json",
                got="none",
                next_step="name a token that the model was trained to ignore",
            )
        return rectangle(
            encoded(texts, self.encode),
            self.id_of(self.files.pad_token),
            padding_side=self.files.padding_side if padding_side is None else padding_side,
            truncation_side=self.files.truncation_side if truncation_side is None else truncation_side,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        enable_thinking: bool | None = None,
    ) -> str:
        """The text that the chat template makes of messages; `enable_thinking` None is not given to the template."""
        files = self.files
        if files.chat_template is None:
            raise TokenizerError(
                "chat template",
                "messages are rendered by the tokenizer's template",
                expected="chat_template.jinja, or chat_template in tokenizer_config.json",
                got="neither",
                next_step="take the template of the model that the ids are for",
            )
        named = {"bos": files.bos_token, "eos": files.eos_token, "unk": files.unk_token, "pad": files.pad_token}
        return render(
            files.chat_template,
            messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=enable_thinking,
            special_tokens={f"{name}_token": token for name, token in named.items() if token is not None},
        )

    def _encoding_functions(self) -> tuple[object, ...]:
        return self.split, self.normalize, self.pre_tokenize, self.to_symbols, self.merge

    def _bytes_of(self, id: int, position: int) -> bytes:
        return self.to_bytes(piece_of(self.pieces, id, position))

    def _visible_bytes_of(self, id: int, position: int) -> bytes:
        data = self._bytes_of(id, position)
        return b"" if id in self._special_ids else data
