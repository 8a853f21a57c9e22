"""A config.json with any kind of RoPE is a tiny model whose heads turn in two pairs or more, in part, and long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from qwen3_reference.graph.tiny import tiny_inputs, tiny_model, write_tiny
from qwen3_reference.graph.turning import turning

PHI = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 24,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096,
    "pad_token_id": 199999,
    "partial_rotary_factor": 0.75,
}
LONG = {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [1 + place / 8 for place in range(48)]}
LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 131072}
BANDS = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
BANDS |= {"original_max_position_embeddings": 8192}


def written(folder: Path, said: dict[str, Any]) -> Path:
    (folder / "config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder / "config.json"


@pytest.mark.parametrize("more", [{}, {"head_dim": 128}])
def test_long_rope_has_a_factor_for_each_pair_and_the_last_step_reads_the_long_ones(
    more: dict[str, Any], tmp_path: Path
) -> None:
    model = tiny_model(written(tmp_path, PHI | more | {"rope_scaling": LONG}))
    rope = model.config.rope_parameters
    assert (rope["short_factor"], rope["long_factor"]) == ([1, 1, 1], [1, 1.125, 1.25])
    tables = {length: model.model.rotary_emb(torch.ones(1), torch.arange(length)[None])[0][0, 7] for length in (8, 9)}
    assert tables[8].shape == (6,) and not torch.equal(tables[8], tables[9])
    assert tiny_inputs(model, 1)[0]["input_ids"].shape == (2, 9)


@pytest.mark.parametrize("part", [0.25, 0.4, 0.5, 0.75, 0.9])
def test_where_a_part_of_a_head_turns_it_is_two_pairs_or_more_and_some_channels_stay(
    part: float, tmp_path: Path
) -> None:
    config = tiny_model(written(tmp_path, PHI | {"partial_rotary_factor": part})).config
    width = config.hidden_size // config.num_attention_heads
    turned = int(width * config.rope_parameters["partial_rotary_factor"])
    assert turned % 2 == 0 and 4 <= turned <= width - 2


def test_a_whole_head_that_turns_is_as_wide_as_ever() -> None:
    assert tiny_model("phi3").config.hidden_size == 24


def test_each_of_llamas_bands_has_a_frequency(tmp_path: Path) -> None:
    rope = tiny_model(written(tmp_path, LLAMA | {"rope_theta": 5e5, "rope_scaling": BANDS})).model.rotary_emb
    width = 2 * len(rope.inv_freq)
    scaled = rope.inv_freq * 5e5 ** (torch.arange(0, width, 2) / width)
    assert float(scaled[0]) == 1 and 0.126 < float(scaled[1]) < 0.99
    torch.testing.assert_close(scaled[2:], torch.full((len(scaled) - 2,), 0.125))


def test_the_dicts_of_kinds_of_layers_are_for_the_same_heads() -> None:
    kinds = {"full": {"partial_rotary_factor": 0.25}, "sliding": {"partial_rotary_factor": 1.0}}
    said = turning({"rope_parameters": kinds, "rotary_pct": 0.5, "other": 0.25}, 10)
    assert said == {
        "rope_parameters": {"full": {"partial_rotary_factor": 0.6}, "sliding": {"partial_rotary_factor": 1.0}},
        "rotary_pct": 0.4,
        "other": 0.25,
    }


@pytest.mark.slow  # exports
@pytest.mark.parametrize(
    "said",
    [
        PHI | {"rope_scaling": LONG},
        LLAMA | {"rope_scaling": BANDS},
        LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}},
        LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
        LLAMA | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    ],
    ids=["longrope", "llama3", "linear", "dynamic", "yarn"],
)
def test_every_kind_of_rope_is_captured(said: dict[str, Any], tmp_path: Path) -> None:
    assert write_tiny(written(tmp_path, said), tmp_path / "it", floors=False).is_file()


@pytest.mark.parametrize("said", [{}, {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}])
def test_the_sections_of_three_kinds_of_positions_are_a_small_heads(said: dict[str, Any], tmp_path: Path) -> None:
    """The source has sections for heads of 128 where the configuration states none."""
    model = tiny_model(written(tmp_path, {"model_type": "qwen2_vl_text"} | said))
    assert model.config.rope_parameters["mrope_section"] == [2, 1, 1]
    assert model.layers[0].self_attn.head_dim == 8
