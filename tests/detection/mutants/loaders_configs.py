"""Seeded bugs of a loader: a config.json that is read wrongly, not used, or another's."""

from __future__ import annotations

from typing import Any

import torch

from detection.mutants.loaders_entry import ATTENTION, BIASED, BOTH, QWEN2, TIED, UNTIED, loader
from detection.mutants.loaders_run import Loading
from detection.mutants.loaders_seeds import config, fields, files, model, then
from detection.mutants.mutant import REFUSED, Seed
from qwen3_encdec.norm import Qwen3RMSNorm

EVEN = "checkpoints/even-window"


def _encoder(**values: Any) -> Seed:
    """Another checkpoint for the encoder: a copy with these fields of config.json."""

    def seed(loading: Loading) -> None:
        directory = loading.copied("encoder")
        fields(**values)(directory)
        loading.options["encoder_directory"] = directory

    return seed


def _eps(value: float) -> Seed:
    def change(found: Any) -> None:
        for module in found.modules():
            if isinstance(module, Qwen3RMSNorm):
                module.variance_epsilon = value

    return model(change)


def _frequencies(theta: float) -> Seed:
    """The frequencies of both stacks are those of another base."""

    def change(found: Any) -> None:
        even = torch.arange(0, found.config.head_dim, 2).float()
        for stack in (found.encoder, found.decoder):
            stack.rotary_emb.inv_freq = theta ** (-even / found.config.head_dim)

    return model(change)


def _theta(value: float) -> Seed:
    return then(config(rope_theta=value), _frequencies(value))


def _all_heads(found: Any) -> None:
    """As many key and value heads as query heads: each one several times."""
    repeats = found.config.num_attention_heads // found.config.num_key_value_heads
    for stack, attn in ((found.encoder, "self_attn"), (found.decoder, "merged_attn")):
        for layer in stack.layers:
            for name in ("k_proj", "v_proj"):
                projection = layer.get_submodule(f"{attn}.{name}")
                projection.weight = torch.nn.Parameter(projection.weight.repeat(repeats, 1))
    found.config.num_key_value_heads = found.config.num_attention_heads


def _without(*names: str) -> Seed:
    """Parameters of every attention that are not there."""

    def change(found: Any) -> None:
        for stack, attn in ((found.encoder, "self_attn"), (found.decoder, "merged_attn")):
            for layer in stack.layers:
                for name in names:
                    path, _, own = f"{attn}.{name}".rpartition(".")
                    setattr(layer.get_submodule(path), own, None)

    return model(change)


CONFIGS = (
    loader("CFG-01/loader", "num_key_value_heads is not read: one for each query head", model(_all_heads),
        f"{ATTENTION} config_matches", ["[60, 40]", "num_key_value_heads"], BOTH),
    loader("CFG-01/loader_absent", "num_key_value_heads is not in config.json", files(fields(num_key_value_heads=...)),
        REFUSED, ["num_key_value_heads"], (TIED, QWEN2)),
    loader("CFG-02/loader", "rope_theta is not found: 10000", _theta(10_000.0), "config_matches",
        ["rope_theta", "inv_freq"], (*BOTH, QWEN2)),
    loader("CFG-02/loader_absent", "rope_theta is under another name",
        files(fields(rope_theta=..., rotary_emb_base=250_000.0)), REFUSED, ["rope_theta"], (TIED, QWEN2)),
    loader("CFG-04/loader", "an eps that is no whole number is 0", then(config(rms_norm_eps=0.0), _eps(0.0)),
        "config_matches", ["rms_norm_eps", "eps"], BOTH),
    loader("CFG-04/loader_modules", "norms have an eps of their own", _eps(1e-5), "config_matches", ["eps"], BOTH),
    loader("CFG-04/loader_theta", "rope_theta is text in scientific notation", files(fields(rope_theta="2.5e5")),
        REFUSED, ["rope_theta"], (TIED,)),
    loader("CFG-04/loader_eps", "rms_norm_eps is text in scientific notation", files(fields(rms_norm_eps="1e-06")),
        REFUSED, ["rms_norm_eps"], (TIED, QWEN2)),
    loader("CFG-05/loader", "layer_types is not read",
        config(layer_types=lambda before: ["full_attention"] * len(before)), "config_matches", ["layer_types"],
        (UNTIED, EVEN)),
    loader("CFG-05/loader_window", "windows are one too small", config(sliding_window=lambda window: window - 1),
        "config_matches", ["sliding_window"], (UNTIED, EVEN)),
    loader("CFG-06/loader", "one config for two checkpoints that differ",
        _encoder(rms_norm_eps=1e-3, rope_theta=10_000.0), REFUSED, ["rms_norm_eps: 0.001"], (TIED, QWEN2)),
    loader("MRG-20/loader", "the encoder is said to have another depth", _encoder(num_hidden_layers=2, layer_types=...),
        REFUSED, ["num_hidden_layers: 2"], (TIED,)),
    loader("CFG-08/loader", "max_position_embeddings is another", config(max_position_embeddings=32), "config_matches",
        ["max_position_embeddings"], (*BOTH, EVEN)),
    loader("CFG-09/loader", "a scaling that nobody knows is left out",
        files(fields(rope_scaling={"rope_type": "spiral", "factor": 2.0})), REFUSED, ["spiral"], (TIED, QWEN2)),
    loader("CFG-10/loader", "Qwen2 is taken for Qwen3: no biases",
        then(_without("q_proj.bias", "k_proj.bias", "v_proj.bias"), config(attention_bias=False)),
        f"{ATTENTION} config_matches", ["not in the model", "attention_bias"], (QWEN2, BIASED)),
    loader("CFG-10/loader_norms", "Qwen3 is taken for Qwen2: no QK-norm",
        then(_without("q_norm", "k_norm"), config(use_qk_norm=False)), f"{ATTENTION} config_matches",
        ["not in the model", "use_qk_norm"], BOTH),
    loader("CFG-10/loader_file", "a Qwen2 checkpoint says that it is Qwen3",
        files(fields(model_type="qwen3", head_dim=8)), REFUSED, ["k_norm"], (QWEN2,)),
    loader("HED-06/loader", "tie_word_embeddings is sought where it is not: an untied head that nobody ties",
        then(model(lambda found: setattr(found.lm_head, "weight", torch.nn.Parameter(found.shared.weight.clone()))),
        config(tie_word_embeddings=False)), "embeddings_tied config_matches",
        ["lm_head.weight: is not tied", "config.tie_word_embeddings: is False"], (TIED,)),
    loader("WLD-16/loader", "the checkpoint's own inv_freq, of another base, overrides the config's",
        _frequencies(10_000.0), "config_matches", ["inv_freq"], (*BOTH, QWEN2)),
    loader("own/loader-dropout", "attention_dropout is 0.1", config(attention_dropout=0.1), "config_matches",
        ["attention_dropout"], (TIED,)),
)  # fmt: skip
