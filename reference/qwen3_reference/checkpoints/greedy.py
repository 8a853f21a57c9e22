"""How a checkpoint's greedy generation ends: its generation_config.json, or else its config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qwen3_golden import ParityError, pb
from qwen3_reference.checkpoints.stored import read_config, read_json


def greedy_generation(directory: Path, vocab_size: int) -> pb.Generation:
    """The settings of a plain greedy search: the checkpoint's own ends and padding, none of its other defaults.

    Raises `ParityError` for ends that are no ids of the vocabulary.
    """
    path = directory / "generation_config.json"
    stated = read_json(path) if path.is_file() else read_config(directory)
    ends = stated.get("eos_token_id")
    ends = ends if isinstance(ends, list) else [] if ends is None else [ends]
    padding = stated.get("pad_token_id")
    padding = (ends or [0])[0] if padding is None else padding
    for name, token_id in [*(("eos_token_id", end) for end in ends), ("pad_token_id", padding)]:
        if isinstance(token_id, bool) or not isinstance(token_id, int) or not 0 <= token_id < vocab_size:
            raise ParityError(
                path,
                f"{name} is no token",
                expected=f"an id from 0 to {vocab_size - 1}, or a list of them",
                got=repr(token_id),
                next_step="correct the checkpoint's generation_config.json",
            )
    return plain_generation("greedy", eos_token_id=ends, pad_token_id=padding)


def plain_generation(strategy: str, **settings: Any) -> pb.Generation:
    """A strategy with the given settings, in which nothing else changes a distribution or adds a sequence."""
    ones = ("repetition_penalty", "temperature", "top_p", "num_beams", "length_penalty", "num_return_sequences")
    return pb.Generation(strategy=strategy, **(dict.fromkeys(ones, 1) | settings))
