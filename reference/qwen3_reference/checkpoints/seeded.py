"""Checkpoints of any size from a seed.

`python -m qwen3_reference.checkpoints.seeded Qwen3-8B OUT --dtype bfloat16 --shards 4` makes one.

For trials on the exact shape of a published model without its weights. Loud as the committed checkpoints are: norm
weights away from 1 and from each other, a scale of its own for each head, large channels, tiny rows, twins, large
padding rows. A seed gives the same values on every machine and in any number of shards.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from qwen3_golden import Array, ParityError, pb
from qwen3_golden.errors import unwritable
from qwen3_golden.models import model
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.safetensors_writer import Block, write_shards
from qwen3_reference.checkpoints.tiny import PADDING_ROWS, TINY_IDS, TWIN_IDS, norm_weight
from qwen3_reference.checkpoints.weights import expected_tensors

DTYPES = {"float32": ("F32", torch.float32), "bfloat16": ("BF16", torch.bfloat16), "float16": ("F16", torch.float16)}
"""What a checkpoint can be stored in: safetensors' name for it and torch's."""
_BLOCK = 1 << 18
"""Elements drawn at once. What a seed means hangs on it."""
_NORMALS = np.random.Generator(np.random.SFC64(0)).standard_normal(1 << 16, dtype=np.float32)
"""Elements are picked from these by 16 random bits each: three times as fast as drawing normal numbers."""
_GAINS = {"q_proj": 0.8, "k_proj": 0.8, "v_proj": 0.8, "gate_proj": 1.2, "lm_head": 2.0}


def _generator(seed: int, name: str, block: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64([seed, zlib.crc32(name.encode()), block]))


def _vector(name: str, size: int, draw: np.random.Generator) -> Array:
    drawn = norm_weight(draw, size, 0.3, 2.0) if "norm" in name else draw.normal(0.3, 0.6, size)
    return drawn.astype(np.float32)


def _row_scales(kind: str, rows: int, columns: int, heads: int, draw: np.random.Generator) -> Array:
    """What each row of a matrix is multiplied with, float32 `[rows]`."""
    if kind == "embed_tokens":
        scales = np.exp(draw.uniform(np.log(0.4), np.log(1.6), rows))
        scales[list(TINY_IDS)] *= 1e-3
        scales[-PADDING_ROWS:] *= 6.0
        return scales.astype(np.float32)
    factors = np.exp(draw.uniform(np.log(0.6), np.log(1.7), heads)) * _GAINS.get(kind, 0.9) / np.sqrt(columns)
    scales = np.repeat(factors, rows // heads)
    if kind == "down_proj":
        scales[draw.integers(rows)] *= 4.0
    elif kind == "lm_head":
        scales[-PADDING_ROWS:] *= 2.0
    return scales.astype(np.float32)


def _rows(name: str, kind: str, scales: Array, columns: int, seed: int, number: int, first: int) -> Array:
    """One block of whole rows of a matrix, float32."""
    scales = scales[first : first + _rows_at_once(columns)]
    words = _generator(seed, name, number).integers(0, 1 << 64, -(-len(scales) * columns // 4), dtype=np.uint64)
    picked = words.astype("<u8", copy=False).view("<u2")[: len(scales) * columns]
    rows = _NORMALS.take(picked).reshape(-1, columns)
    rows *= scales[:, None]
    if kind == "embed_tokens":
        rows[:, [5, columns - 2]] *= 4.0
    if kind in ("embed_tokens", "lm_head") and first == 0:
        rows[TWIN_IDS[1]] = rows[TWIN_IDS[0]]
    return rows


def _rows_at_once(columns: int) -> int:
    return max(TWIN_IDS[1] + 1, _BLOCK // columns)


def _blocks(
    name: str, shape: tuple[int, ...], config: pb.ModelConfig, seed: int, dtype: torch.dtype
) -> Iterator[Block]:
    """The bytes of one tensor, piece by piece; each is drawn when it is called for."""

    def stored(draw: partial[Array]) -> bytes:
        values = torch.from_numpy(draw()).to(dtype)
        return values.view(torch.uint8).numpy().tobytes()

    generator = _generator(seed, name, 0)
    if len(shape) == 1:
        yield partial(stored, partial(_vector, name, shape[0], generator))
        return
    rows, columns = shape
    kind = name.split(".")[-2]
    heads = {"q_proj": config.num_attention_heads, **dict.fromkeys(("k_proj", "v_proj"), config.num_key_value_heads)}
    scales = _row_scales(kind, rows, columns, heads.get(kind, 1), generator)
    for number, first in enumerate(range(0, rows, _rows_at_once(columns)), 1):
        yield partial(stored, partial(_rows, name, kind, scales, columns, seed, number, first))


def write_seeded(config_json: Mapping[str, Any], directory: Path, dtype: str, shards: int, seed: int = 0) -> None:
    """Write a checkpoint of the network that `config_json` describes, in `shards` safetensors files.

    `dtype` is "float32", "bfloat16" or "float16". A tied head is not stored. Takes some 20 MB whatever the size.
    `ParityError` for an existing directory, a config that is incomplete or too small, too many shards, and a disk that
    is full; nothing is then left behind.
    """
    if directory.exists():
        raise _refuse(directory, "the directory exists", "a new one", "an existing one", "choose another name")
    if dtype not in DTYPES:
        raise _refuse(directory, "unknown dtype", " or ".join(DTYPES), dtype, "choose one of these")
    if seed < 0:
        raise _refuse(directory, "a seed is not negative", "0 or more", seed, "choose another seed")
    code, kind = DTYPES[dtype]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=directory.parent, prefix=".seeded-") as folder:
            checkpoint = Path(folder) / directory.name
            checkpoint.mkdir()
            text = json.dumps({**config_json, "torch_dtype": dtype}, indent=2, sort_keys=True)
            (checkpoint / "config.json").write_text(text + "\n", encoding="utf-8")
            config = model_config(checkpoint)
            _check_sizes(directory, config)
            shapes = expected_tensors(config)
            if not config.tie_word_embeddings:
                shapes["lm_head.weight"] = shapes["model.embed_tokens.weight"]
            write_shards(checkpoint, shapes, code, shards, lambda name: _blocks(name, shapes[name], config, seed, kind))
            checkpoint.rename(directory)
    except OSError as error:
        raise unwritable(directory, "checkpoint", error) from None


def _check_sizes(directory: Path, config: pb.ModelConfig) -> None:
    smallest = TWIN_IDS[1] + PADDING_ROWS + 1, 8
    if config.vocab_size < smallest[0] or config.hidden_size < smallest[1]:
        got = f"{config.vocab_size} × {config.hidden_size}"
        expected = f"vocab_size × hidden_size of {smallest[0]} × {smallest[1]} or more"
        raise _refuse(directory, "the embedding has no room for its special rows", expected, got, "enlarge it")


def _refuse(where: object, rule: str, expected: object, got: object, next_step: str) -> ParityError:
    return ParityError(where, rule, expected=expected, got=got, next_step=next_step)


def main(arguments: list[str]) -> int:
    """Write one checkpoint; 0 when done, 2 when the name is unknown, the directory exists or the disk is full."""
    parser = argparse.ArgumentParser(prog="python -m qwen3_reference.checkpoints.seeded", description=__doc__)
    parser.add_argument("name", help="a model of golden/models.textproto")
    parser.add_argument("out", type=Path, help="the new checkpoint directory")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--shards", type=int, default=1, help="number of safetensors files")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    try:
        config = config_json(model(options.name).config, options.dtype)
        write_seeded(config, options.out, options.dtype, options.shards, options.seed)
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"written: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
