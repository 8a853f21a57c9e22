"""Wrong embeddings, activations and residual sums, computed by torch in float32, get the names of their mistakes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn import functional
from wrong_numbers import Wrong, evidence, explanations, first_name, named

from qwen3_golden import Array
from qwen3_spec.site import Site

CASE, LAYER, VOCAB, HIDDEN = "encdec/ragged", "decoder.layers.1", 211, 40
Rows = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def normed(x: torch.Tensor, w: torch.Tensor | float = 1.0) -> torch.Tensor:
    return w * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def sinusoids(length: int, *, woven: bool) -> torch.Tensor:
    angle = torch.arange(length)[:, None] * 10000.0 ** -(torch.arange(0, HIDDEN, 2) / HIDDEN)
    if woven:
        return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)
    return torch.cat((angle.sin(), angle.cos()), -1)


def learned(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


EMBEDDINGS: dict[str, tuple[str, Rows]] = {
    "√hidden": ("embedding.scaled", lambda i, w: w[i] * HIDDEN**0.5),
    "an unheard-of factor": ("embedding.scaled", lambda i, w: w[i] * 1.234),
    "two shards": ("embedding.shards", lambda i, w: w[i.clamp(max=VOCAB // 2)] + w[i.clamp(min=VOCAB // 2 + 1)]),
    "never filled": ("embedding.scaled", lambda i, w: 0 * w[i]),
    "id + 1": ("embedding.other_row", lambda i, w: w[(i + 1) % VOCAB]),
    "one id's row": ("embedding.other_row", lambda i, w: w[torch.where(i == i[0, 1], 77, i)]),
    "clamped": ("embedding.clamped", lambda i, w: w[i.clamp(max=63)]),
    "modulo": ("embedding.wrapped", lambda i, w: w[i % 100]),
    "shifted right": ("embedding.other_slot", lambda i, w: w[torch.cat((i[:, :1], i[:, :-1]), 1)]),
    "the row before": ("embedding.other_batch_row", lambda i, w: w[i.roll(1, 0)]),
    "a row of zeros": ("embedding.zero_row", lambda i, w: w[i] * (i != i[0, 2])[..., None]),
    "bfloat16": ("weight.rounded", lambda i, w: w[i].bfloat16().float()),
    "stored transposed": ("weight.transposed", lambda i, w: w.reshape(HIDDEN, VOCAB).T[i]),
    "normalised": ("embedding.normed", lambda i, w: normed(w[i])),
    "sinusoids": ("embedding.positions_added", lambda i, w: w[i] + sinusoids(i.shape[1], woven=True)),
    "sinusoids in halves": ("embedding.positions_added", lambda i, w: w[i] + sinusoids(i.shape[1], woven=False)),
    "learned positions": ("embedding.positions_added", lambda i, w: w[i] + learned(0, i.shape[1], HIDDEN)),
    "random rows": ("weight.unknown", lambda i, w: learned(0, VOCAB, HIDDEN)[i]),
    "a segment": ("embedding.constant_added", lambda i, w: w[i] + learned(0, HIDDEN)),
}  # fmt: skip


def looked_up(rows: Rows) -> Wrong:
    def wrong(site: Site) -> Array:
        ids = torch.tensor(site.inputs[0])[:, : site.length]
        return rows(ids.long(), torch.tensor(site.parameters["weight"])).numpy()

    return wrong


test_a_wrong_embedding_is_named = named(
    {key: (name, CASE, "decoder.embed_tokens", looked_up(rows)) for key, (name, rows) in EMBEDDINGS.items()}
)
Pair = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def of(pair: Pair) -> Callable[[Site], Array]:
    return lambda site: pair(*(torch.tensor(operand) for operand in site.inputs)).float().numpy()


def silu(x: torch.Tensor) -> torch.Tensor:
    return functional.silu(x)


SHUFFLED = torch.randperm(1024, generator=torch.Generator().manual_seed(3))


def by_turns(gate: torch.Tensor, up: torch.Tensor, size: int) -> torch.Tensor:
    """Gates before ups, read as if blocks of both stood by turns."""
    blocks = torch.cat((gate, up), -1).unflatten(-1, (-1, 2, size))
    return (silu(blocks[..., 0, :]) * blocks[..., 1, :]).flatten(-2)


ACTS: dict[str, tuple[str, Pair]] = {
    "gelu": ("mlp.activation", lambda g, u: functional.gelu(g) * u),
    "gelu by tanh": ("mlp.activation", lambda g, u: functional.gelu(g, approximate="tanh") * u),
    "relu": ("mlp.activation", lambda g, u: g.relu() * u),
    "relu squared": ("mlp.activation", lambda g, u: g.relu() ** 2 * u),
    "mish": ("mlp.activation", lambda g, u: functional.mish(g) * u),
    "elu": ("mlp.activation", lambda g, u: functional.elu(g) * u),
    "selu": ("mlp.activation", lambda g, u: functional.selu(g) * u),
    "softplus": ("mlp.activation", lambda g, u: functional.softplus(g) * u),
    "hard swish": ("mlp.activation", lambda g, u: functional.hardswish(g) * u),
    "an unheard-of slope": ("mlp.activation", lambda g, u: g * (1.37 * g).sigmoid() * u),
    "none": ("mlp.activation", lambda g, u: g * u),
    "exchanged": ("mlp.gate_up_exchanged", lambda g, u: silu(u) * g),
    "on the product": ("mlp.activation_on_product", lambda g, u: silu(g * u)),
    "on both": ("mlp.activation_on_both", lambda g, u: silu(g) * silu(u)),
    "twice": ("mlp.activation_twice", lambda g, u: silu(silu(g)) * u),
    "no gate": ("mlp.no_gate", lambda g, u: silu(u)),
    "no up": ("mlp.no_up", lambda g, u: silu(g)),
    "summed": ("mlp.sum", lambda g, u: silu(g) + u),
    "up + 1": ("mlp.up_plus_one", lambda g, u: silu(g) * (u + 1)),
    "up + 0.3": ("mlp.up_plus_one", lambda g, u: silu(g) * (u + 0.3)),
    "bounded parts": ("mlp.clamped", lambda g, u: silu(g.clamp(max=1.5)) * u.clamp(-1.5, 1.5)),
    "bounded result": ("mlp.clamped", lambda g, u: (silu(g) * u).clamp(-0.7, 0.7)),
    "the token before's up": ("mlp.up_shifted", lambda g, u: silu(g) * u.roll(1, 1)),
    "by turns": ("mlp.gate_up_layout", lambda g, u: by_turns(g, u, 1)),
    "by turns of two": ("mlp.gate_up_layout", lambda g, u: by_turns(g, u, 2)),
    "ups out of order": ("mlp.up_order", lambda g, u: silu(g) * u[..., SHUFFLED[: u.shape[-1]].argsort()]),
    "gates out of order": ("mlp.gate_order", lambda g, u: silu(g[..., SHUFFLED[: u.shape[-1]].argsort()]) * u),
    "an unheard-of factor": ("mlp.scaled", lambda g, u: 1.77 * silu(g) * u),
    "bfloat16 result": ("mlp.half_precision", lambda g, u: (silu(g) * u).bfloat16()),
    "bfloat16": ("mlp.half_precision", lambda g, u: silu(g.bfloat16()) * u.bfloat16()),
    "float32": ("right", lambda g, u: silu(g) * u),
}  # fmt: skip
test_a_wrong_activation_is_named = named(
    {key: (name, CASE, f"{LAYER}.mlp.act", of(pair)) for key, (name, pair) in ACTS.items()}
)
SUMS: dict[str, tuple[str, Pair]] = {
    "branch alone": ("residual.missing", lambda a, b: b),
    "stream alone": ("residual.branch_missing", lambda a, b: a),
    "branch twice": ("residual.twice", lambda a, b: a + 2 * b),
    "stream twice": ("residual.twice", lambda a, b: 2 * a + b),
    "difference": ("residual.subtracted", lambda a, b: a - b),
    "mean": ("residual.scaled", lambda a, b: (a + b) / 2),
    "an unheard-of factor": ("residual.scaled", lambda a, b: a + 0.37 * b),
    "two unheard-of factors": ("residual.scaled", lambda a, b: 0.93 * a + 1.12 * b),
    "product": ("residual.product", lambda a, b: a * b),
    "the token before's branch": ("residual.shifted", lambda a, b: a + b.roll(1, 1)),
    "bounded": ("residual.clamped", lambda a, b: (a + b).clamp(-2, 2)),
    "bfloat16 sum": ("residual.half_precision", lambda a, b: (a + b).bfloat16()),
    "bfloat16": ("residual.half_precision", lambda a, b: a.bfloat16() + b.bfloat16()),
    "float32": ("right", lambda a, b: a + b),
}
test_a_wrong_residual_is_named = named(
    {key: (name, CASE, f"{LAYER}.attn_residual", of(pair)) for key, (name, pair) in SUMS.items()}
)


@pytest.mark.parametrize(
    ("name", "norm", "build"),
    [
        ("residual.of_normed", "input_layernorm", lambda a, b, w: normed(a, w) + b),
        ("residual.branch_normed", "post_attention_layernorm", lambda a, b, w: a + normed(b, w)),
        ("residual.sum_normed", "input_layernorm", lambda a, b, w: normed(a + b, w)),
    ],
)
def test_a_norm_inside_the_residual_is_named(name: str, norm: str, build: Callable[..., torch.Tensor]) -> None:
    def wrong(site: Site) -> Array:
        weight = torch.tensor(site.checkpoint[f"{LAYER}.{norm}.weight"])
        return of(lambda a, b: build(a, b, weight))(site)

    assert first_name(CASE, f"{LAYER}.attn_residual", wrong) == name


def test_a_stream_from_before_the_attention_is_named() -> None:
    def wrong(site: Site) -> Array:
        stream = torch.tensor(site.values.value(f"{LAYER}.input", site.step))
        return of(lambda a, b: stream + b)(site)

    assert first_name(CASE, f"{LAYER}.output", wrong) == "residual.other_stream"


def test_a_wrong_activation_of_one_token_alone_keeps_its_name_in_part() -> None:
    """Where only some cells are wrong, the mistake is among the guesses though it does not fit the whole tap."""

    def wrong(site: Site) -> Array:
        return of(lambda g, u: torch.cat((functional.gelu(g[:, :1]) * u[:, :1], silu(g[:, 1:]) * u[:, 1:]), 1))(site)

    tap_evidence = evidence(CASE, f"{LAYER}.mlp.act", wrong)
    assert explanations(tap_evidence) == []
    from qwen3_parity.mistakes.by_op import LIBRARY

    guesses = [hypothesis for library in LIBRARY["swiglu"] for hypothesis in library(tap_evidence.site)]
    assert any(hypothesis.name == "mlp.activation" and "with gelu for act" in hypothesis.says for hypothesis in guesses)
    assert np.isfinite(tap_evidence.actual).all()
