"""How large a recording will be, from the configuration and the lengths alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from qwen3_golden import kept_whole, pb, selected, table

_BYTES = {pb.ARITHMETIC_F64: 8, pb.ARITHMETIC_F32: 4, pb.ARITHMETIC_BF16: 2, pb.ARITHMETIC_F16: 2}
_INTEGERS = ("position_ids", "input")


@dataclass(frozen=True)
class Lengths:
    """A request's sizes: batch rows, encoder tokens (0: none), decoder query lengths (none: the encoder alone)."""

    batch: int
    encoder: int
    steps: tuple[int, ...]


def _exists(pattern: str, config: pb.ModelConfig, lengths: Lengths) -> bool:
    """Whether a network with this configuration has the place at all, for a request of these lengths."""
    last = pattern.rsplit(".", 1)[-1]
    if pattern == "generated_ids" or (not lengths.encoder and ("encoder_" in last or pattern.startswith("encoder."))):
        return False
    if not lengths.steps and (pattern == "logits" or pattern.startswith(("decoder.", "input.decoder"))):
        return False
    if last.endswith(("q_norm", "k_norm")) and not config.use_qk_norm:
        return False
    rotated = last in ("encoder_k_rope", "encoder_cos", "encoder_sin", "encoder_position_ids")
    return config.rotate_encoder_keys or not (rotated and pattern.startswith("decoder."))


def _channels(pattern: str, config: pb.ModelConfig) -> int:
    heads = config.num_attention_heads if pattern.endswith("q_proj") else config.num_key_value_heads
    return heads * config.head_dim


def _shapes(row: pb.Tap, config: pb.ModelConfig, lengths: Lengths, rows: int) -> Iterator[list[int]]:
    """The shape at each step at which the place is recorded."""
    pattern, last = row.pattern, row.pattern.rsplit(".", 1)[-1]
    in_encoder = pattern.startswith(("encoder.", "input.encoder"))
    once = in_encoder or pattern.startswith("input.") or last.startswith("encoder_")
    past = 0
    for query in (lengths.encoder,) if in_encoder else lengths.steps:
        past += query
        key = past + (lengths.encoder if last in ("mask", "scores", "probs") else 0)
        if in_encoder or "encoder_" in last:
            key = lengths.encoder
        size = {
            "batch": lengths.batch,
            "query": min(query, rows) if rows and not kept_whole(pattern) else query,
            "key": key,
            "total": sum(lengths.steps),
            "pair": config.head_dim // 2,
            "head_dim": config.head_dim,
            "heads": config.num_attention_heads,
            "kv_heads": config.num_key_value_heads,
            "hidden": config.hidden_size,
            "intermediate": config.intermediate_size,
            "vocab": config.vocab_size,
            "channel": _channels(pattern, config),
        }
        yield [size[axis] for axis in row.axes]
        if once:
            return


def expected_bytes(
    config: pb.ModelConfig,
    lengths: Lengths,
    globs: Sequence[str] = (),
    rows: int = 0,
    arithmetic: pb.Arithmetic = pb.ARITHMETIC_F32,
) -> int:
    """Bytes of all payloads of a recording of these taps and rows; metadata adds about 200 bytes a tensor."""
    total = 0
    for row in table():
        if not _exists(row.pattern, config, lengths):
            continue
        layers = range(config.num_hidden_layers) if "{layer}" in row.pattern else [0]
        names = [row.pattern.replace("{layer}", str(layer)) for layer in layers]
        count = sum(row.op == "input" or selected(name, globs) for name in names)
        if row.op in _INTEGERS:
            width = 1 if row.pattern.endswith("mask") else 8
        else:
            width = 1 if row.op == "mask" else 4 if row.op in ("cos", "sin", "inv_freq") else _BYTES[arithmetic]
        total += count * width * sum(prod(shape) for shape in _shapes(row, config, lengths, rows))
    return total
