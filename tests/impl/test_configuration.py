"""The configuration: defaults, refusals, and what it takes over from a Qwen3 or Qwen2 config."""

from collections.abc import Callable
from typing import Any

import pytest
from transformers import AutoConfig, Qwen2Config, Qwen3Config

from qwen3_encdec import Qwen3EncoderDecoderConfig

SOURCE: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 200,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5e6,
}


def test_sizes_alone_are_enough_and_take_qwen3s_head_dim_and_theta() -> None:
    config = Qwen3EncoderDecoderConfig(
        hidden_size=256, num_attention_heads=8, num_key_value_heads=4, num_hidden_layers=2, intermediate_size=512
    )
    assert (config.head_dim, config.rope_theta, config.num_sentinel_tokens) == (128, 1e6, 100)
    assert config.rotate_encoder_keys and config.use_qk_norm and config.is_encoder_decoder


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"num_attention_heads": 6, "num_key_value_heads": 4}, ["num_attention_heads = 6", "num_key_value_heads = 4"]),
        ({"head_dim": 9}, ["head_dim = 9"]),
        ({"head_dim": 3}, ["head_dim = 3"]),
        ({"hidden_size": 0}, ["hidden_size = 0"]),
        ({"vocab_size": -1}, ["vocab_size = -1"]),
        ({"num_hidden_layers": 2.5}, ["num_hidden_layers = 2.5"]),
        ({"layer_types": ["full_attention"] * 2}, ["layer_types has 2 entries", "num_hidden_layers = 3"]),
        ({"layer_types": ["full_attention", "chunked_attention", "full_attention"]}, ["chunked_attention"]),
        ({"layer_types": ["sliding_attention"] * 3}, ["sliding_window = None"]),
        ({"layer_types": ["sliding_attention"] * 3, "sliding_window": 0}, ["sliding_window = 0"]),
        ({"sliding_window": 4}, ["sliding_window = 4", "layer_types"]),
        ({"num_sentinel_tokens": 98}, ["num_sentinel_tokens = 98", "vocab_size = 97"]),
        ({"rms_norm_eps": 0.0}, ["rms_norm_eps = 0.0"]),
        ({"attention_dropout": 1.0}, ["attention_dropout = 1.0"]),
        ({"hidden_act": "sillu"}, ["hidden_act = 'sillu'"]),
        ({"rope_theta": -1.0}, ["rope_theta = -1.0"]),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 4.0}}, ["rope_parameters['rope_type'] = 'llama3'"]),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, ["rope_scaling['type'] = 'linear'"]),
        ({"rope_parameters": {"rope_theta": 7.0}}, ["rope_theta = 50000.0", "['rope_theta'] = 7.0"]),
        ({"rope_parameters": {"rope_type": "default", "factor": 2.0}}, ["factor"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor = 0.5"]),
    ],
)
def test_impossible_combination_is_a_value_error_naming_its_fields(
    make_config: Callable[..., Any], overrides: dict[str, Any], named: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        make_config(**overrides)
    assert all(text in str(caught.value) for text in named), caught.value


def test_a_vocabulary_may_be_sentinels_alone(make_config: Callable[..., Any]) -> None:
    config = make_config(num_sentinel_tokens=97)
    assert (config.first_sentinel_id, config.num_sentinel_tokens, config.vocab_size) == (0, 97, 97)


@pytest.mark.parametrize("layout", ["top", "rope_parameters", "rope_scaling_null"])
def test_theta_is_read_from_either_layout_of_a_source(layout: str) -> None:
    source = dict(SOURCE)
    if layout == "rope_parameters":
        source["rope_parameters"] = {"rope_type": "default", "rope_theta": source.pop("rope_theta")}
    elif layout == "rope_scaling_null":
        source["rope_scaling"] = None
    assert Qwen3EncoderDecoderConfig.from_qwen3_config(source).rope_theta == 5e6


@pytest.mark.parametrize("field", ["rope_theta", "head_dim", "hidden_size", "rms_norm_eps", "num_key_value_heads"])
def test_source_without_a_field_that_has_no_honest_default_is_refused(field: str) -> None:
    source = {name: value for name, value in SOURCE.items() if name != field}
    with pytest.raises(ValueError, match=field):
        Qwen3EncoderDecoderConfig.from_qwen3_config(source)


def test_source_of_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="'llama'"):
        Qwen3EncoderDecoderConfig.from_qwen3_config(SOURCE | {"model_type": "llama"})


def test_qwen3_source_adds_sentinels_and_its_bias_covers_the_output() -> None:
    source = Qwen3Config(**(SOURCE | {"attention_bias": True, "bos_token_id": 7}))
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(source)
    assert (config.vocab_size, config.num_sentinel_tokens) == (300, 100)
    assert (config.attention_bias, config.attention_out_bias, config.use_qk_norm) == (True, True, True)
    assert (config.decoder_start_token_id, config.head_dim) == (7, 32)


def test_qwen2_source_has_qkv_bias_no_output_bias_no_qk_norm_and_derives_head_dim() -> None:
    source = Qwen2Config(**{k: v for k, v in SOURCE.items() if k not in ("head_dim", "model_type")})
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(source, num_sentinel_tokens=0)
    assert (config.attention_bias, config.attention_out_bias, config.use_qk_norm) == (True, False, False)
    assert (config.head_dim, config.vocab_size) == (16, 200)


@pytest.mark.parametrize(("used", "expected"), [(True, ["full_attention"] + ["sliding_attention"] * 3), (False, None)])
def test_window_counts_only_when_switched_on_and_from_max_window_layers(used: bool, expected: list[str] | None) -> None:
    source = Qwen3Config(**(SOURCE | {"use_sliding_window": used, "sliding_window": 5, "max_window_layers": 1}))
    config = Qwen3EncoderDecoderConfig.from_qwen3_config(source)
    assert config.layer_types == (expected or ["full_attention"] * 4) == source.layer_types
    assert config.sliding_window == (5 if used else None)


def test_config_survives_saving_and_is_found_by_auto_config(tmp_path: Any, make_config: Callable[..., Any]) -> None:
    config = make_config(layer_types=["full_attention", "sliding_attention", "full_attention"], sliding_window=3)
    config.save_pretrained(tmp_path)
    loaded = AutoConfig.from_pretrained(tmp_path)
    assert type(loaded) is Qwen3EncoderDecoderConfig
    ignored = {"transformers_version", "architectures", "_name_or_path"}
    saved, read = config.to_dict(), loaded.to_dict()
    assert {k: v for k, v in read.items() if k not in ignored} == {k: v for k, v in saved.items() if k not in ignored}
