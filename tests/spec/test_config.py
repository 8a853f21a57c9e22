"""A configuration fills in its layer types and refuses impossible combinations by name."""

from typing import Any

import pytest

from qwen3_spec import SpecConfig

SIZES: dict[str, Any] = {
    "hidden_size": 6,
    "intermediate_size": 9,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 11,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
}


def test_layers_are_full_attention_unless_said_otherwise() -> None:
    assert SpecConfig(**SIZES).layer_types == ("full_attention", "full_attention")


def test_only_sliding_layers_have_a_window() -> None:
    config = SpecConfig(**SIZES, layer_types=("full_attention", "sliding_attention"), sliding_window=5)
    assert [config.window(0), config.window(1)] == [None, 5]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_key_value_heads": 3}, "num_attention_heads 4 .* num_key_value_heads 3"),
        ({"num_key_value_heads": 0}, "num_key_value_heads 0"),
        ({"head_dim": 5}, "head_dim 5"),
        ({"hidden_act": "tanh"}, "hidden_act 'tanh'"),
        ({"layer_types": ("full_attention",)}, "layer_types has 1 .* num_hidden_layers is 2"),
        ({"layer_types": ("full_attention", "chunked")}, "chunked"),
        ({"layer_types": ("full_attention", "sliding_attention")}, "sliding_window is None"),
    ],
)
def test_an_impossible_combination_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpecConfig(**{**SIZES, **wrong})
