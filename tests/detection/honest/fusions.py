"""Ops that run as one kernel, while what lies between them is still recorded: a recorded tap is not what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from detection.honest.ours import Change, Patch, ours
from detection.honest.variation import Variation, float32_alone
from qwen3_golden import Recording
from qwen3_parity.recording.ours.network import EncoderDecoder

Tensor = torch.Tensor
Join = Callable[[Tensor, Tensor, Tensor, nn.Linear], Tensor]
"""`join(residual, branch, x, linear)`: the stream behind a branch that ends in `linear(x)`."""
_BLOCK = 8
"""Elements of the summed axis that a kernel takes at a time."""
_PARTS = 2
"""Processes that share a product."""


def _addmm(residual: Tensor, _branch: Tensor, x: Tensor, linear: nn.Linear) -> Tensor:
    """The product is added onto the residual by the product's kernel (GEMM with beta = 1)."""
    rows = residual.flatten(0, 1) if linear.bias is None else (residual + linear.bias).flatten(0, 1)
    return torch.addmm(rows, x.flatten(0, 1), linear.weight.T).view(residual.shape)


def _accumulated(residual: Tensor, _branch: Tensor, x: Tensor, linear: nn.Linear) -> Tensor:
    """As `_addmm`, the sum beginning with the residual, block after block."""
    total = residual if linear.bias is None else residual + linear.bias
    for part, weight in zip(torch.split(x, _BLOCK, -1), torch.split(linear.weight, _BLOCK, 1), strict=True):
        total = total + part @ weight.T
    return total


def _bias_last(residual: Tensor, _branch: Tensor, x: Tensor, linear: nn.Linear) -> Tensor:
    """The bias is added to the sum of residual and product."""
    total = residual + nn.functional.linear(x, linear.weight)
    return total if linear.bias is None else total + linear.bias


def _plain(residual: Tensor, branch: Tensor, _x: Tensor, _linear: nn.Linear) -> Tensor:
    return residual + branch


@contextmanager
def _input_of(linear: nn.Linear) -> Iterator[list[Tensor]]:
    """What `linear` is called with."""
    inputs: list[Tensor] = []
    hook = linear.register_forward_pre_hook(lambda _module, args: inputs.append(args[0]))
    try:
        yield inputs
    finally:
        hook.remove()


def _layers(attended: Join, fed: Join, *, regrouped: bool = False) -> Change:
    """Layers whose two sums are made by `attended` and `fed`; `regrouped` adds the two branches before the residual."""

    def change(runner: EncoderDecoder) -> Iterable[Patch]:
        for layer in [*runner.model.encoder.layers, *runner.model.decoder.layers]:

            def forward(*args: Any, layer: Any = layer, **arguments: Any) -> Any:
                name = "hidden_states" if "hidden_states" in arguments else "decoder_hidden_states"
                hidden = args[0] if args else arguments.pop(name)
                attention = getattr(layer, "self_attn", None) or layer.merged_attn
                with _input_of(attention.o_proj) as x:
                    branch, *others = attention(layer.input_layernorm(hidden), *args[1:], **arguments)
                stream = attended(hidden, branch, x[0], attention.o_proj)
                with _input_of(layer.mlp.down_proj) as x:
                    gated = layer.mlp(layer.post_attention_layernorm(stream))
                if regrouped:
                    return hidden + (branch + gated), *others
                return fed(stream, gated, x[0], layer.mlp.down_proj), *others

            yield layer, "forward", forward

    return change


def _unrounded_activation(runner: EncoderDecoder) -> Iterable[Patch]:
    """The last product reads the activation as it was before it was rounded."""
    for layer in [*runner.model.encoder.layers, *runner.model.decoder.layers]:

        def forward(x: Tensor, mlp: Any = layer.mlp) -> Tensor:
            gate, up = mlp.gate_proj(x), mlp.up_proj(x)
            mlp.down_proj(mlp.act_fn(gate) * up)  # its input is a tap
            inside = mlp.act_fn(gate.double()) * up.double()
            product: Tensor = (inside @ mlp.down_proj.weight.double().T).to(x.dtype)
            return product

        yield layer.mlp, "forward", forward


def _norm_in_projections(runner: EncoderDecoder) -> Iterable[Patch]:
    """Projections with the norm's weight folded into their own, of the row divided by its root mean square."""
    for layer in [*runner.model.encoder.layers, *runner.model.decoder.layers]:
        attention = getattr(layer, "self_attn", None) or layer.merged_attn
        for norm, linears in (
            (layer.input_layernorm, [attention.q_proj]),
            (layer.post_attention_layernorm, [layer.mlp.gate_proj, layer.mlp.up_proj]),
        ):
            divided: list[Tensor] = []

            def normalise(x: Tensor, norm: Any = norm, divided: list[Tensor] = divided) -> Tensor:
                divided[:] = [x * torch.rsqrt(x.square().mean(-1, keepdim=True) + norm.variance_epsilon)]
                weighted: Tensor = norm.weight * divided[0]
                return weighted

            yield norm, "forward", normalise
            for linear in linears:
                folded = linear.weight * norm.weight

                def project(
                    _x: Tensor, linear: Any = linear, folded: Tensor = folded, divided: list[Tensor] = divided
                ) -> Tensor:
                    return nn.functional.linear(divided[0], folded, linear.bias)

                yield linear, "forward", project


def _in_parts(runner: EncoderDecoder) -> Iterable[Patch]:
    """Products behind heads and channels, of which each process has a part and rounds its sum before they are added."""
    for layer in [*runner.model.encoder.layers, *runner.model.decoder.layers]:
        attention = getattr(layer, "self_attn", None) or layer.merged_attn
        for linear in (attention.o_proj, layer.mlp.down_proj):

            def forward(x: Tensor, linear: Any = linear) -> Tensor:
                parts = zip(
                    torch.tensor_split(x, _PARTS, -1), torch.tensor_split(linear.weight, _PARTS, 1), strict=True
                )
                first, *others = [nn.functional.linear(part, weight) for part, weight in parts]
                total: Tensor = first
                for part in others:
                    total = total + part
                return total if linear.bias is None else total + linear.bias

            yield linear, "forward", forward


def _forward(golden: Recording) -> bool:
    """Float32 without gradients: where the second sum leaves the first out, nothing comes back to it."""
    return float32_alone(golden) and not golden.case.HasField("training")


def _has_out_bias(golden: Recording) -> bool:
    return _forward(golden) and golden.case.config.attention_out_bias


def _fused(name: str, says: str, change: Change) -> Variation:
    return Variation(name, says, ours(change), float32_alone)


VARIATIONS = (
    _fused("residual_addmm", "products added onto the residual by their own kernel", _layers(_addmm, _addmm)),
    _fused("residual_accumulated", "sums that begin with the residual", _layers(_accumulated, _accumulated)),
    Variation("residual_regrouped", "h + (attention + mlp)", ours(_layers(_plain, _plain, regrouped=True)), _forward),
    Variation("residual_bias_last", "biases behind the residual", ours(_layers(_bias_last, _plain)), _has_out_bias),
    _fused("activation_in_product", "down_proj reads the activation unrounded", _unrounded_activation),
    _fused("norm_in_projections", "norms' weights folded into the projections", _norm_in_projections),
    Variation("products_in_parts", "o_proj and down_proj as sums of two rounded parts", ours(_in_parts)),
)
