"""RoPE scaling of a checkpoint: resolved as Hugging Face resolves it, refused by name, equal to the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

from qwen3_golden import GOLDEN_ROOT, ParityError, pb, read
from qwen3_reference.checkpoints.configs import hf_config, model_config
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.floors.arithmetics import frequency_floor
from qwen3_reference.floors.table_rounding import table_rounding
from qwen3_spec import ops

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3 = YARN | {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
BASE = json.loads((GOLDEN_ROOT / "checkpoints" / "tied-decoder" / "config.json").read_text())
FAR = np.array([[0, 1, 4095, 32767, 32768, 65535, 100_000, 131_071]])


def directory(tmp_path: Path, **fields: Any) -> Path:
    """A directory with a config.json; a field of "absent" is left out."""
    config = {name: value for name, value in {**BASE, **fields}.items() if value != "absent"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def scaling(tmp_path: Path, **fields: Any) -> pb.RopeScaling:
    return model_config(directory(tmp_path, **fields)).rope_scaling


def test_plain_rope_has_no_scaling(tmp_path: Path) -> None:
    assert not model_config(directory(tmp_path)).HasField("rope_scaling")


def test_what_is_not_stated_is_filled_in(tmp_path: Path) -> None:
    assert scaling(tmp_path, rope_scaling=YARN) == pb.RopeScaling(
        rope_type="yarn",
        factor=4,
        original_max_position_embeddings=32768,
        attention_factor=1.1386294361119891,
        beta_fast=32,
        beta_slow=1,
        truncate=True,
    )


def test_what_hugging_face_advises_about_a_configuration_is_not_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = directory(tmp_path, rope_scaling=YARN | {"factor": 4.25})
    Qwen3Config.from_dict(json.loads((place / "config.json").read_text()))
    assert "4.25" in caplog.text
    hf_config(directory(tmp_path, rope_scaling=YARN | {"factor": 4.75}))
    assert "4.75" not in caplog.text


@pytest.mark.parametrize(
    "layout",
    [
        {"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}},
        {"rope_theta": "absent", "rope_parameters": YARN | {"rope_theta": 250000.0}},
        {"rope_scaling": YARN | {"factor": None}, "max_position_embeddings": 131_072},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}, "original_max_position_embeddings": 32768},
    ],
    ids=["type", "rope_parameters", "factor from the lengths", "length at the top"],
)
def test_every_layout_gives_the_same_numbers(tmp_path: Path, layout: dict[str, Any]) -> None:
    (tmp_path / "other").mkdir()
    assert scaling(tmp_path, **layout) == scaling(tmp_path / "other", rope_scaling=YARN)
    assert model_config(tmp_path).rope_theta == 250000.0


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"attention_factor": 1.3}, 1.3),
        ({"mscale": 0.7, "mscale_all_dim": 0.3}, (0.07 * np.log(4) + 1) / (0.03 * np.log(4) + 1)),
        ({"mscale": 0.7}, 0.1 * np.log(4) + 1),
        ({"factor": 1.0}, 1.0),
    ],
    ids=["stated", "both mscales", "one mscale", "factor 1"],
)
def test_the_attention_factor_is_resolved(tmp_path: Path, stated: dict[str, Any], expected: float) -> None:
    assert scaling(tmp_path, rope_scaling=YARN | stated).attention_factor == pytest.approx(expected, rel=1e-15)


def test_llama3_is_taken_as_it_is_stated_and_puts_no_factor_on_cos_and_sin(tmp_path: Path) -> None:
    expected = pb.RopeScaling(
        rope_type="llama3",
        factor=4,
        original_max_position_embeddings=32768,
        attention_factor=1,
        low_freq_factor=1,
        high_freq_factor=4,
    )
    assert scaling(tmp_path, rope_scaling=LLAMA3) == expected


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    **{
        kind: ({"rope_scaling": YARN | {"rope_type": kind, "short_factor": [1.0], "long_factor": [1.0]}}, f"'{kind}'")
        for kind in ("linear", "dynamic", "longrope", "su")
    },
    "llama3 without bands": ({"rope_scaling": YARN | {"rope_type": "llama3"}}, "low_freq_factor"),
    "llama3 with betas": ({"rope_scaling": LLAMA3 | {"beta_fast": 32}}, "RoPE of type llama3 does not read"),
    "llama3 without a length": (
        {"rope_scaling": {k: v for k, v in LLAMA3.items() if "original" not in k}},
        "llama3 needs",
    ),
    "llama3 with equal bands": ({"rope_scaling": LLAMA3 | {"low_freq_factor": 4.0}}, "is no more than"),
    "llama3 by a text": ({"rope_scaling": LLAMA3 | {"high_freq_factor": "4"}}, "Hugging Face refuses"),
    "no length": ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "original_max_position_embeddings"),
    "no factor": ({"rope_scaling": {k: v for k, v in YARN.items() if k != "factor"}}, "factor"),
    "factor below 1": ({"rope_scaling": YARN | {"factor": 0.5}}, "factor 0.5"),
    "factor 0": ({"rope_scaling": YARN | {"factor": 0}}, "factor 0"),
    "text": ({"rope_scaling": YARN | {"factor": "4"}}, "'factor': '4'"),
    "length 0": ({"rope_scaling": YARN | {"original_max_position_embeddings": 0}}, "division by zero"),
    "half a position": ({"rope_scaling": YARN | {"original_max_position_embeddings": 10.5}}, "integer"),
    "NaN": ({"rope_scaling": YARN | {"attention_factor": float("nan")}}, "NaN is no number"),
    "betas": ({"rope_scaling": YARN | {"beta_fast": 1, "beta_slow": 32}}, "beta_fast 1.0"),
    "negative beta": ({"rope_scaling": YARN | {"beta_fast": -1}}, "impossible RoPE scaling"),
    "theta 1": ({"rope_theta": 1.0, "rope_scaling": YARN}, "rope_theta 1.0"),
    "plain with a factor": ({"rope_scaling": {"factor": 4.0}}, "does not read"),
    "unknown key": ({"rope_scaling": YARN | {"low_freq_factor": 1}}, "low_freq_factor"),
    "part of the head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 1"),
    "no dictionary": ({"rope_scaling": "yarn"}, "rope_parameters"),
    "no dictionary in the new layout": ({"rope_parameters": [1]}, "rope_parameters"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_scaling_that_has_no_place_in_the_schema_is_refused_by_name(tmp_path: Path, what: str) -> None:
    fields, named = REFUSED[what]
    with pytest.raises(ParityError) as caught:
        model_config(directory(tmp_path, **fields))
    assert named in str(caught.value), caught.value


@pytest.mark.parametrize("head_dim", [10, 128])
@pytest.mark.parametrize(
    "stated",
    [
        YARN,
        YARN | {"truncate": False, "beta_fast": 20.0, "beta_slow": 1.5, "attention_factor": 1.3},
        LLAMA3,
        LLAMA3 | {"factor": 32.0, "original_max_position_embeddings": 500, "low_freq_factor": 2.0},
    ],
    ids=["yarn", "yarn stated", "llama3", "llama3 stated"],
)
def test_hugging_faces_tables_agree_with_the_specification_at_far_positions(
    tmp_path: Path, head_dim: int, stated: dict[str, Any]
) -> None:
    place = directory(tmp_path, head_dim=head_dim, rope_theta=1e6, rope_scaling=stated)
    config, hf = spec_config(model_config(place)), Qwen3RotaryEmbedding(hf_config(place))
    inv_freq = hf.get_buffer("inv_freq").numpy()
    truth = ops.inv_freq.forward(head_dim, 1e6, config.rope_scaling)
    assert (np.abs(inv_freq - truth) / ops.inv_freq.unit(truth, 1e6, config.rope_scaling)).max() < 3
    floor = frequency_floor(head_dim, 1e6, config.rope_scaling)
    assert np.abs(inv_freq / truth - 1).max() < 4 * floor.max
    found = hf(torch.zeros(1), torch.from_numpy(FAR))
    unit = ops.rope_table.unit(FAR, inv_freq, config.attention_factor)
    for actual, expected in zip(found, ops.rope_table.forward(FAR, inv_freq, config.attention_factor), strict=True):
        assert (np.abs(actual.numpy() - expected) / unit).max() < 2


def test_the_floor_of_plain_frequencies_is_one_ulp() -> None:
    floor = frequency_floor(128, 1e6, None)
    assert floor.rms == floor.max == floor.row == 2.0**-23


def test_the_floor_of_scaled_frequencies_counts_the_ramps_rounding(tmp_path: Path) -> None:
    config = spec_config(model_config(directory(tmp_path, head_dim=128, rope_theta=1e6, rope_scaling=YARN)))
    floor = frequency_floor(128, 1e6, config.rope_scaling)
    assert 2.0**-23 < floor.rms < floor.max == pytest.approx(2.0**-23 + 2.0**-24 * 3)  # factor - 1 at the ramp's end


def test_the_floor_of_tables_grows_with_the_attention_factor_and_its_two_roundings() -> None:
    positions, inv_freq = np.array([[0, 100_000]]), np.array([1e-5], np.float32)
    plain = table_rounding(positions, inv_freq, 1.0, pb.F32)
    scaled = table_rounding(positions, inv_freq, 1.5, pb.F32)
    np.testing.assert_allclose(plain, 2.0**-24 * np.array([[[1, 1], [2, 2]]]), rtol=1e-6)
    np.testing.assert_allclose(scaled, 1.5 * (plain + 2 * 2.0**-24), rtol=1e-12)


@pytest.mark.parametrize("case", ["decoder/yarn_stated", "decoder/yarn_mscale"])
def test_the_cases_positions_lie_beyond_the_original_length(case: str) -> None:
    recording = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
    found = recording.case.config.rope_scaling
    assert recording["input.decoder_position_ids", 0].array.min() > 3 * found.original_max_position_embeddings
    assert recording.case.config.max_position_embeddings / found.original_max_position_embeddings != found.factor
    assert abs(found.attention_factor - (0.1 * np.log(found.factor) + 1)) > 0.05
