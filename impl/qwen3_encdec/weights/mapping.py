"""Which tensor of a Qwen3 or Qwen2 checkpoint becomes which parameter of the encoder–decoder: one table.

Every weight of ours comes from a Hugging Face tensor, and every Hugging Face tensor goes to both stacks, except for the
embedding, which they share, and the head, which is the decoder's. Nothing is transposed, split, fused or rescaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from qwen3_encdec.configuration_qwen3_encdec import Qwen3EncoderDecoderConfig

EMBEDDING, SHARED = "model.embed_tokens.weight", "shared.weight"
HEAD = "lm_head.weight"  # of both sides
STACKS = {"encoder": "self_attn", "decoder": "merged_attn"}
"""The stacks, and what each calls its attention."""


@dataclass(frozen=True)
class Row:
    """One line of the table. `{layer}` is the index of a layer, counted from 0."""

    source: str
    """Hugging Face's name."""
    target: str
    """Ours; `{stack}` is the encoder and the decoder, `{attn}` what it calls its attention (`STACKS`)."""
    part: str
    """The part of the network: embedding, attention, mlp, norms or head."""
    when: str = ""
    """The switch of the config without which neither side has it; "" where both always do."""
    stacks: tuple[str, ...] = ("encoder", "decoder")


def _of_a_layer(name: str, part: str, when: str = "") -> Row:
    """A tensor that each layer of both stacks has, by Hugging Face's name within the layer."""
    ours = name.replace("self_attn", "{attn}")
    return Row(f"model.layers.{{layer}}.{name}", f"{{stack}}.layers.{{layer}}.{ours}", part, when)


TABLE = (
    Row("model.embed_tokens.weight", "shared.weight", "embedding"),
    _of_a_layer("input_layernorm.weight", "norms"),
    _of_a_layer("self_attn.q_proj.weight", "attention"),
    _of_a_layer("self_attn.k_proj.weight", "attention"),
    _of_a_layer("self_attn.v_proj.weight", "attention"),
    _of_a_layer("self_attn.o_proj.weight", "attention"),
    _of_a_layer("self_attn.q_proj.bias", "attention", "attention_bias"),
    _of_a_layer("self_attn.k_proj.bias", "attention", "attention_bias"),
    _of_a_layer("self_attn.v_proj.bias", "attention", "attention_bias"),
    _of_a_layer("self_attn.o_proj.bias", "attention", "attention_out_bias"),
    _of_a_layer("self_attn.q_norm.weight", "attention", "use_qk_norm"),
    _of_a_layer("self_attn.k_norm.weight", "attention", "use_qk_norm"),
    _of_a_layer("post_attention_layernorm.weight", "norms"),
    _of_a_layer("mlp.gate_proj.weight", "mlp"),
    _of_a_layer("mlp.up_proj.weight", "mlp"),
    _of_a_layer("mlp.down_proj.weight", "mlp"),
    Row("model.norm.weight", "{stack}.norm.weight", "norms"),
    Row("lm_head.weight", "lm_head.weight", "head", stacks=("decoder",)),
)
"""The whole mapping. A head is stored where it is tied too, or left out."""


@dataclass(frozen=True)
class Pair:
    """A row of the table for one layer of one stack."""

    source: str
    target: str
    part: str
    stack: str


def pairs(config: Qwen3EncoderDecoderConfig) -> list[Pair]:
    """Every pair of a Hugging Face name and a parameter of ours in a model of `config`, the encoder's first."""
    return [
        Pair(
            row.source.format(layer=layer),
            row.target.format(stack=stack, attn=STACKS[stack], layer=layer),
            row.part,
            stack,
        )
        for stack in STACKS
        for row in TABLE
        if stack in row.stacks and (not row.when or getattr(config, row.when))
        for layer in range(config.num_hidden_layers if "{layer}" in row.source else 1)
    ]


def layer_tensors(source: Mapping[str, torch.Tensor], layer: int, stack: str) -> dict[str, torch.Tensor]:
    """One layer's tensors of a Hugging Face state dict, as they are, under their names in `stack`.

    `ValueError` for a stack that is none of `STACKS`, a tensor that every layer has and this one has not, and a tensor
    of the layer that the table has no row for.
    """
    if stack not in STACKS:
        raise ValueError(f"stack = {stack!r}; expected one of {', '.join(STACKS)}")
    rows = {row.source.format(layer=layer): row for row in TABLE if "{layer}" in row.source}
    missing = [name for name, row in rows.items() if not row.when and name not in source]
    names = [name for name in source if name.startswith(f"model.layers.{layer}.")]
    unknown = [name for name in names if name not in rows]
    if missing or unknown:
        raise ValueError(
            f"layer {layer} is not one of Qwen3's or Qwen2's: it lacks {missing}, and {unknown} are not in the table"
        )
    return {rows[name].target.format(stack=stack, attn=STACKS[stack], layer=layer): source[name] for name in names}
