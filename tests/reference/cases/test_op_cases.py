"""The op tier: inputs that whole runs seldom meet, Hugging Face against the specification.

It runs `cases.op_rope`, too.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read
from qwen3_reference.capture.record_op import record_op
from qwen3_reference.cases.op_cases import op_cases
from qwen3_reference.cases.op_specs import EXACT, specified
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32

CASES = {op.name: op for op in op_cases()}
MASKS = [name for name in CASES if name.startswith("mask_")]


def arrays(name: str) -> dict[str, Tensor]:
    return {item.info.name: item for item in read(GOLDEN_ROOT / "cases" / "op" / f"{name}.pb", digests=True)}


@pytest.mark.parametrize("name", CASES)
def test_a_golden_follows_the_convention(name: str) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "op" / f"{name}.pb")
    assert golden.case.mode == pb.OP and golden.case.op == CASES[name].op
    assert {attribute.key: attribute.value for attribute in golden.case.attributes} == dict(CASES[name].attributes)
    outputs = [item for item in golden if item.info.name.startswith("output.")]
    assert {item.info.name for item in outputs} == set(CASES[name].outputs)
    assert all(item.info.axes for item in outputs)
    for item in golden:
        kind = item.info.name.partition(".")[0]
        assert kind == "output" or item.info.op == kind
    assert list(golden.run.materialised) == [item.info.name for item in golden]


@pytest.mark.parametrize("name", [name for name, op in CASES.items() if op.op not in EXACT])
def test_hf_is_within_8_floors_of_sequential_float32(name: str) -> None:
    recorded, op = arrays(name), CASES[name]
    inputs = {key: item.values() for key, item in recorded.items() if not key.startswith("output.")}
    truth, sequential = (
        specified(op.op, inputs, op.attributes, arithmetic) for arithmetic in (FLOAT64, SEQUENTIAL_FLOAT32)
    )
    for key, expected in truth.items():
        judged = np.ones(expected.shape, bool) if op.judged is None else op.judged
        limit = {pb.F32: 2.0**-22, pb.BF16: 2.0**-7, pb.F16: 2.0**-10}[recorded[key].info.dtype]
        bound = 8 * np.maximum(np.abs(sequential[key] - expected).max(), limit * np.abs(expected[judged]).max())
        assert np.abs(recorded[key].values() - expected)[judged].max() <= bound
        distance = np.abs(recorded[key].values() - expected)[judged].max()
        assert recorded[key].info.floor.max * (1 + 1e-6) >= distance  # the truth's sums may be of other kernels


def test_exact_ops_have_no_floor() -> None:
    for name, op in CASES.items():
        for key, item in arrays(name).items():
            assert item.info.HasField("floor") == (key.startswith("output.") and op.op not in EXACT)


@pytest.mark.parametrize("name", MASKS)
def test_hfs_masks_are_those_of_the_specification(name: str) -> None:
    recorded, attributes = arrays(name), CASES[name].attributes
    inputs = {key: item.array for key, item in recorded.items() if not key.startswith("output.")}
    expected = specified("mask", inputs, attributes, FLOAT64)["output.mask"]
    real = inputs.get("input.decoder_attention_mask", inputs.get("input.encoder_attention_mask"))
    assert real is not None
    rows = real[:, -int(attributes["query"]) :]
    assert np.array_equal(recorded["output.mask"].array[rows], expected[rows])


def test_the_inputs_are_as_hard_as_they_should_be() -> None:
    rows = arrays("rms_norm")["input.x"].array
    sizes = np.sqrt(np.mean(rows[0] ** 2, axis=-1))
    assert sizes.min() == 0 and sizes.max() == 1000 and 0 < np.sort(sizes)[1] < 2e-4
    assert np.abs(rows.mean(-1)).max() > 1
    assert arrays("softmax_large")["input.scores"].array.max() > 200
    assert not arrays("softmax_hidden_rows")["input.mask"].array[1].any()
    assert np.abs(arrays("swiglu")["input.gate"].array).max() == 100
    assert {0, 1, 1000, 4095, 8192, 32768, 60000} <= set(arrays("rope_table")["input.position_ids"].array.ravel())


def test_an_op_gives_the_same_bytes_twice(tmp_path: Path) -> None:
    again = {op.name: op for op in op_cases()}
    for copy, source in (("a", CASES), ("b", again)):
        record_op(source["softmax_large"], tmp_path / copy)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert all(
        torch.equal(CASES["rope"].operands_by_name[key], value) for key, value in again["rope"].operands_by_name.items()
    )
