"""Ops alone, drawn: each on inputs and weights of its own, by the convention of the cases `op/*`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from qwen3_golden import Array, pb
from qwen3_golden.op_table import OP_TABLE
from qwen3_golden.writer import tensor
from qwen3_parity.conformance.drawn import lengths
from qwen3_parity.conformance.specified import stored, write_op
from qwen3_spec import FLOAT64, ops

VALUES = ("plain", "ties", "equal rows", "outliers", "huge", "tiny", "denormal")
_FACTORS = {"huge": 1e6, "tiny": 1e-4, "denormal": 3e-39}
Operands = tuple[Array | None, ...]


class Alone(NamedTuple):
    """How an op is drawn: its `operands(drawn, draw)` in the order of its row in `OP_TABLE`, and its `attributes`."""

    operands: Callable[[Op, np.random.Generator], Operands]
    attributes: Callable[[Op], Mapping[str, float]] = lambda _: {}


@dataclass(frozen=True)
class Op:
    """One op, its sizes and its values; an op reads the sizes that it has. `hidden` keys are not seen at all."""

    op: str
    batch: int
    query: int
    key: int
    heads: tuple[int, int]
    head_dim: int
    width: int
    out: int
    biased: bool
    window: int
    first_position: int
    values: str
    seed: int

    @property
    def kind(self) -> str:
        """What a port may not support."""
        return f"op {self.op}"

    @property
    def name(self) -> str:
        """What its case is called: by all that was drawn."""
        return f"fresh/{self.op}_{zlib.crc32(repr(self).encode()):08x}"

    def write(self, folder: Path) -> None:
        """The case with its golden."""
        alone = OPS[self.op]
        drawn = alone.operands(self, np.random.Generator(np.random.SFC64(self.seed)))
        arrays = {
            row.name: stored(array)
            for row, array in zip(OP_TABLE[self.op].operands, drawn, strict=True)
            if array is not None
        }
        text = ", ".join(f"{key} {value}" for key, value in vars(self).items() if key != "seed")
        case = pb.Case(
            name=self.name,
            tier=pb.TIER_OP,
            mode=pb.OP,
            op=self.op,
            attributes=[pb.Attribute(key=key, value=value) for key, value in sorted(alone.attributes(self).items())],
            description=f"Drawn, against the specification: {text}.",
        )
        tensors = [tensor(name, array, op=name.partition(".")[0]) for name, array in arrays.items()]
        write_op(case, tensors, self.seed, folder)

    def shape(self, operand: str) -> tuple[int, ...]:
        """The sizes of an operand's axes."""
        sizes = {"batch": self.batch, "query": self.query, "key": self.key, "slot": self.key, "head_dim": self.head_dim}
        sizes |= dict(zip(("heads", "kv_heads"), self.heads, strict=True))
        sizes |= dict.fromkeys(("hidden", "in", "intermediate"), self.width) | dict.fromkeys(("out", "vocab"), self.out)
        return tuple(sizes[axis] for axis in OP_TABLE[self.op].tensors[operand].axes)

    def like(self, draw: np.random.Generator, operand: str) -> Array:
        """Numbers as `values` says: the last axis is a row."""
        shape = self.shape(operand)
        x = draw.standard_normal(shape)
        if self.values == "ties":
            x = np.full(shape, 0.75)
        elif self.values == "equal rows":
            x[:] = x.reshape(-1, shape[-1])[0]
        elif self.values == "outliers":
            x[..., 0] *= 300
        return np.asarray(x * _FACTORS.get(self.values, 1.0))


def _against(drawn: Op) -> float:
    """What the other factor of a product is multiplied by, so that no result of numbers below the normal ones is."""
    return 1e6 if drawn.values == "denormal" else 1.0


def _norm(drawn: Op, draw: np.random.Generator) -> Operands:
    return drawn.like(draw, "input.x"), draw.uniform(-1.9, 1.9, drawn.shape("parameter.weight"))


def _linear(drawn: Op, draw: np.random.Generator) -> Operands:
    x = drawn.like(draw, "input.x")
    weight = draw.standard_normal(drawn.shape("parameter.weight")) * _against(drawn)
    return x, weight, draw.standard_normal(drawn.shape("parameter.bias")) if drawn.biased else None


