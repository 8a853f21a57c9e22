"""The way back through a block: its ops that have parameters, its attention, its MLP, in reverse.

`Backward` holds the forward's taps and collects the gradients of parameters; the gradient of every activation is
recorded under the name of its tap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from qwen3_spec import ops
from qwen3_spec.arithmetic import Arithmetic, Array
from qwen3_spec.config import SpecConfig

Tap = Callable[[str, Array], None]
Weights = Mapping[str, Array]
Tables = tuple[Array, Array]
"""cos and sin, each `[batch, seq, head_dim]`."""


@dataclass(frozen=True)
class Backward:
    """One way back: the forward's `values` by tap name, and the ops that have parameters, which collect `gradients`.

    Each takes the gradient `dy` of the tap `name`, records it, and returns the gradient of the op's input `x`. Its
    parameters are those of `parameter` (default: the tap's own).
    """

    weights: Weights
    config: SpecConfig
    values: Mapping[str, Array]
    tap: Tap
    arithmetic: Arithmetic
    padding_idx: int | None = None
    gradients: dict[str, Array] = field(default_factory=dict)

    def record(self, name: str, gradient: Array) -> Array:
        """Hand the gradient of `name` to the tap and pass it on."""
        self.tap(f"gradient.{name}", gradient)
        return gradient

    def add(self, parameter: str, gradient: Array) -> None:
        """Another use of a parameter adds to its gradient."""
        known = self.gradients.get(parameter)
        self.gradients[parameter] = gradient if known is None else known + gradient

    def embed(self, name: str, dy: Array, ids: Array) -> Array:
        """A lookup of `ids[batch, seq]`; returns the gradient of what was looked up, `[batch, seq, hidden]`."""
        own = f"{name}.weight"
        rows = self.weights[own].shape[0]
        self.add(own, ops.embedding.backward(dy, ids, rows, self.padding_idx, arithmetic=self.arithmetic))
        return self.record(name, dy)

    def norm(self, name: str, dy: Array, x: Array, parameter: str = "") -> Array:
        """RMSNorm over the last axis."""
        own, eps = f"{parameter or name}.weight", self.config.rms_norm_eps
        weight = self.weights[own]
        dx, dweight = ops.rms_norm.backward(self.record(name, dy), x, weight, eps, arithmetic=self.arithmetic)
        self.add(own, dweight)
        return dx

    def linear(self, name: str, dy: Array, x: Array, parameter: str = "", *, bias: bool = False) -> Array:
        """A projection, `[..., out] -> [..., in]`."""
        own = parameter or name
        weight = self.weights[f"{own}.weight"]
        dx, dweight, dbias = ops.linear.backward(self.record(name, dy), x, weight, arithmetic=self.arithmetic)
        self.add(f"{own}.weight", dweight)
        if bias:
            self.add(f"{own}.bias", dbias)
        return dx

    def projection(self, name: str, dy: Array, x: Array, parameter: str = "") -> Array:
        """A q, k or v projection, `[batch, heads, seq, head_dim] -> [batch, seq, hidden]`."""
        flat = _heads_first(dy).reshape(dy.shape[0], dy.shape[2], -1)
        return self.linear(name, flat, x, parameter, bias=self.config.attention_bias)

    def normed_projection(self, site: str, dy: Array, x: Array, tables: Tables | None, parameter: str = "") -> Array:
        """All of q, or of k: the projection of `x`, QK-norm if there is one, RoPE if there are `tables`.

        `site` is the beginning of their tap names: `….q` for q_proj, q_norm and q_rope.
        """
        own = parameter or site
        if tables is not None:
            dy = ops.rope.backward(self.record(f"{site}_rope", dy), *tables, arithmetic=self.arithmetic)
        if self.config.use_qk_norm:
            projected = split_heads(self.values[f"{site}_proj"], self.config.head_dim)
            dy = _heads_first(self.norm(f"{site}_norm", _heads_first(dy), projected, f"{own}_norm"))
        return self.projection(f"{site}_proj", dy, x, f"{own}_proj")


def split_heads(x: Array, head_dim: int) -> Array:
    """`[batch, seq, heads * head_dim] -> [batch, seq, heads, head_dim]`."""
    return x.reshape(*x.shape[:2], -1, head_dim)


def _heads_first(x: Array) -> Array:
    return np.swapaxes(x, 1, 2)


def attention(run: Backward, site: str, dy: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    """From the branch `[batch, query, hidden]` to rotated queries and to all keys and values `k`, `v`, heads first."""
    q, probs, context = (run.values[f"{site}.{name}"] for name in ("q_rope", "probs", "context"))
    flat = context.reshape(*context.shape[:2], -1)
    d_flat = run.linear(f"{site}.o_proj", dy, flat, bias=run.config.attention_out_bias)
    d_context = run.record(f"{site}.context", d_flat.reshape(context.shape))
    d_probs, d_v = ops.context.backward(d_context, probs, v, arithmetic=run.arithmetic)
    d_scores = ops.softmax.backward(run.record(f"{site}.probs", d_probs), probs, arithmetic=run.arithmetic)
    scaling = run.config.head_dim**-0.5
    d_q, d_k = ops.scores.backward(run.record(f"{site}.scores", d_scores), q, k, scaling, arithmetic=run.arithmetic)
    return d_q, d_k, d_v


def own_projections(run: Backward, site: str, dqkv: tuple[Array, Array, Array], x: Array, tables: Tables) -> Array:
    """From a stack's own queries, keys and values to the normed stream `x` that all three project."""
    d_q, d_k, d_v = dqkv
    return (
        run.normed_projection(f"{site}.q", d_q, x, tables)
        + run.normed_projection(f"{site}.k", d_k, x, tables)
        + run.projection(f"{site}.v_proj", d_v, x)
    )


def layer(run: Backward, name: str, dy: Array, attend: Callable[[Array, Array], Array]) -> Array:
    """A pre-norm block from its output to its input; `attend(d_branch, normed)` goes back through its attention."""
    values = run.values
    d_stream, d_branch = ops.residual.backward(run.record(f"{name}.output", dy), arithmetic=run.arithmetic)
    d_act = run.linear(f"{name}.mlp.down_proj", d_branch, values[f"{name}.mlp.act"])
    gate, up, act = values[f"{name}.mlp.gate_proj"], values[f"{name}.mlp.up_proj"], run.config.hidden_act
    d_gate, d_up = ops.swiglu.backward(run.record(f"{name}.mlp.act", d_act), gate, up, act, arithmetic=run.arithmetic)
    normed = values[f"{name}.post_attention_layernorm"]
    d_normed = run.linear(f"{name}.mlp.gate_proj", d_gate, normed) + run.linear(f"{name}.mlp.up_proj", d_up, normed)
    d_stream = d_stream + run.norm(f"{name}.post_attention_layernorm", d_normed, values[f"{name}.attn_residual"])
    run.record(f"{name}.attn_residual", d_stream)
    d_stream, d_branch = ops.residual.backward(d_stream, arithmetic=run.arithmetic)
    d_normed = attend(d_branch, values[f"{name}.input_layernorm"])
    return d_stream + run.norm(f"{name}.input_layernorm", d_normed, values[f"{name}.input"])
