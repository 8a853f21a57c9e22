"""Wrong wiring inside a layer: residuals, and what each part reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from detection.mutants.mutant import Mutant, Seed, attention, words
from detection.mutants.patch import Patch

Step = Callable[[Any, torch.Tensor, Callable[[torch.Tensor], torch.Tensor]], torch.Tensor]
"""`step(layer, hidden, attend)`: the layer's output from its input; `attend` is its attention of a normed stream."""

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
STEPS = ("decoder/ragged_decode", "encdec/ragged")
ATTENDED = words("attn_residual")
OUTPUT = words("output")


def rewired(step: Step, stack: str = "", layers: slice = slice(None)) -> Seed:
    """Layers that compute `step`."""

    def around(layer: Any) -> Callable[..., Any]:
        inner = getattr(layer, "self_attn", None) or layer.merged_attn

        def forward(hidden: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            rest: list[Any] = []

            def attend(x: torch.Tensor) -> torch.Tensor:
                out, *rest[:] = inner(x, *args, **kwargs)
                return out  # type: ignore[no-any-return]

            stream = step(layer, hidden, attend)
            return stream, *rest

        return forward

    def seed(patch: Patch) -> None:
        for layer in patch.layers(stack)[layers]:
            patch.setattr(layer, "forward", around(layer))

    return seed


def first(join: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Step:
    """`join(stream, branch)` in the place of the sum behind attention."""

    def step(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
        stream = join(hidden, attend(layer.input_layernorm(hidden)))
        return stream + layer.mlp(layer.post_attention_layernorm(stream))  # type: ignore[no-any-return]

    return step


def overwritten(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    normed = layer.post_attention_layernorm(hidden + attend(layer.input_layernorm(hidden)))
    return normed + layer.mlp(normed)  # type: ignore[no-any-return]


def sum_lost(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    stream = hidden + attend(layer.input_layernorm(hidden))
    return hidden + layer.mlp(layer.post_attention_layernorm(stream))  # type: ignore[no-any-return]


def from_normed(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    normed = layer.input_layernorm(hidden)
    stream = normed + attend(normed)
    return stream + layer.mlp(layer.post_attention_layernorm(stream))  # type: ignore[no-any-return]


def norm_of_branch(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    stream = hidden + layer.post_attention_layernorm(attend(layer.input_layernorm(hidden)))
    return stream + layer.mlp(stream)  # type: ignore[no-any-return]


def parallel(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    normed = layer.input_layernorm(hidden)
    stream = hidden + attend(normed)
    layer.post_attention_layernorm(stream)
    return stream + layer.mlp(normed)  # type: ignore[no-any-return]


def unnormed_attention(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    layer.input_layernorm(hidden)
    stream = hidden + attend(hidden)
    return stream + layer.mlp(layer.post_attention_layernorm(stream))  # type: ignore[no-any-return]


def unnormed_block(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    stream = hidden + attend(layer.input_layernorm(hidden))
    layer.post_attention_layernorm(stream)
    return stream + layer.mlp(stream)  # type: ignore[no-any-return]


def twice(layer: Any, hidden: torch.Tensor, attend: Any) -> torch.Tensor:
    once = first(torch.add)(layer, hidden, attend)
    return first(torch.add)(layer, once, attend)


def in_steps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return b if a.shape[1] == 1 else a + b


WRONG_BLOCK = words("attn_residual mlp.gate_proj mlp.up_proj output")

MUTANTS = (
    Mutant("NRM-14", "norm overwrites the stream", rewired(overwritten), OUTPUT, words("wiring.other_input"), BOTH),
    Mutant("NRM-14/sum", "the sum behind attention lost", rewired(sum_lost), OUTPUT,
           words("wiring.other_input residual.branch_missing"), BOTH),
    Mutant("RES-01", "the normed stream goes on", rewired(from_normed), ATTENDED, words("wiring.other_input"), BOTH),
    Mutant("RES-02/steps", "no sum behind attention in decode steps", rewired(first(in_steps), "decoder"), ATTENDED,
           words("residual.missing"), STEPS),
    Mutant("RES-04", "second norm on the attention's output", rewired(norm_of_branch), WRONG_BLOCK,
           words("wiring.other_input residual.missing wiring.extra_norm"), BOTH),
    Mutant("RES-05", "attention and feed-forward block in parallel", rewired(parallel),
           words("mlp.gate_proj mlp.up_proj"), words("wiring.other_input"), BOTH),
    Mutant("own/unnormed-attention", "attention reads the stream unnormed", rewired(unnormed_attention),
           attention("q_proj k_proj v_proj"), words("wiring.other_input"), BOTH),
    Mutant("own/unnormed-block", "the feed-forward block reads the stream unnormed", rewired(unnormed_block),
           words("mlp.gate_proj mlp.up_proj"), words("wiring.other_input"), BOTH),
    Mutant("own/layer-twice", "a layer applied twice", rewired(twice, "decoder", slice(1, 2)), frozenset(), frozenset(),
           BOTH[2:3]),
)  # fmt: skip
