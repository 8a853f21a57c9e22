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
from qwen3_golden.writer import tensor
from qwen3_parity.conformance.drawn import lengths
from qwen3_parity.conformance.specified import write_op
from qwen3_spec import FLOAT64, ops

VALUES = ("plain", "ties", "equal rows", "outliers", "huge", "tiny", "denormal")
_FACTORS = {"huge": 1e6, "tiny": 1e-4, "denormal": 3e-39}
Given = Mapping[str, Array]


class Alone(NamedTuple):
    """How an op is drawn: its `tensors(drawn, draw)`, the `axes` of its outputs, and its numbers, `attributes`."""

    tensors: Callable[[Op, np.random.Generator], Given]
    axes: tuple[str, ...]
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
        drawn = alone.tensors(self, np.random.Generator(np.random.SFC64(self.seed)))
        arrays = {name: _stored(array) for name, array in drawn.items()}
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
        write_op(case, tensors, alone.axes, self.seed, folder)

    def like(self, draw: np.random.Generator, *shape: int) -> Array:
        """Numbers as `values` says: the last axis is a row."""
        x = draw.standard_normal(shape)
        if self.values == "ties":
            x = np.full(shape, 0.75)
        elif self.values == "equal rows":
            x[:] = x.reshape(-1, shape[-1])[0]
        elif self.values == "outliers":
            x[..., 0] *= 300
        return np.asarray(x * _FACTORS.get(self.values, 1.0))


def _stored(array: Array) -> Array:
    return np.ascontiguousarray(array.astype(np.float32) if array.dtype.kind == "f" else array)


def _against(drawn: Op) -> float:
    """What the other factor of a product is multiplied by, so that no result of numbers below the normal ones is."""
    return 1e6 if drawn.values == "denormal" else 1.0


def _norm(drawn: Op, draw: np.random.Generator) -> Given:
    heads = drawn.op == "head_norm"
    last = drawn.head_dim if heads else drawn.width
    shape = (drawn.batch, drawn.query, drawn.heads[0], last) if heads else (drawn.batch, drawn.query, last)
    return {"input.x": drawn.like(draw, *shape), "parameter.weight": draw.uniform(-1.9, 1.9, last)}


def _linear(drawn: Op, draw: np.random.Generator) -> Given:
    inputs = {
        "input.x": drawn.like(draw, drawn.batch, drawn.query, drawn.width),
        "parameter.weight": draw.standard_normal((drawn.out, drawn.width)) * _against(drawn),
    }
    return inputs | ({"parameter.bias": draw.standard_normal(drawn.out)} if drawn.biased else {})


def _embedding(drawn: Op, draw: np.random.Generator) -> Given:
    ids = drawn.out - 1 - draw.integers(0, min(3, drawn.out), (drawn.batch, drawn.query))
    return {"input.ids": ids, "parameter.weight": drawn.like(draw, drawn.out, drawn.width)}


def _positions(drawn: Op) -> Array:
    return np.arange(drawn.batch)[:, None] * 5 + np.arange(drawn.query)[None] + drawn.first_position


def _inv_freq(drawn: Op) -> Array:
    return ops.inv_freq.forward(drawn.head_dim, 1e6).astype(np.float32)


def _rope(drawn: Op, draw: np.random.Generator) -> Given:
    angles = np.tile(_positions(drawn)[..., None] * _inv_freq(drawn).astype(np.float64), 2)
    shapes = ((drawn.batch, heads, drawn.query, drawn.head_dim) for heads in drawn.heads)
    inputs = {f"input.{x}": drawn.like(draw, *shape) for x, shape in zip("qk", shapes, strict=True)}
    return inputs | {"input.cos": np.cos(angles), "input.sin": np.sin(angles)}


def _pair(drawn: Op, draw: np.random.Generator) -> Given:
    heads, kv_heads = drawn.heads
    return {
        "input.q": drawn.like(draw, drawn.batch, heads, drawn.query, drawn.head_dim),
        "input.k": draw.standard_normal((drawn.batch, kv_heads, drawn.key, drawn.head_dim)) * _against(drawn),
    }


def _visible(drawn: Op, draw: np.random.Generator) -> Array:
    """`[batch, query, key]`, every row of it with a visible key."""
    mask = draw.random((drawn.batch, drawn.query, drawn.key)) < (0.5 if drawn.biased else 1.1)
    mask[..., -1] = True
    return np.asarray(mask)


def _scores(drawn: Op, draw: np.random.Generator) -> Given:
    scores = drawn.like(draw, drawn.batch, drawn.heads[0], drawn.query, drawn.key)
    return {"input.scores": np.clip(scores, -1e4, 1e4), "input.mask": _visible(drawn, draw)}


def _weighted(drawn: Op, draw: np.random.Generator) -> Given:
    scores = draw.standard_normal((drawn.batch, drawn.heads[0], drawn.query, drawn.key)) * 3
    probs = ops.softmax.forward(scores, _visible(drawn, draw), arithmetic=FLOAT64)
    v = draw.standard_normal((drawn.batch, drawn.heads[1], drawn.key, drawn.head_dim))
    return {"input.probs": probs, "input.v": v * {"huge": 1e6, "tiny": 1e-4}.get(drawn.values, 1.0)}


def _gated(drawn: Op, draw: np.random.Generator) -> Given:
    shape = (drawn.batch, drawn.query, drawn.width)
    gate = np.clip(drawn.like(draw, *shape), -30, 30) * (drawn.values != "denormal")
    return {"input.gate": gate, "input.up": draw.standard_normal(shape)}


def _padding(drawn: Op, draw: np.random.Generator) -> Given:
    slots = np.arange(drawn.key)
    mask = slots >= draw.integers(0, drawn.key, (drawn.batch, 1))
    return {"input.decoder_attention_mask": mask}


_ROWS = ("batch", "query", "hidden")
_HEADS = ("batch", "query", "heads", "head_dim")
_PAIRS = ("batch", "heads", "query", "key")
OPS: Mapping[str, Alone] = {
    "linear": Alone(_linear, _ROWS),
    "rms_norm": Alone(_norm, _ROWS, lambda _: {"eps": 1e-6}),
    "head_norm": Alone(_norm, _HEADS, lambda _: {"eps": 1e-6}),
    "embedding": Alone(_embedding, _ROWS),
    "rope": Alone(_rope, ("batch", "heads", "query", "head_dim")),
    "repeat_kv": Alone(
        lambda drawn, draw: {"input.x": drawn.like(draw, drawn.batch, drawn.heads[1], drawn.key, drawn.head_dim)},
        ("batch", "kv_heads", "key", "head_dim"),
        lambda drawn: {"groups": float(drawn.heads[0] // drawn.heads[1])},
    ),
    "scores": Alone(_pair, _PAIRS, lambda drawn: {"scaling": float(drawn.head_dim**-0.5)}),
    "softmax": Alone(_scores, _PAIRS),
    "context": Alone(_weighted, _HEADS),
    "swiglu": Alone(_gated, ("batch", "query", "intermediate")),
    "mask": Alone(
        _padding,
        ("batch", "query", "key"),
        lambda drawn: {"query": float(min(drawn.query, drawn.key)), "window": float(drawn.window)},
    ),
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
