"""A small golden made by hand: the specification in float32 as the run, with floors, and ways to spoil a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from qwen3_golden import Array, Network, Recording, Tensor, pattern_of, pb, place, tensor
from qwen3_reference.floors.arithmetics import spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_spec import SEQUENTIAL_FLOAT32, ops

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2, 8, 12, 4, 2, 4, 13
STEPS = (3, 1)
ENCODER_MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], bool)
DECODER_MASK = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], bool)
EXACT = ("input", "position_ids", "inv_freq", "embedding", "mask")


@dataclass(frozen=True)
class World:
    """A golden, its weights, and recordings that differ from it in one thing."""

    golden: Recording
    weights: dict[str, Array]

    def with_tensors(self, tensors: Iterable[Tensor]) -> Recording:
        return replace(self.golden, tensors=list(tensors))

    def without(self, name: str, step: int = 0) -> Recording:
        return self.with_tensors(item for item in self.golden if item.key != (name, step))

    def plus(self, extra: Tensor) -> Recording:
        return self.with_tensors([*self.golden, extra])

    def holding(self, name: str, array: Array, step: int = 0, dtype: pb.DType | None = None) -> Recording:
        """The golden with another array at a tap."""

        def swap(item: Tensor) -> Tensor:
            if item.key != (name, step):
                return item
            info = item.info
            new = tensor(name, array, step=step, dtype=dtype, axes=info.axes, op=info.op, inputs=info.inputs)
            new.info.floor.CopyFrom(info.floor)
            return new

        return self.with_tensors(map(swap, self.golden))

    def changed(self, name: str, change: Callable[[Array], None], step: int = 0) -> Recording:
        """The golden with a tap changed in place by `change`."""
        array = self.golden[name, step].array.copy()
        change(array)
        return self.holding(name, array, step)

    def with_case(self, **fields: object) -> Recording:
        case = pb.Case.FromString(self.golden.case.SerializeToString())
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(case, name)[:]
                getattr(case, name).extend(value)
            else:
                setattr(case, name, value)
        return replace(self.golden, case=case)

    def with_run(self, **fields: object) -> Recording:
        run = pb.Run.FromString(self.golden.run.SerializeToString())
        for name, value in fields.items():
            if isinstance(value, list):
                del getattr(run, name)[:]
                getattr(run, name).extend(value)
            else:
                setattr(run, name, value)
        return replace(self.golden, run=run)


def _weights(draw: np.random.Generator) -> dict[str, Array]:
    def normal(*shape: int) -> Array:
        return (0.4 * draw.standard_normal(shape)).astype(np.float32)

    table = normal(VOCAB, HIDDEN)
    out = {"lm_head.weight": table}
    for stack, attention in (("encoder", "self_attn"), ("decoder", "merged_attn")):
        out[f"{stack}.embed_tokens.weight"] = table
        out[f"{stack}.norm.weight"] = 1 + normal(HIDDEN)
        for i in range(LAYERS):
            layer = f"{stack}.layers.{i}"
            for norm in ("input_layernorm", "post_attention_layernorm"):
                out[f"{layer}.{norm}.weight"] = 1 + normal(HIDDEN)
            for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
                out[f"{layer}.{attention}.{name}_proj.weight"] = normal(heads * HEAD_DIM, HIDDEN)
            for name in ("q", "k"):
                out[f"{layer}.{attention}.{name}_norm.weight"] = 1 + normal(HEAD_DIM)
            out[f"{layer}.{attention}.o_proj.weight"] = normal(HIDDEN, HEADS * HEAD_DIM)
            for name in ("gate", "up"):
                out[f"{layer}.mlp.{name}_proj.weight"] = normal(INNER, HIDDEN)
            out[f"{layer}.mlp.down_proj.weight"] = normal(HIDDEN, INNER)
    return out


def _tensor(name: str, value: Array, step: int) -> Tensor:
    tap_place = place(name, LAYERS)
    assert tap_place is not None, name
    item = tensor(name, np.ascontiguousarray(value), step=step, axes=tap_place.axes, op=tap_place.op)
    if tap_place.op not in EXACT:
        scale = 2.0**-22 * (float(np.sqrt(np.mean(np.square(value, dtype=np.float64)))) or 1.0)
        has_heads = bool({"heads", "kv_heads"} & set(tap_place.axes))
        item.info.floor.CopyFrom(pb.Floor(rms=scale, max=2 * scale, row=scale, head=scale if has_heads else 0))
    return item


@pytest.fixture(scope="session")
def world() -> World:
    """An encoder-decoder of two layers, ragged on both sides, a prompt and one decode step."""
    draw = np.random.Generator(np.random.PCG64(5))
    weights = _weights(draw)
    tensors: list[Tensor] = []
    inv_freq = ops.inv_freq.forward(HEAD_DIM, 100.0).astype(np.float32)
    inputs = {}
    for stack, mask in (("encoder", ENCODER_MASK), ("decoder", DECODER_MASK)):
        inputs[f"input.{stack}_input_ids"] = draw.integers(0, VOCAB, mask.shape)
        inputs[f"input.{stack}_attention_mask"] = mask
        inputs[f"input.{stack}_position_ids"] = np.maximum(np.cumsum(mask, axis=1) - 1, 0)
    tensors += [_tensor(name, value, 0) for name, value in inputs.items()]

    config = pb.ModelConfig(
        model_type="qwen3",
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        rms_norm_eps=1e-6,
        rope_theta=100.0,
        hidden_act="silu",
        use_qk_norm=True,
        layer_types=["full_attention"] * LAYERS,
        rotate_encoder_keys=True,
    )
    known: dict[tuple[str, int], Array] = {}

    def tables(prefix: str, positions: Array, step: int) -> None:
        cos, sin = (table.astype(np.float32) for table in ops.rope_table.forward(positions, inv_freq))
        named = {"position_ids": positions, "cos": cos, "sin": sin}
        known.update({(f"{prefix}{name}", step): value for name, value in named.items()})

    known["encoder.inv_freq", 0] = known["decoder.inv_freq", 0] = inv_freq
    tables("encoder.", inputs["input.encoder_position_ids"], 0)
    tables("decoder.encoder_", inputs["input.encoder_position_ids"], 0)
    start = 0
    for step, length in enumerate(STEPS):
        tables("decoder.", inputs["input.decoder_position_ids"][:, start : start + length], step)
        start += length
    values = dict(known)
    scope = Scope(config, inputs, STEPS)
    spec_run(
        weights, scope, known, lambda step, name, value: values.__setitem__((name, step), value), SEQUENTIAL_FLOAT32
    )
    names = [name for _, block in Network(config, frozenset({"encoder", "decoder"})).blocks() for name in block]
    for step in range(len(STEPS)):
        tensors += [_tensor(name, values[name, step], step) for name in names if (name, step) in values]
    case = pb.Case(name="hand/made", mode=pb.ENCODER_DECODER, config=config, steps=STEPS)
    case.checkpoint.add(role="encoder", name="e", sha256=bytes(32))
    case.checkpoint.add(role="decoder", name="d", sha256=bytes([1] * 32))
    patterns = list(dict.fromkeys(pattern_of(item.info.name) for item in tensors))
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER, materialised=patterns)
    parameters = [pb.Parameter(name=name, dtype=pb.F32, shape=w.shape, sha256=bytes(32)) for name, w in weights.items()]
    return World(Recording(case, pb.Provenance(producer="hand"), run, tensors, parameters), weights)
