"""A user's own request: which checkpoint, and which source and target, as text or ids, become the inputs of a case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from qwen3_golden import Array, ParityError, is_exported
from qwen3_golden.regular_file import refuse_irregular
from qwen3_parity.checkpoints.foreign import refuse_foreign

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "*.jinja")
_SHOWN = 6
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_EVERYTHING = ("*.json", "*.safetensors", "merges.txt", "*.jinja")


def refuse_exported(directory: Path) -> None:
    """Raise `ParityError` for an exported checkpoint, where Hugging Face's own files are needed."""
    if is_exported(directory):
        raise ParityError(
            directory,
            "this is an exported checkpoint, and what shall read it reads Hugging Face's files",
            expected="config.json and safetensors files",
            got=", ".join(sorted(path.name for path in directory.glob("weights-*.pb"))[:3]),
            next_step=f"qwen3-parity weights import {directory} --out DIR, and give that DIR",
        )


def model_directory(name: str, files: Sequence[str] = _EVERYTHING) -> Path:
    """The directory of a local checkpoint, or of a hub id after fetching `files`: config, weights and tokenizer.

    Raises `ParityError` when it is neither, and for an exported checkpoint.
    """
    refuse_exported(Path(name))
    from qwen3_encdec.weights.files import checkpoint_directory

    try:
        return checkpoint_directory(name, files)
    except ValueError as error:
        raise ParityError(
            name,
            "this is neither a directory nor a hub id that can be fetched",
            expected=f"a Hugging Face directory with {', '.join(files)}",
            got=str(error.__cause__).splitlines()[0],
            next_step="check the path, or download it first where there is a network",
        ) from None


def local_checkpoint(name: str, files: Sequence[str] = ()) -> Path:
    """The path of a checkpoint that is or should be here, whatever it holds; one of a hub id is fetched first."""
    here = Path(name).exists() or not _HUB_ID.fullmatch(name)
    return Path(name) if here else model_directory(name, files or _EVERYTHING)


def tokenizer_directory(name: str) -> Path:
    """As `model_directory`, of a tokenizer alone; raises `ParityError` where there is none."""
    directory = Path(name) if Path(name).is_file() else model_directory(name, TOKENIZER_FILES)
    if not any((directory / file).is_file() for file in ("tokenizer.json", "vocab.json")):
        files = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else ["a file"]
        raise ParityError(
            name,
            "there is no tokenizer here",
            expected="tokenizer.json, or vocab.json and merges.txt",
            got=", ".join(files[:_SHOWN]) or "an empty folder",
            next_step="give the directory of a Qwen3-type tokenizer; none is read out of GGUF files or weights",
        )
    return directory


def network_directory(name: str) -> Path:
    """As `model_directory`, of a network that can be recorded; another network or format is called what it is."""
    refuse_foreign(Path(name))
    directory = model_directory(name)
    refuse_foreign(directory)
    return directory


def parse_ids(text: str) -> list[list[int]]:
    """Rows of ids from "1,2,3" or, for several rows, "1,2,3;4,5"; raises `ParityError` for anything else."""
    try:
        rows = [[int(number) for number in row.replace(",", " ").split()] for row in text.split(";")]
    except ValueError:
        rows = []
    if not rows or not all(rows):
        raise ParityError(
            "ids", "these are not token ids", expected="1,2,3 or 1,2,3;4,5", got=text, next_step="give ids"
        )
    return rows


def tokenize(texts: Sequence[str], tokenizer: Path, *, special: bool = True) -> list[list[int]]:
    """Ids of each text with the Hugging Face tokenizer of a directory, with the `special` tokens that it adds.

    Raises `ParityError` when there is none.
    """
    from transformers import AutoTokenizer

    if not any((tokenizer / name).is_file() for name in ("tokenizer.json", "vocab.json")):
        raise ParityError(
            tokenizer,
            "there is no tokenizer for the text",
            expected="tokenizer.json, or vocab.json and merges.txt",
            got="neither",
            next_step="give --tokenizer DIR, or ids in place of text",
        )
    refuse_irregular(tokenizer)
    try:
        encode = AutoTokenizer.from_pretrained(tokenizer)
        return [list(encode(text, add_special_tokens=special)["input_ids"]) for text in texts]
    except Exception as error:  # Hugging Face and its Rust part raise whatever they come by
        raise ParityError(
            tokenizer,
            "Hugging Face's tokenizer cannot be loaded, or does not take the text",
            expected="ids",
            got=f"{type(error).__name__}: {error}",
            next_step="download the tokenizer again, or give ids in place of text",
        ) from error


def _stack(rows: Sequence[Sequence[int]], side: str, where: str, vocab_size: int) -> dict[str, Array]:
    """Right-padded (encoder) or left-padded (decoder) ids, their mask and positions that count real tokens only."""
    width = max(len(row) for row in rows)
    if not min(len(row) for row in rows):
        raise ParityError(where, "a text has no tokens", expected="at least one", got="none", next_step="give a text")
    wrong = [number for row in rows for number in row if not 0 <= number < vocab_size]
    if wrong:
        raise ParityError(
            where,
            "an id is not in the vocabulary",
            expected=f"0 to {vocab_size - 1}",
            got=wrong[0],
            next_step="use the checkpoint's own tokenizer",
        )
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], dtype=bool)
    ids = np.zeros((len(rows), width), dtype=np.int64)
    if side == "left":
        mask = mask[:, ::-1].copy()
    ids[mask] = [number for row in rows for number in row]
    return {
        f"input.{where}_input_ids": ids,
        f"input.{where}_attention_mask": mask,
        f"input.{where}_position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0).astype(np.int64),
    }


def request_inputs(
    source: Sequence[Sequence[int]], target: Sequence[Sequence[int]], vocab_size: int
) -> dict[str, Array]:
    """The `input.*` tensors of rows of source and target ids, either of which may be empty.

    Sources are padded on the right and targets on the left, as generation has them. Raises `ParityError` for numbers
    of rows that differ, ids out of range, and when both are empty.
    """
    if not source and not target:
        raise ParityError(
            "request",
            "nothing to run",
            expected="a source, a target or both",
            got="neither",
            next_step="give --source or --target",
        )
    if source and target and len(source) != len(target):
        raise ParityError(
            "request",
            "sources and targets go together row by row",
            expected=f"{len(source)} targets",
            got=len(target),
            next_step="give as many of one as of the other",
        )
    inputs = _stack(source, "right", "encoder", vocab_size) if source else {}
    return inputs | (_stack(target, "left", "decoder", vocab_size) if target else {})


def step_lengths(length: int, prefill: int | None) -> tuple[int, ...]:
    """A prefill of `prefill` tokens (None: all) and then one step for each token that is left."""
    first = length if prefill is None else prefill
    if not 0 < first <= length:
        raise ParityError(
            "request",
            "the prefill does not fit the target",
            expected=f"1 to {length}",
            got=prefill,
            next_step="choose --prefill within the target's length",
        )
    return (first, *[1] * (length - first))