def _embedding(drawn: Op, draw: np.random.Generator) -> Operands:
    ids = drawn.out - 1 - draw.integers(0, min(3, drawn.out), drawn.shape("input.ids"))
    return ids, drawn.like(draw, "parameter.weight")


def _rope(drawn: Op, draw: np.random.Generator) -> Operands:
    positions = np.arange(drawn.batch)[:, None] * 5 + np.arange(drawn.query)[None] + drawn.first_position
    inv_freq = ops.inv_freq.forward(drawn.head_dim, 1e6).astype(np.float32)
    angles = np.tile(positions[..., None] * inv_freq.astype(np.float64), 2)
    return drawn.like(draw, "input.q"), drawn.like(draw, "input.k"), np.cos(angles), np.sin(angles)


def _pair(drawn: Op, draw: np.random.Generator) -> Operands:
    return drawn.like(draw, "input.q"), draw.standard_normal(drawn.shape("input.k")) * _against(drawn)


def _visible(drawn: Op, draw: np.random.Generator) -> Array:
    """`[batch, query, key]`, every row of it with a visible key."""
    mask = draw.random((drawn.batch, drawn.query, drawn.key)) < (0.5 if drawn.biased else 1.1)
    mask[..., -1] = True
    return np.asarray(mask)


def _scores(drawn: Op, draw: np.random.Generator) -> Operands:
    return np.clip(drawn.like(draw, "input.scores"), -1e4, 1e4), _visible(drawn, draw)


def _weighted(drawn: Op, draw: np.random.Generator) -> Operands:
    scores = draw.standard_normal(drawn.shape("input.probs")) * 3
    probs = ops.softmax.forward(scores, _visible(drawn, draw), arithmetic=FLOAT64)
    v = draw.standard_normal(drawn.shape("input.v"))
    return probs, v * {"huge": 1e6, "tiny": 1e-4}.get(drawn.values, 1.0)


def _gated(drawn: Op, draw: np.random.Generator) -> Operands:
    gate = np.clip(drawn.like(draw, "input.gate"), -30, 30) * (drawn.values != "denormal")
    return gate, draw.standard_normal(drawn.shape("input.up"))


def _padding(drawn: Op, draw: np.random.Generator) -> Operands:
    return None, np.arange(drawn.key) >= draw.integers(0, drawn.key, (drawn.batch, 1))


OPS: Mapping[str, Alone] = {
    "linear": Alone(_linear),
    "rms_norm": Alone(_norm, lambda _: {"eps": 1e-6}),
    "head_norm": Alone(_norm, lambda _: {"eps": 1e-6}),
    "embedding": Alone(_embedding),
    "rope": Alone(_rope),
    "repeat_kv": Alone(
        lambda drawn, draw: (drawn.like(draw, "input.x"),),
        lambda drawn: {"groups": float(drawn.heads[0] // drawn.heads[1])},
    ),
    "scores": Alone(_pair, lambda drawn: {"scaling": float(drawn.head_dim**-0.5)}),
    "softmax": Alone(_scores),
    "context": Alone(_weighted),
    "swiglu": Alone(_gated),
    "mask": Alone(_padding, lambda drawn: {"query": float(min(drawn.query, drawn.key)), "window": float(drawn.window)}),
}
"""What is drawn of ops alone, in the order of the network."""


@st.composite
def single_ops(draw: st.DrawFn) -> Op:
    """An op, and what it is computed from."""
    key = draw(lengths(129))
    return Op(
        op=draw(st.sampled_from(list(OPS))),
        batch=draw(st.integers(1, 3)),
        query=draw(lengths(min(33, key))),
        key=key,
        heads=draw(st.sampled_from(((1, 1), (2, 1), (2, 2), (4, 2), (6, 2), (3, 1), (5, 5)))),
        head_dim=draw(st.sampled_from((4, 6, 8, 10, 16, 32, 62, 64, 66, 80, 96, 128))),
        width=draw(lengths(129).filter(lambda width: width > 3)),
        out=draw(lengths(129)),
        biased=draw(st.booleans()),
        window=draw(st.sampled_from((*[0] * 20, *range(1, 21)))),
        first_position=draw(st.sampled_from((0, 1, 7, 255, 4096, 32768))),
        values=draw(st.sampled_from(VALUES)),
        seed=draw(st.integers(0, 999)),
    )
