"""A configuration of a family shrunk to a model that runs in milliseconds, with sizes that differ from one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from qwen3_golden import ParityError
from qwen3_reference.checkpoints.stored import read_json
from qwen3_reference.graph.load import is_causal, reads, text_config
from qwen3_reference.graph.reason import short
from qwen3_reference.graph.scalars import louder
from qwen3_reference.graph.turning import SECTIONS, turning, turns_in_part
from qwen3_reference.quiet import quiet

Settings = Mapping[str, Any]

VOCABULARY = 61
BINS, FRAMES = 8, 32
"""Of sound's features: how many numbers there are at a time, and how many times."""
_WIDTH, _HEADS, _KEY_HEADS, _INNER, _EXPERT = 24, 6, 2, 40, 16
_WIDE_HEADS = 8, 12
_TURNED_HEADS = 4
"""Wide enough for rotary_dim, and a multiple of 4, as CodeGen has them."""
_SIZES: Settings = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "entity_vocab_size"), VOCABULARY),
    **dict.fromkeys(("pronunciation_vocab_size", "shape_vocab_size"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "word_embed_proj_dim"), _WIDTH),
    "embedding_size": 20,  # then it is widened
    **dict.fromkeys(("attention_hidden_size", "lru_width"), _WIDTH),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "d_ff", "n_inner", "hidden_dim", "ffn_hidden_size"), _INNER),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "block_ff_dim"), _INNER),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads"), _HEADS),
    **dict.fromkeys(("decoder_attention_heads", "num_heads", "swa_num_attention_heads"), _HEADS),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), _HEADS),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "kv_n_heads", "swa_num_key_value_heads"), _KEY_HEADS),
    **dict.fromkeys(("head_dim", "d_kv", "qk_head_dim", "swa_head_dim"), 10),
    "d_head": _WIDTH // _HEADS,
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"), 64),
    **dict.fromkeys(("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"), 1e-5),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 12),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_top_k"), 3),
    **dict.fromkeys(("moe_intermediate_size", "expert_ffn_hidden_size"), _EXPERT),
    **dict.fromkeys(("shared_expert_intermediate_size", "shared_intermediate_size"), 32),
    **dict.fromkeys(("num_sparse_encoder_layers", "num_sparse_decoder_layers"), 1),
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "num_shared_experts", "n_shared_experts"), 1),
    "zero_expert_num": 4,
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "rotary_dim"), 4),
    **dict.fromkeys(("qk_nope_head_dim", "v_head_dim", "swa_v_head_dim"), 6),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_heads"), 2),
    "linear_num_value_heads": 4,
    **dict.fromkeys(("linear_key_head_dim", "linear_head_dim", "state_size", "mamba_d_state", "mamba_d_head"), 8),
    "linear_value_head_dim": 6,  # or a state's axes may be exchanged
    **dict.fromkeys(("mamba_n_heads", "n_mamba_heads"), _HEADS),
    "mamba_headdim": 2 * _WIDTH // _HEADS,
    "num_channels": 1,
    "mamba_d_ssm": 2 * _WIDTH,
    **dict.fromkeys(("mamba_chunk_size", "chunk_size", "sliding_window", "attention_window_size"), 4),
    **dict.fromkeys(("local_attention", "window_size", "attention_chunk_size", "local_radius"), 4),
    **dict.fromkeys(("patch_size", "mm_tokens_per_image"), 4),
    **dict.fromkeys(("image_size", "hidden_size_per_layer_input"), 8),
    **dict.fromkeys(("num_mel_bins", "input_feat_per_channel"), BINS),
    "max_source_positions": FRAMES // 2,  # behind convolutions of which one goes by two
    "conv_channels": _INNER,
    "time_step_rank": 2,
    **dict.fromkeys(("attn_layer_period", "expert_layer_period"), 2),
    **dict.fromkeys(("attn_layer_offset", "expert_layer_offset"), 1),
    **dict.fromkeys(("intra_bottleneck_size", "true_hidden_size"), 18),
    "num_layers_per_stack": None,  # of HRM, which makes num_hidden_layers of it
    "query_pre_attn_scalar": 5,  # or scores are far from any cap
    "swiglu_limit": 2.0,  # that numbers reach
    "pad_token_id": 0,
    **dict.fromkeys(("bos_token_id", "decoder_start_token_id"), 1),
    "eos_token_id": 2,
    **dict.fromkeys(("image_token_index", "image_token_id", "boi_token_index", "eoi_token_index"), 3),
    "mask_token_id": 4,
    **dict.fromkeys(("video_token_id", "vision_start_token_id", "vision_end_token_id"), 3),
    "default_language": "en_XX",
    "block_auto_adjust_ff_dim": False,
    "use_cache": True,
}
"""Numbers by the keys of configurations; a key that a configuration lacks, or has no number for, stays as it is."""
_GROUPS: Mapping[str, Settings] = {
    "n_group": {"n_group": 4, "topk_group": 2},
    "num_expert_group": {"num_expert_group": 4, "topk_group": 2},
    "n_groups": {"n_groups": 2},
    "mamba_n_groups": {"mamba_n_groups": 2},
}
"""By the key that counts a family's groups, where it has several: some groups of experts are left out, and the chosen
experts need more than one; a state's heads are shared out to two."""
_ONE_GROUP: Settings = {key: 1 for sizes in _GROUPS.values() for key in sizes}
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers")
_DEPTHS = (*_LAYERS, "decoder_layers")
_PERIODS = ("encoder_sparse_step", "decoder_sparse_step")
_FEWEST, _MOST = 2, 4
_OF_A_KIND, _FILLED = "layers of a kind", "what is None is filled in"
"""How many there are, and whether, beside sizes: no key of a configuration has spaces."""
_FLOAT = "__float__"
ADJUSTMENTS: tuple[Settings, ...] = (
    {},
    {"head_dim": _WIDTH // _HEADS},
    {"num_key_value_heads": _HEADS},
    {"head_dim": _WIDTH // _HEADS, "num_key_value_heads": _HEADS},
    {"head_dim": 8},
    {"attn_layer_indices": [1]},
    {"num_kv_shared_layers": 0},
    {"n_head": _TURNED_HEADS},
    {"num_experts_per_tok": 1},
    {"attention_hidden_size": 2 * _WIDTH, "head_dim": 8},
    {"attention_hidden_size": 2 * _WIDTH, "head_dim": 8, "hybrid_layer_ids": [1]},
    {"num_key_value_heads": _HEADS // 2},
    {"embedding_size": _WIDTH},
    {"num_codebooks": 1},
    dict.fromkeys(("num_hidden_layers", "num_layers"), 3),
    _ONE_GROUP,
    {"attention_hidden_size": 2 * _WIDTH, "head_dim": 8, _OF_A_KIND: 2},  # which all have the first one's weights
    {"layer_types": [None, "attention"]},  # of a family that has no layer of it unless a checkpoint says where
    {_FILLED: True},
    {_FILLED: True, "layer_types": ["conv", "full_attention"], "mlp_layer_types": ["dense", "sparse"]},
)
"""What else is tried, in order, where a family does not run with those: heads that fill the width, one key a head."""
_WIDE, _WIDER = (
    {**dict.fromkeys((key for key, size in _SIZES.items() if size == _WIDTH), _HEADS * head), "head_dim": head}
    for head in _WIDE_HEADS
)
"""Heads of which a part can turn, in more than one pair, and the rest stays, where heads are as wide as the width; and
heads whose pairs are in three equal sections.
"""


def candidates(config: Any, settings: Settings = MappingProxyType({})) -> Iterator[Callable[[], Any]]:
    """Small configurations to try in order, each as what makes it: loud scalars before those that the family has.

    Of a family that turns a part of each head wide heads come early.
    """
    said = config.to_dict()
    tries = ADJUSTMENTS
    if turns_in_part(said) or _turns_by_sections(config):
        tries = (*(ADJUSTMENTS[:1] if "head_dim" in said else ()), _WIDE, *ADJUSTMENTS, _WIDER)
    for scalars in (True, False) if louder(said) != said else (False,):
        for adjusted in tries:
            yield partial(small, config, adjusted, settings, scalars=scalars)


def _turns_by_sections(config: Any) -> bool:
    """Whether a family's frequencies have sections that its configuration may leave to the source."""
    return reads(config, f'"{SECTIONS}"')


def family(name: str | Path) -> Any:
    """A family's own configuration, by its model_type or from a config.json, of the part that reads text.

    Raises `ParityError` for a family that transformers does not know and for a file that is no configuration.
    """
    path = Path(name)
    said = read_json(path) if path.suffix == ".json" else {"model_type": str(name)}
    kind = said.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise ParityError(
            str(name),
            "transformers does not know this family",
            expected="a model_type such as qwen3_moe, or the path of a config.json",
            got=ascii(kind),
            next_step=_other_name(kind),
        )
    family_class: Any = CONFIG_MAPPING[kind]
    try:
        with quiet():
            return text_config(family_class.from_dict(_read({key: said[key] for key in said if key != "model_type"})))
    except Exception as error:  # each family checks its numbers by itself
        raise ParityError(
            str(name),
            f"this is no configuration of {kind}",
            expected="a config.json that transformers reads",
            got=f"{type(error).__name__}: {short(error)}",
            next_step=other_config(name),
        ) from error


def other_config(name: str | Path) -> str:
    """What to do where a family's own configuration, or a file's, is none that runs."""
    return "check config.json" if Path(name).suffix == ".json" else "give a published model's config.json, not the name"


def _other_name(kind: object) -> str:
    """What to do about a name that transformers does not know: the nearest that it does."""
    near = get_close_matches(str(kind).replace("_", "-"), [name.replace("_", "-") for name in CONFIG_MAPPING], 1, 0.8)
    names = [name for name in CONFIG_MAPPING if name.replace("_", "-") in near]
    return f"{f'is it {names[0]}? else' if names else 'check the name;'} a newer transformers may have it"


def _read(said: Any) -> Any:
    """What a config.json holds, with the infinities that transformers writes as `{"__float__": "Infinity"}`."""
    if isinstance(said, dict):
        return float(said[_FLOAT]) if said.keys() == {_FLOAT} else {key: _read(value) for key, value in said.items()}
    return [_read(value) for value in said] if isinstance(said, list) else said


def small(config: Any, adjusted: Settings, settings: Settings = MappingProxyType({}), *, scalars: bool = False) -> Any:
    """A configuration with small sizes, a new one of its class; raises what the class raises for such sizes.

    `settings` stand as they are; `scalars`: with loud ones.
    """
    said = config.to_dict()
    sizes = {**_SIZES, **_ONE_GROUP}
    for key, groups in _GROUPS.items():
        sizes |= groups if (said.get(key) or 1) > 1 else {}
    sizes |= adjusted
    theirs = {key: sizes[name] for name, key in type(config).attribute_map.items() if name in sizes}
    head = sizes["head_dim"] if "head_dim" in said else sizes["hidden_size"] // _HEADS
    said = turning(louder(said) if scalars else said, head, by_sections=_turns_by_sections(config))
    decodes = {"is_decoder": True} if "is_decoder" in said and is_causal(config) else {}
    return type(config).from_dict({**_shrunk(said, {**theirs, **sizes}), **decodes, **settings})


def _shrunk(said: Settings, sizes: Settings) -> dict[str, Any]:
    """A configuration's dict, and those within it, with these sizes, and of each kind of layer the first."""
    lists = _of_layers(said)
    kinds = list(zip(*(map(repr, value) for value in lists.values()), strict=True))
    chosen = list(_firsts(kinds, sizes.get(_OF_A_KIND, 1))) if lists else [0, 1]

    def shrunk(key: str, value: Any) -> Any:
        if _is_by_layer(key, value):
            by_layer = {int(layer): settings for layer, settings in value.items()}
            layers = enumerate(by_layer.get(layer) for layer in chosen)
            return {new: _shrunk(settings, sizes) for new, settings in layers if isinstance(settings, dict)}
        if isinstance(value, dict) and key not in ("id2label", "label2id"):
            return value if key in ("rope_parameters", "rope_scaling") else _shrunk(value, sizes)
        if key in lists:
            return _by_kind([value[layer] for layer in chosen], sizes.get(key))
        return _sized(key, value, sizes, len(chosen))

    return {key: shrunk(key, value) for key, value in said.items()}


def _sized(key: str, value: Any, sizes: Settings, layers: int) -> Any:
    """A setting that is neither a dict nor one for each layer, small."""
    if isinstance(value, list | tuple) and type(sizes.get(key)) is int and not key.endswith("token_id"):
        return _by_kind(list(value), sizes[key])  # as a size for each kind of expert
    if key in _DEPTHS and isinstance(value, int):
        return sizes.get(key, layers)
    if key in _PERIODS and isinstance(value, int):
        return min(value, layers)  # or no layer has experts
    if key == "attention_type":
        return _SHORT.get(value, value)
    is_size = _is_size(value, key) or (value is None and _FILLED in sizes)
    return sizes[key] if key in sizes and is_size else value


def _by_kind(values: list[Any], size: object) -> list[Any]:
    """What each layer or part has, or is to have instead; sizes become small, and those that differ differ."""
    if isinstance(size, list):
        return [new or value for new, value in zip(size, values, strict=True)]
    if type(size) is not int or not all(type(value) is int for value in values):
        return values
    kinds = sorted(set(values))
    return [size + 2 * size // 5 * kinds.index(value) for value in values]


def _of_layers(said: Settings) -> dict[str, list[Any]]:
    """The settings that have a value for each layer."""
    depth = next((said[key] for key in _DEPTHS if isinstance(said.get(key), int)), 0)
    return {key: value for key, value in said.items() if isinstance(value, list) and len(value) == depth > 1}


def _is_by_layer(key: str, value: object) -> bool:
    """Whether a setting has settings of its own for each layer, by number."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(str(layer).isdecimal() for layer in value)
        and "label" not in key
    )


def _is_size(value: object, key: str) -> bool:
    """Whether a key has something to shrink: ids may be lists; a size that is None, or a width of 0, is left out."""
    if value == 0 and key.endswith(("_dim", "_per_layer_input")):
        return False
    return isinstance(value, int | float) or (key.endswith("token_id") and isinstance(value, list)) or key in _OPEN


_LISTED = ("attn_layer_indices", "hybrid_layer_ids")
_OPEN = frozenset(
    {
        *("head_dim", "n_inner", "vocab_size", "pad_token_id", "mask_token_id"),
        *("num_key_value_heads", "num_experts_per_tok", "default_language", *_LISTED),
    }
)
"""Keys that may be None and are then filled in from others, and lists of layers."""
_SHORT = {"block_sparse": "original_full"}
"""What attention is called that texts of many blocks have, and what a model makes of it, in its run, for our texts."""


def _firsts(kinds: list[tuple[str, ...]], count: int) -> Iterator[int]:
    """The first `count` layers of each kind, at most four, and as many of the first ones more as make two."""
    firsts = [place for place, kind in enumerate(kinds) if kinds[:place].count(kind) < count][:_MOST]
    more = [place for place in range(len(kinds)) if place not in firsts][: max(0, _FEWEST - len(firsts))]
    yield from sorted(firsts + more)
