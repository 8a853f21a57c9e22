"""How large a recording will be, from the configuration and the lengths alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from qwen3_golden import kept_whole, pb, selected, table
from qwen3_golden.taps import GIVEN_OR_NOT
from qwen3_parity.recording.layout import sizes_of

_BYTES = {pb.ARITHMETIC_F64: 8, pb.ARITHMETIC_F32: 4, pb.ARITHMETIC_BF16: 2, pb.ARITHMETIC_F16: 2}
_INTEGERS = ("position_ids", "input")
_FORWARD = ("input.encoder_", "input.decoder_", "encoder.", "decoder.", "logits")
"""What a request runs, by how names begin: neither gradients nor what tokens are chosen by, nor another network."""


@dataclass(frozen=True)
class Lengths:
    """A request's sizes: batch rows, encoder tokens (0: none), decoder query lengths (none: the encoder alone)."""

    batch: int
    encoder: int
    steps: tuple[int, ...]


def _exists(pattern: str, config: pb.ModelConfig, lengths: Lengths) -> bool:
    """Whether a network with this configuration has the place at all, for a request of these lengths."""
    last = pattern.rsplit(".", 1)[-1]
    if not pattern.startswith(_FORWARD) or pattern.endswith(GIVEN_OR_NOT):  # a request has ids and padding
        return False
    if not lengths.encoder and ("encoder_" in last or pattern.startswith("encoder.")):
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
        query = min(query, rows) if rows and not kept_whole(pattern) else query
        size = sizes_of(config, lengths.batch, query, key)
        size |= {"total": sum(lengths.steps), "channel": _channels(pattern, config)}
        yield [size[axis] for axis in row.axes]
        if once:
            return


def expected_names(config: pb.ModelConfig, lengths: Lengths, globs: Sequence[str] = ()) -> dict[str, pb.Tap]:
    """The taps that a recording of this request has, each with its row of the table."""
    names = {}
    for row in table():
        if _exists(row.pattern, config, lengths):
            layers = range(config.num_hidden_layers) if "{layer}" in row.pattern else [0]
            for name in (row.pattern.replace("{layer}", str(layer)) for layer in layers):
                if row.op == "input" or selected(name, globs):
                    names[name] = row
    return names


def expected_bytes(
    config: pb.ModelConfig,
    lengths: Lengths,
    globs: Sequence[str] = (),
    rows: int = 0,
    arithmetic: pb.Arithmetic = pb.ARITHMETIC_F32,
) -> int:
    """Bytes of all payloads of a recording of these taps and rows; metadata adds about 200 bytes a tensor."""
    total = 0
    for row in expected_names(config, lengths, globs).values():
        if row.op in _INTEGERS:
            width = 1 if row.pattern.endswith("mask") else 8
        else:
            width = 1 if row.op == "mask" else 4 if row.op == "inv_freq" else _BYTES[arithmetic]
        total += width * sum(prod(shape) for shape in _shapes(row, config, lengths, rows))
    return total


def work_bytes(config: pb.ModelConfig, lengths: Lengths, taps: int, arithmetic: pb.Arithmetic, *, floors: bool) -> int:
    """Bytes that a recording with payloads of `taps` bytes needs beside itself while it is made.

    The taps once more; for floors in float32, the truth in float64; and behind each layer of each pass, its output and
    what it gave the cache. In float32 the passes of floors are three in float64 and one in float32, else one.
    """
    width = _BYTES[arithmetic]
    key_value = 2 * config.num_key_value_heads * config.head_dim
    decoded = sum(lengths.steps)
    positions = config.hidden_size * (lengths.encoder + decoded) + key_value * decoded
    if decoded:
        positions += key_value * lengths.encoder
    state = lengths.batch * config.num_hidden_layers * positions
    if not floors:
        return taps + state * width
    if arithmetic != pb.ARITHMETIC_F32:
        return taps + state * (width + 8)
    return taps + 2 * taps + state * (width + 3 * 8 + 4)
