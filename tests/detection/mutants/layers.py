"""Wrong layers: their order, which of them run, and what they read."""

from __future__ import annotations

from collections.abc import Callable

import torch

from detection.mutants.mutant import Mutant, Seed, words
from detection.mutants.patch import Patch

BOTH = ("encdec/ragged", "encdec/window", "decoder/ragged_decode", "encoder/ragged")
STEPS = ("decoder/ragged_decode", "encdec/ragged")
INPUT = words("input")
PARAMETERS = words("input_layernorm post_attention_layernorm mlp.gate_proj mlp.up_proj mlp.down_proj") | {
    f"merged_attn.{name}"
    for name in words("q_proj k_proj v_proj o_proj q_norm k_norm encoder_k_proj encoder_v_proj encoder_k_norm")
}


def order(chosen: Callable[[int], list[int]]) -> Seed:
    """The decoder's layers run in another order, under the names of their places."""

    def seed(patch: Patch) -> None:
        layers = patch.layers("decoder")
        patch.setattr(patch.model.decoder, "layers", torch.nn.ModuleList(layers[i] for i in chosen(len(layers))))

    return seed


def by_name(count: int) -> list[int]:
    return sorted(range(count), key=str)


def reading(change: Callable[[list[torch.Tensor]], torch.Tensor], last: bool = False) -> Seed:
    """`change(streams)` is what the last layer (or the final norm) is given; `streams` are the inputs so far."""

    def seed(patch: Patch) -> None:
        for stack in ("encoder", "decoder"):
            streams: list[torch.Tensor] = []
            layers = patch.layers(stack)

            def keep(x: torch.Tensor, streams: list[torch.Tensor] = streams) -> torch.Tensor:
                streams.append(x)
                return x

            def give(x: torch.Tensor, streams: list[torch.Tensor] = streams) -> torch.Tensor:
                changed = change([*streams, x])
                streams.clear()
                return changed

            for layer in layers if last else layers[:-1]:
                patch.on_input(layer, keep)
            patch.on_input(getattr(patch.model, stack).norm if last else layers[-1], give)

    return seed


def previous_step(patch: Patch) -> None:
    states: list[torch.Tensor] = []

    def late(x: torch.Tensor) -> torch.Tensor:
        states.append(x)
        return states[-2] if len(states) > 1 and states[-2].shape == x.shape else x

    patch.on_input(patch.layers("decoder")[1], late)


MUTANTS = (
    Mutant("RES-06", "layers ordered by their names as texts", order(by_name), words("output"),
           words("weight.other_tensor wiring.other_layer"), ("long/deep",)),
    Mutant("RES-06/skipped", "the last layer skipped", reading(lambda streams: streams[-2], last=True),
           words("encoder.norm decoder.norm"), words("wiring.other_input wiring.other_layer"), BOTH),
    Mutant("RES-06/missing", "the last layer left out", order(lambda count: list(range(count - 1))),
           words("decoder.norm"), words("wiring.other_layer"), BOTH[:3]),
    Mutant("own/layer-embedding", "the last layer reads the embeddings", reading(lambda streams: streams[0]), INPUT,
           words("wiring.other_input"), BOTH),
    Mutant("own/layer-skip", "a long skip: embeddings added in front of the last layer",
           reading(lambda streams: streams[0] + streams[-1]), INPUT, words("wiring.added_input"), BOTH),
    Mutant("own/layer-before", "the last layer reads what the layer before read", reading(lambda streams: streams[-2]),
           INPUT, words("wiring.other_input wiring.other_layer"), BOTH),
    Mutant("own/layer-previous-step", "the second layer reads the step before's stream", previous_step, INPUT,
           words("wiring.previous_step"), STEPS),
    Mutant("own/layer-mean", "the final norm reads the mean of all layers",
           reading(lambda streams: torch.stack(streams[1:]).mean(0), last=True), words("encoder.norm decoder.norm"),
           words("wiring.added_input"), BOTH),
    Mutant("own/layers-exchanged", "the second and third layer exchanged", order(lambda count: [0, 2, 1]), PARAMETERS,
           words("weight.other_tensor"), BOTH[2:3] + BOTH[:1]),
)  # fmt: skip
