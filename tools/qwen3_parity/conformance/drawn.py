"""What fresh cases are drawn from: shapes, masks, positions, configurations, values. The simplest stands first."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from qwen3_golden import Array, pb
from qwen3_parity.conformance.specified import write_network

T = TypeVar("T")
_EVERY = (*range(1, 25), *range(29, 34), *range(62, 67), *range(125, 130))
"""Odd and even ones in turn: hypothesis makes places in a list smaller by twos, and finds a smaller odd one."""
VALUES = ("plain", "equal rows", "ties", "outliers", "huge", "tiny", "denormal")
"""What embeddings are like; "ties": every key is the same, "equal rows": every token is."""
IDS = ("start", "end", "spread")
"""Few ids from the beginning of the vocabulary, few from its end with the last one, or any."""


@dataclass(frozen=True)
class Network:
    """A small network and what it is run on. `hidden` are the padded slots of each row, in front of those of the
    decoder and behind those of the encoder; with `hole` one more, in their middle."""

    mode: int
    model_type: str
    layers: int
    heads: tuple[int, int]
    head_dim: int
    width: int
    intermediate: int
    vocab: int
    biases: bool
    tied: bool
    window: int
    windows_in: int
    theta: float
    factor: float
    eps: float
    rotate_encoder_keys: bool
    steps: tuple[int, ...]
    source: int
    decoder_hidden: tuple[int, ...]
    encoder_hidden: tuple[int, ...]
    hole: bool
    first_position: int
    ids: str
    values: str
    seed: int

    @property
    def kind(self) -> str:
        """What a port may not support."""
        return pb.Mode.Name(self.mode).lower()

    @property
    def name(self) -> str:
        """What its case is called: by all that was drawn."""
        return f"fresh/{self.kind}_{zlib.crc32(repr(self).encode()):08x}"

    def write(self, folder: Path) -> None:
        """The case with its golden and checkpoint."""
        write_network(self._case(), self._inputs(), self._weight, self.seed, folder)

    def _case(self) -> pb.Case:
        heads, kv_heads = self.heads
        qwen3 = self.model_type == "qwen3"
        sliding = self.window > 0 and self.windows_in < self.layers
        config = pb.ModelConfig(
            model_type=self.model_type,
            vocab_size=self.vocab,
            hidden_size=self.width if qwen3 else heads * self.head_dim,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=self.head_dim,
            rms_norm_eps=self.eps,
            rope_theta=self.theta,
            max_position_embeddings=65536,
            hidden_act="silu",
            attention_bias=self.biases if qwen3 else True,
            attention_out_bias=self.biases if qwen3 else False,
            use_qk_norm=qwen3,
            layer_types=[
                "sliding_attention" if sliding and layer >= self.windows_in else "full_attention"
                for layer in range(self.layers)
            ],
            sliding_window=self.window if sliding else 0,
            tie_word_embeddings=self.tied,
            rotate_encoder_keys=self.rotate_encoder_keys,
        )
        if self.factor > 1:
            config.rope_scaling.CopyFrom(
                pb.RopeScaling(
                    rope_type="yarn",
                    factor=self.factor,
                    attention_factor=0.1 * math.log(self.factor) + 1.0,
                    beta_fast=32.0,
                    beta_slow=1.0,
                    original_max_position_embeddings=64,
                    truncate=True,
                )
            )
        text = ", ".join(f"{key} {value}" for key, value in vars(self).items() if key not in ("mode", "seed"))
        return pb.Case(
            name=self.name,
            tier=pb.TIER_MODEL,
            mode=self.mode,  # type: ignore[arg-type]
            config=config,
            steps=self.steps,
            description=f"Drawn, against the specification: {text}.",
        )

    def _inputs(self) -> dict[str, Array]:
        inputs = dict[str, Array]()
        for stack, length, hidden in (
            ("encoder", self.source, self.encoder_hidden),
            ("decoder", sum(self.steps), self.decoder_hidden),
        ):
            if not length:
                continue
            draw, slots = self._generator(stack), np.arange(length)
            mask = np.array([slots < length - h if stack == "encoder" else slots >= h for h in hidden])
            shape = (len(hidden), length)
            if self.hole:
                mask[mask.sum(axis=1) > 2, length // 2] = False
            if self.ids == "spread":
                ids = draw.integers(0, self.vocab, shape)
            else:
                low = draw.integers(0, min(4, self.vocab), shape)
                low[:, -1] = 0
                ids = low if self.ids == "start" else self.vocab - 1 - low
            inputs[f"input.{stack}_input_ids"] = ids.astype(np.int64)
            inputs[f"input.{stack}_attention_mask"] = mask
            positions = np.maximum(np.cumsum(mask, axis=1) - 1, 0) + self.first_position
            inputs[f"input.{stack}_position_ids"] = positions.astype(np.int64)
        return inputs

    def _generator(self, name: str) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(name.encode())]))

    def _weight(self, name: str, shape: tuple[int, ...]) -> Array:
        draw = self._generator(name)
        if "norm" in name:
            return np.asarray(draw.uniform(0.4, 1.9, shape) * np.where(draw.random(shape) < 0.2, -1, 1))
        if len(shape) == 1:
            return draw.normal(0.3, 0.6, shape)
        if "embed_tokens" in name:
            return _embedding(draw, shape, self.values)
        if name.endswith("k_proj.weight") and self.values == "ties":
            return np.zeros(shape)
        scales = np.exp(draw.uniform(-0.5, 0.5, (shape[0], 1))) / np.sqrt(shape[1])
        return np.asarray(draw.standard_normal(shape) * scales)


def _embedding(draw: np.random.Generator, shape: tuple[int, ...], values: str) -> Array:
    rows = draw.standard_normal(shape) * np.exp(draw.uniform(-0.9, 0.5, (shape[0], 1)))
    if values == "equal rows":
        rows[:] = rows[:1]
    elif values == "outliers":
        rows[:, 0] *= 300
    return np.asarray(rows * {"huge": 1e6, "tiny": 1e-4, "denormal": 3e-39}.get(values, 1.0))


def lengths(most: int) -> st.SearchStrategy[int]:
    """Lengths up to `most`, all small ones and those around tiles."""
    return st.sampled_from([length for length in _EVERY if length <= most])


LENGTHS = lengths(129)
MANY_IDS = 70_001
"""A vocabulary beyond sixteen bits. Its networks are narrow and see one row of few tokens: logits are long enough."""


@st.composite
def networks(draw: st.DrawFn, modes: Sequence[int]) -> Network:
    """A network, and what it is run on."""

    def choose(of: Sequence[T]) -> T:
        return draw(st.sampled_from(of))

    mode = choose(modes)
    model_type = choose(("qwen3", "qwen3", "qwen2"))
    many_ids = choose((*[False] * 5, True))
    batch, some_length = (1, lengths(2)) if many_ids else (choose((1, 2, 3, 1)), LENGTHS)
    decoder, source = mode != pb.ENCODER, draw(some_length) if mode != pb.CAUSAL else 0
    steps: tuple[int, ...] = ()
    if decoder:
        more = (1,) if many_ids else (1, 1, 2, 3, 16)
        steps = (draw(some_length), *draw(st.lists(st.sampled_from(more), max_size=1 if many_ids else 3)))
    total = sum(steps)

    def hidden(length: int) -> tuple[int, ...]:
        counts = st.sampled_from(sorted({0, 1, 2, 3, length // 2, length - 1} & set(range(length))) or [0])
        return tuple(draw(counts) for _ in range(batch if length else 0))

    window = choose((*[0] * 20, *range(1, 21)))
    return Network(
        mode=mode,
        model_type=model_type,
        layers=draw(st.integers(1, 3)),
        heads=choose(((1, 1), (2, 1), (2, 2), (4, 2), (6, 2), (3, 1), (5, 5), (8, 1))),
        head_dim=choose((8, 4, 6, 10, 16, 32, 62, 64, 66, 80, 96, 128)),
        width=choose((8, 7) if many_ids else (8, 7, 16, 17, 31, 33, 40, 65)),
        intermediate=choose((8, 1, 5, 17, 31, 33, 64, 67)),
        vocab=MANY_IDS if many_ids else choose((16, 17, 31, 64, 67, 129, 257)),
        biases=choose((False, False, True)),
        tied=choose((True, False)) if decoder and not many_ids else True,
        window=window,
        windows_in=draw(st.integers(0, 1)) if window else 0,
        theta=choose((1e4, 250000.0, 1e6)),
        factor=choose((1.0, 1.0, 4.0, 40.0)),
        eps=choose((1e-6, 1e-5)),
        rotate_encoder_keys=choose((True, False)) if mode == pb.ENCODER_DECODER else True,
        steps=steps,
        source=source,
        decoder_hidden=hidden(total),
        encoder_hidden=hidden(source),
        hole=choose((False, False, True)),
        first_position=choose((0, 1, 7, 255, 4096, 32768)),
        ids=choose(IDS[1:] if many_ids else IDS),
        values=choose((*VALUES, VALUES[-1])),
        seed=draw(st.integers(0, 999)),
    )
