"""A factor's name is the formula whose value it is."""

from __future__ import annotations

import pytest

from qwen3_parity.mistakes.factors import named_by

CONFIG = {"head_dim": 8, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2}


@pytest.mark.parametrize(
    ("factor", "words"),
    [(10, "10"), (0.1, "1 / 10"), (-0.1, "-1 / 10"), (1 / 3, "1 / 3"), (8**-0.5, "head_dim ** -0.5"), (3.7, "")],
)
def test_a_factor_is_named_by_a_formula_of_its_value(factor: float, words: str) -> None:
    assert named_by(factor, CONFIG) == words
    assert named_by(1.001 * factor, CONFIG) == ""


def test_a_width_is_called_as_the_config_calls_it() -> None:
    assert named_by(24**0.5, {"d_model": 24}) == "d_model ** 0.5"
    assert named_by(24**0.5, {"d_model": 24, "hidden_size": 24}) == "hidden_size ** 0.5"
