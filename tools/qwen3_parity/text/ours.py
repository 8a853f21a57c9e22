"""Our own tokenizer as the one under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from qwen3_encdec.tokenizer.errors import TokenizerError
from qwen3_encdec.tokenizer.stages import Segment
from qwen3_encdec.tokenizer.tokenizer import ByteLevelTokenizer
from qwen3_golden import STAGES, ParityError, pb
from qwen3_parity.text.runner import Runner

T = TypeVar("T", pb.Encoding, pb.Decoding, pb.Batch, pb.Conversation)
_THINKING = {pb.THINKING_ABSENT: None, pb.THINKING_ON: True, pb.THINKING_OFF: False}


def _copy(message: T) -> T:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


class Ours:
    """Our tokenizer, every stage."""

    producer = "qwen3_encdec"

    def __init__(self, tokenizer: ByteLevelTokenizer) -> None:
        self.tokenizer = tokenizer
        self.run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=STAGES)

    def encoding(self, message: pb.Encoding) -> pb.Encoding:
        """Text to ids; `encode`, which has a road of its own, gives the ids of the whole."""
        stages = self.tokenizer.stages(message.text, split_special_tokens=message.split_special_tokens)
        out = _copy(message)
        out.segment.extend(map(_segment, stages.segments))
        out.id.extend(self.tokenizer.encode(message.text, split_special_tokens=message.split_special_tokens))
        out.offset.extend(pb.Span(begin=begin, end=end) for begin, end in stages.offsets)
        return out

    def decoding(self, message: pb.Decoding) -> pb.Decoding:
        """Ids to text, all at once and one by one."""
        out = _copy(message)
        out.piece.extend(map(self.tokenizer.token_bytes, message.id))
        out.text = self.tokenizer.decode(list(message.id), skip_special_tokens=message.skip_special_tokens)
        stream = self.tokenizer.stream(skip_special_tokens=message.skip_special_tokens)
        out.chunk.extend(map(stream.push, message.id))
        out.chunk.append(stream.finish())
        return out

    def batch(self, message: pb.Batch) -> pb.Batch:
        """Texts to one rectangle of ids."""
        rows = self.tokenizer.batch(
            list(message.text),
            padding_side=message.padding_side,
            truncation_side=message.truncation_side,
            max_length=message.max_length,
            pad_to_multiple_of=message.pad_to_multiple_of,
        )
        out = _copy(message)
        for ids, mask in zip(rows.input_ids, rows.attention_mask, strict=True):
            out.row.append(pb.BatchRow(input_id=ids, attention_mask=mask))
        return out

    def conversation(self, message: pb.Conversation) -> pb.Conversation:
        """Messages to text to ids."""
        out = _copy(message)
        out.rendered = self.tokenizer.render(
            json.loads(message.messages),
            tools=json.loads(message.tools) if message.tools else None,
            add_generation_prompt=message.add_generation_prompt,
            enable_thinking=_THINKING[message.thinking],
        )
        out.id.extend(self.tokenizer.encode(out.rendered))
        return out


def runner_of(tokenizer: ByteLevelTokenizer) -> Runner:
    """A tokenizer of ours, which may have had functions replaced, as the judge runs it."""
    return Ours(tokenizer)


def ours(case: pb.Case, directory: Path) -> Runner:
    """Our tokenizer of a directory; raises `ParityError` for one that cannot be read."""
    return runner_of(read_tokenizer(directory))


def read_tokenizer(directory: Path) -> ByteLevelTokenizer:
    """Our tokenizer of a Hugging Face directory; what it refuses is a `ParityError`."""
    try:
        return ByteLevelTokenizer.from_directory(directory)
    except TokenizerError as error:
        raise as_parity_error(error) from error


def as_parity_error(error: TokenizerError) -> ParityError:
    """The same refusal as the harness's own error."""
    return ParityError(error.where, error.rule, expected=error.expected, got=error.got, next_step=error.next_step)


def _segment(segment: Segment) -> pb.Segment:
    out = pb.Segment(begin=segment.begin, end=segment.end, added_token=segment.added_token)
    out.normalized = segment.normalized
    for p in segment.pre_tokens:
        piece = out.pre_token.add(begin=p.begin, end=p.end, begin_byte=p.begin_byte, end_byte=p.end_byte)
        piece.MergeFrom(pb.PreToken(symbols=p.symbols, merge=p.merges, id=p.ids))
    return out
