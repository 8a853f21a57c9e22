"""YaRN that is left out, rounded or scaled otherwise is told by the library's name, of any network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from by_taps import firsts, golden

from qwen3_parity.diagnosis.edits.grammar.stretched import of_config
from qwen3_spec import RopeScaling, ops

CASE, THETA, FACTOR = "model/gpt_oss", 9000.0, 8.0
COS, SIN = "model.rotary_emb", "model.rotary_emb[1]"
LENGTH, PAIRS = golden(CASE)[COS, 0].array.shape[1:]
POSITIONS = golden(CASE)["input.position_ids", 0].values()[:, :LENGTH, None]
YARN = RopeScaling("yarn", FACTOR, 4096, 0.1 * np.log(FACTOR) + 1, truncate=False)


PLAIN, RIGHT = ops.inv_freq.forward(2 * PAIRS, THETA), ops.inv_freq.forward(2 * PAIRS, THETA, YARN)
TOLD = {
    "yarn.ignored: leaves every frequency plain, and leaves the attention factor out": (PLAIN, 1.0),
    "yarn.ignored: leaves every frequency plain: rope_scaling is not used": (PLAIN, YARN.attention_factor),
    "yarn.attention_factor: leaves the attention factor out, in cos and sin": (RIGHT, 1.0),
    "yarn.factor: divides by twice the factor, 16, not by 8": (
        ops.inv_freq.forward(2 * PAIRS, THETA, replace(YARN, factor=2 * FACTOR)),
        YARN.attention_factor,
    ),
    "yarn.all_divided: divides every frequency by the factor": (PLAIN / FACTOR, YARN.attention_factor),
}


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("says", TOLD)
def test_a_wrong_stretching_is_told_by_its_name(says: str) -> None:
    frequencies, factor = TOLD[says]
    tables = {COS: np.cos(POSITIONS * frequencies) * factor, SIN: np.sin(POSITIONS * frequencies) * factor}
    of_cos, of_sin = firsts(CASE, tables)
    assert of_cos.startswith(says) and of_sin.startswith(says)


def test_frequencies_of_no_section_of_a_config_have_no_rules() -> None:
    rope = {"rope_theta": THETA, "rope_type": "yarn", "factor": FACTOR, "original_max_position_embeddings": 4096}
    nested = {"num_attention_heads": 6, "hidden_size": 24, "rope_parameters": {**rope, "truncate": False}}
    config, _ = of_config(nested, RIGHT)
    assert config is not None and config.rope_scaling is not None and config.attention_factor == YARN.attention_factor
    assert of_config(nested, PLAIN / 3)[0] is None
    assert of_config({"rope_theta": THETA, "rope_scaling": {"rope_type": "yarn", "factor": "x"}}, RIGHT)[0] is None
    strange = {**nested, "num_attention_heads": "six", "hidden_size": None, "max_position_embeddings": [64]}
    assert of_config(strange, RIGHT)[0] is not None
    assert of_config({"rope_theta": 1e300, "rope_type": "yarn", "factor": 1e308}, RIGHT)[0] is None
