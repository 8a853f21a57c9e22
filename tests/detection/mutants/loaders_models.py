"""Seeded bugs of a loader, as the loaded model shows them: other values, layouts and dtypes."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.loaders_entry import ATTENTION, BFLOAT16, BIASED, BOTH, DEEP, QWEN2, loader
from detection.mutants.loaders_seeds import layers, model, parameter, then
from detection.mutants.mutant import Seed


def _as_columns(weight: torch.Tensor) -> torch.Tensor:
    """The memory of `[out, in]` read as `[in, out]`, then transposed to fit."""
    return weight.reshape(weight.shape[1], weight.shape[0]).T


def _byteswapped(weight: torch.Tensor) -> torch.Tensor:
    if weight.dtype == torch.bfloat16:
        return torch.from_numpy(weight.view(torch.int16).numpy().byteswap()).view(torch.bfloat16)
    return torch.from_numpy(weight.numpy().byteswap())


def one_element(weight: torch.Tensor) -> torch.Tensor:
    """One element, the fourth, is another number."""
    weight.view(-1)[3] += 0.25
    return weight


def _last_bit(weight: torch.Tensor) -> torch.Tensor:
    weight.view(-1)[3:4].view(torch.int32).bitwise_xor_(1)
    return weight


def _taken(name: str, source: str, clone: bool = True) -> Seed:
    """A parameter has the values of another, or is the other's memory."""

    def change(network: Any) -> None:
        last = network.config.num_hidden_layers - 1
        values = network.get_parameter(source.format(last=last)).detach()
        path, _, attribute = name.format(last=last).rpartition(".")
        setattr(network.get_submodule(path), attribute, torch.nn.Parameter(values.clone() if clone else values))

    return model(change)


def _through(dtype: torch.dtype) -> Any:
    return lambda weight: weight.to(dtype).to(weight.dtype)


def _column_shards(network: Any) -> None:
    for layer in network.decoder.layers:
        gate, up = layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight
        first, second = torch.cat((gate, up)).chunk(2)[0].clone(), torch.cat((gate, up)).chunk(2)[1].clone()
        half = len(gate) // 2
        gate.copy_(torch.cat((first[:half], second[:half])))
        up.copy_(torch.cat((first[half:], second[half:])))


def _kind_by_kind(network: Any) -> None:
    names = ("input_layernorm", "post_attention_layernorm")
    written = [getattr(layer, name).weight for layer in network.decoder.layers for name in names]
    read = [getattr(layer, name).weight for name in names for layer in network.decoder.layers]
    for weight, values in zip(read, [weight.detach().clone() for weight in written], strict=True):
        weight.copy_(values)


def _shared_memory(network: Any) -> None:
    for ours, theirs in zip(network.encoder.layers, network.decoder.layers, strict=True):
        for name in ("gate_proj", "up_proj", "down_proj"):
            getattr(ours.mlp, name).weight = getattr(theirs.mlp, name).weight


MODELS = (
    loader("FNL-01/loader", "final norms are never loaded",
           then(*(parameter(f"{stack}.norm.weight", torch.ones_like) for stack in ("encoder", "decoder"))),
           "norms_match", ["never loaded: all ones"], (*BOTH, BFLOAT16)),
    loader("FNL-06/loader", "the final norm is the last layer's post_attention_layernorm",
           _taken("decoder.norm.weight", "decoder.layers.{last}.post_attention_layernorm.weight"), "norms_match",
           ["holds the values of model.layers.2.post_attention_layernorm.weight"], BOTH),
    loader("WLD-01/loader", "k_proj and v_proj read as [in, out]: a reshape, no transpose",
           then(*(layers(f"{{attn}}.{name}_proj.weight", _as_columns) for name in "kv")), ATTENTION,
           ["is its source read as [in, out]"], (*BOTH, QWEN2, BFLOAT16)),
    loader("WLD-02/loader", "square matrices are transposed",
           then(layers("{attn}.q_proj.weight", torch.t), layers("mlp.up_proj.weight", torch.t)),
           f"{ATTENTION} mlp_match", ["is the transpose of its source"], (QWEN2,)),
    loader("WLD-09/loader", "bytes are exchanged", parameter("decoder.norm.weight", _byteswapped), "norms_match",
           ["exchanged byte order"], (*BOTH, BFLOAT16)),
    loader("WLD-10/loader", "norms stored layer by layer are read kind by kind", model(_kind_by_kind), "norms_match",
           ["holds the values of model.layers."], (*BOTH, DEEP)),
    loader("WLD-14/loader", "the memory of a transposed view is written",
           layers("mlp.down_proj.weight", lambda w: w.T.contiguous().reshape(w.shape), "decoder"), "mlp_match",
           ["is the transpose of its source read as [out, in]"], BOTH),
    loader("WLD-17/loader", "[gate ; up] is cut into plain shards", model(_column_shards), "mlp_match",
           ["35 of 70 rows are rows of model.layers."], BOTH),
    loader("WLD-18/loader", "weights go through float16", layers("mlp.up_proj.weight", _through(torch.float16)),
           "mlp_match", ["rounded to float16 on the way"], BOTH),
    loader("WLD-18/loader_bfloat16", "weights go through bfloat16",
           layers("{attn}.q_norm.weight", _through(torch.bfloat16)), ATTENTION, ["rounded to bfloat16 on the way"],
           BOTH),
    loader("WLD-21/loader", "bits of bfloat16 are read as float16",
           layers("mlp.up_proj.weight", lambda w: w.view(torch.float16).to(w.dtype)), "mlp_match",
           ["its bits read as float16"], (BFLOAT16,)),
    loader("own/loader-one-element", "one element of the last layer's k_norm",
           parameter("decoder.layers.{last}.merged_attn.k_norm.weight", one_element), "decoder_attention_match",
           ["1 of 10 elements", "at [3]"], (*BOTH, DEEP)),
    loader("own/loader-one-element-encoder", "the last bit of one element of the encoder's last down_proj",
           parameter("encoder.layers.{last}.mlp.down_proj.weight", _last_bit), "mlp_match",
           ["1 of 2800 elements", "at [0, 3]"], BOTH),
    loader("own/loader-bias", "k_proj has v_proj's bias",
           _taken("decoder.layers.1.merged_attn.k_proj.bias", "decoder.layers.1.merged_attn.v_proj.bias"),
           "decoder_attention_match", ["holds the values of model.layers.1.self_attn.v_proj.bias"], (QWEN2, BIASED)),
    loader("own/loader-norms-exchanged", "the encoder's last k_norm is q_norm",
           _taken("encoder.layers.{last}.self_attn.k_norm.weight", "encoder.layers.{last}.self_attn.q_norm.weight"),
           "encoder_attention_match", ["holds the values of model.layers.2.self_attn.q_norm.weight"], BOTH),
    loader("own/loader-stacks-share", "encoder and decoder share the MLPs' memory", model(_shared_memory),
           "stacks_share_no_storage", ["shares its memory with decoder.layers."], (*BOTH, QWEN2)),
    loader("own/loader-extra-parameter", "the model has a parameter that no tensor fills",
           model(lambda network: network.decoder.register_parameter("scale", torch.nn.Parameter(torch.ones(4)))),
           "every_parameter_checked", ["decoder.scale: no tensor of the checkpoint belongs here"], BOTH),
)  # fmt: skip
