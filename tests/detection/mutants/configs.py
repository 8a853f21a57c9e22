"""Seeded bugs: a configuration that is read wrongly, or not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from detection.mutants.entry import entry
from detection.mutants.mask_seeds import both, config_field
from detection.mutants.mutant import Seed
from detection.mutants.patch import Patch
from qwen3_encdec import qwen3_source
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_encdec.rope import Qwen3RotaryEmbedding, inverse_frequencies

_FREQUENCIES = ("encoder.inv_freq", "decoder.inv_freq")
_NORMS = (
    *("input_layernorm", "post_attention_layernorm", "encoder.norm", "decoder.norm"),
    *("merged_attn.q_norm", "merged_attn.k_norm", "merged_attn.encoder_k_norm", "self_attn.q_norm", "self_attn.k_norm"),
)
_TIED, _WINDOW = ("encdec/ragged", "encdec/unrotated"), ("encdec/window",)


def _rope_parameters(theta: Any) -> Seed:
    """`theta(config.json)` is the base."""

    def resolve(source: Mapping[str, Any], default_theta: float | None = None) -> dict[str, Any]:
        return {"rope_type": "default", "rope_theta": float(theta(source))}

    return lambda patch: patch.setattr(qwen3_source, "resolve_rope_parameters", resolve)


def _window_fields(layer_types: Any) -> Seed:
    """The layer types are `layer_types(config.json, window)`."""

    def fields(source: Mapping[str, Any]) -> dict[str, Any]:
        window = source.get("sliding_window") if source.get("use_sliding_window") else None
        return {"layer_types": layer_types(source, window), "sliding_window": window}

    return lambda patch: patch.setattr(qwen3_source, "_window_fields", fields)


def _from_layer(source: Mapping[str, Any], window: int | None, first: int) -> list[str]:
    sliding = [window is not None and layer >= first for layer in range(source["num_hidden_layers"])]
    return ["sliding_attention" if slides else "full_attention" for slides in sliding]


def _eps(value: float) -> Seed:
    def seed(patch: Patch) -> None:
        for module in patch.model.modules():
            if isinstance(module, Qwen3RMSNorm):
                patch.setattr(module, "variance_epsilon", value)

    return seed


def _frequencies(values: Any) -> Seed:
    def seed(patch: Patch) -> None:
        for stack in (patch.model.encoder, patch.model.decoder):
            patch.setattr(stack.rotary_emb, "inv_freq", values(stack.rotary_emb))

    return seed


def _garbage(rotary: Any) -> torch.Tensor:
    return torch.rand(rotary.inv_freq.shape, generator=torch.Generator().manual_seed(0))


def _wrapped_positions(patch: Patch) -> None:
    def forward(plain: Any, rotary: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return plain(rotary, x, position_ids % rotary.max_position_embeddings)

    patch.wrap(Qwen3RotaryEmbedding, "forward", forward)


def _without_bias(patch: Patch) -> None:
    for attention in patch.attentions("decoder"):
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            patch.setattr(projection, "bias", None)


CONFIGS = (
    entry("NRM-02", "eps is 1e-6 whatever the config says", _eps(1e-6), _NORMS, "norm.eps", _WINDOW),
    entry("ROP-08", "rope_theta is sought at the top level alone, else 10000",
          _rope_parameters(lambda source: source.get("rope_theta") or 10000), _FREQUENCIES, "table.theta", _WINDOW),
    entry("ROP-30", "frequencies are what the memory held", _frequencies(_garbage), _FREQUENCIES,
          "table.unknown fit.channel_factor", _TIED),
    entry("CFG-02", "rope_theta is sought in rope_parameters alone, else 1e6",
          _rope_parameters(lambda source: (source.get("rope_parameters") or {}).get("rope_theta") or 1e6), _FREQUENCIES,
          "table.theta", _TIED),
    entry("CFG-04", "an eps that is no whole number is 0", _eps(0.0), _NORMS, "norm.eps", _WINDOW),
    entry("CFG-04/theta", "rope_theta in scientific notation is cut at the e: 2.5e5 is 2.5",
          _rope_parameters(lambda source: f"{source['rope_theta']:e}".partition("e")[0]), _FREQUENCIES, "table.theta",
          _TIED),
    entry("CFG-05", "layer_types is not read", _window_fields(lambda source, window: _from_layer(source, window, 28)),
          ("merged_attn.mask",), "mask.window_missing", ("decoder/window_chunks",)),
    entry(
        "CFG-05/rule",
        "every second layer has the window, the first one not",
        _window_fields(
            lambda source, window: (["full_attention", "sliding_attention"] * 2)[: source["num_hidden_layers"]]
        ),
        ("merged_attn.mask",),
        "mask.window_wrong_layers",
        ("decoder/window_chunks",),
    ),
    entry("CFG-05/first", "windows begin one layer late",
          _window_fields(lambda source, window: _from_layer(source, window, source["max_window_layers"] + 1)),
          ("merged_attn.mask",), "mask.window_missing mask.window_wrong_layers", ("decoder/window_even",)),
    entry("CFG-08", "tables wrap around at max_position_embeddings", _wrapped_positions, ("encoder.cos", "encoder.sin"),
          "table.clamped_positions table.wrapped_positions", ("encoder/window_even",)),
    entry("CFG-10", "Qwen2 is taken for Qwen3: no biases", _without_bias,
          tuple(f"merged_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "encoder_k_proj", "encoder_v_proj")),
          "weight.no_bias", ("encdec/qwen2",)),
    entry("WLD-16", "the checkpoint's own inv_freq, of another base, overrides the config's",
          _frequencies(lambda rotary: inverse_frequencies(rotary.dim, 10000.0)), _FREQUENCIES, "table.theta",
          (*_TIED, *_WINDOW)),
    entry("own/config-rotates-anyway", "rotate_encoder_keys is not read: keys are rotated",
          both(config_field("rotate_encoder_keys", True)), ("merged_attn.cache_encoder_keys",),
          "cache.rerotated cache.rotated wiring.other_input", ("encdec/unrotated",)),
    entry("own/config-window-less", "the window is read one too small, in both stacks",
          config_field("sliding_window", lambda window: window - 1), ("merged_attn.mask", "self_attn.mask"),
          "mask.window_off_by_one", _WINDOW),
)  # fmt: skip
