"""Tiny-width twins of the published models: the same structure, and one case each.

A twin has its model's ratio of heads to KV heads, ties, biases, QK-norm, theta, eps, positions and activation; its
projections are square where the model's are. It has an eighth of the layers and two KV heads, and is stored in
bfloat16. The MLP, which is the same in all of them, is narrow. Where RoPE is scaled, the original length is such that
of the twin's three pairs one is kept, one blended and one divided.
"""

from __future__ import annotations

from typing import Any

from qwen3_golden import pb
from qwen3_golden.models import model
from qwen3_reference.cases.definitions import LONG_TAPS, CaseDefinition
from qwen3_reference.checkpoints.published import config_json
from qwen3_reference.checkpoints.sizes import PAD_ID, SIZES
from qwen3_reference.checkpoints.tiny import Definition

_DTYPE = "bfloat16"


def _config(name: str, sizes: dict[str, int], original_length: int) -> dict[str, Any]:
    """The config.json of a model with other `sizes`, by their names in ModelConfig."""
    config = model(name).config
    for field, value in sizes.items():
        setattr(config, field, value)
    if original_length:
        config.max_position_embeddings = int(original_length * config.rope_scaling.factor)
        config.rope_scaling.original_max_position_embeddings = original_length
    return {**dict.fromkeys(SIZES), **config_json(config, _DTYPE), "pad_token_id": PAD_ID}


def _twin(
    name: str,
    seed: int,
    hidden: int,
    inner: int,
    vocab: int,
    head_dim: int = 4,
    original_length: int = 0,
    files: int = 1,
) -> Definition:
    real = model(name)
    sizes = {
        "hidden_size": hidden,
        "head_dim": head_dim,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "num_hidden_layers": real.config.num_hidden_layers // 8,
        "num_attention_heads": 2 * real.config.num_attention_heads // real.config.num_key_value_heads,
        "num_key_value_heads": 2,
    }
    config = _config(name, sizes, original_length)
    untied = not real.config.tie_word_embeddings
    return Definition(real.twin, seed, seed - 1, config, _DTYPE, stores_head=untied, files=files)


TWINS = (
    _twin("Qwen3-0.6B", 902, 8, 24, 41),
    _twin("Qwen3-1.7B", 804, 16, 36, 43),
    _twin("Qwen3-4B", 906, 18, 24, 47),
    _twin("Qwen3-4B-Instruct-2507", 808, 18, 24, 47),
    _twin("Qwen3-8B", 1210, 32, 20, 41),
    _twin("Qwen3-8B-YaRN", 812, 48, 12, 41, head_dim=6, original_length=4096),
    _twin("Qwen3-14B", 914, 40, 12, 43),
    _twin("Qwen3-32B", 2116, 16, 20, 47, files=2),
    _twin("Qwen2.5-0.5B", 818, 56, 10, 41),
    _twin("Qwen2.5-7B", 820, 56, 10, 43, files=2),
)
"""The checkpoints that `Model.twin` of models.textproto names, one for each structure."""


def _case(
    name: str, seed: int, structure: str, exposes: str, *, first: int = 0, taps: tuple[str, ...] = LONG_TAPS
) -> CaseDefinition:
    """One checkpoint in both roles, widened to float32; padding in both stacks and two decode steps."""
    return CaseDefinition(
        f"models/{model(name).twin}",
        f"The structure of {name}: {structure}.",
        seed,
        encoder=model(name).twin,
        decoder=model(name).twin,
        encoder_rows=("111", "011"),
        decoder_rows=("1111", "0111"),
        steps=(2, 1, 1),
        first_position=first,
        tier=pb.TIER_LONG,
        taps=taps,
        exposes=tuple(exposes.split()),
    )


_YARN = (*LONG_TAPS, "*.layers.0.*.q_rope", "*.layers.0.*k_rope")
TWIN_CASES = (
    _case(
        "Qwen3-0.6B", 31, "2 queries to a KV head, q wider than hidden, k and v square, tied", "PRJ-01 PRJ-02 HED-01"
    ),
    _case("Qwen3-1.7B", 32, "2 queries to a KV head, q and o square, tied", "WLD-02 HED-01"),
    _case("Qwen3-4B", 33, "4 queries to a KV head, q wider than hidden, tied", "GQA-01 PRJ-01 PRJ-02"),
    _case("Qwen3-4B-Instruct-2507", 34, "theta 5e6, at positions near 200000", "ROP-07 CFG-08", first=196000),
    _case("Qwen3-8B", 35, "4 queries to a KV head, q and o square, untied", "WLD-02 HED-02 HED-04"),
    _case("Qwen3-8B-YaRN", 36, "YaRN, across its original length", "ROP-09 ROP-13 CFG-02", first=4094, taps=_YARN),
    _case("Qwen3-14B", 37, "5 queries to a KV head, q and o square, untied", "GQA-04 WLD-02 HED-02"),
    _case("Qwen3-32B", 38, "8 queries to a KV head, q wider than hidden, untied, in two files", "GQA-01 PRJ-01 HED-02"),
    _case("Qwen2.5-0.5B", 39, "7 queries to a KV head, biases on q, k and v, no QK-norm, tied", "PRJ-06 GQA-04 CFG-10"),
    _case("Qwen2.5-7B", 40, "as Qwen2.5-0.5B, but untied and in two files", "PRJ-06 HED-02 CFG-10"),
)
"""The cases models/<twin>."""
