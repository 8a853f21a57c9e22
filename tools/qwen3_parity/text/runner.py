"""A tokenizer under test as the judge runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from qwen3_golden import pb


class Runner(Protocol):
    """A tokenizer that is ready to run cases, as a factory gives it.

    Each method returns a copy of its message with the stages filled in; golden.proto says which fields belong to
    which stage. `run.materialised` names the stages that it has; the fields of others stay empty. A method that no case
    asks for may be missing. It may also have the attribute `producer` (its name).
    """

    run: pb.Run

    def encoding(self, message: pb.Encoding) -> pb.Encoding:
        """Text to ids."""

    def decoding(self, message: pb.Decoding) -> pb.Decoding:
        """Ids to text."""

    def batch(self, message: pb.Batch) -> pb.Batch:
        """Texts to one rectangle of ids."""

    def conversation(self, message: pb.Conversation) -> pb.Conversation:
        """Messages to text to ids."""


Factory = Callable[[pb.Case, Path], Runner]
"""`factory(case, directory)`: builds the tokenizer of a case from its Hugging Face directory."""
