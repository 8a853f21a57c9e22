"""`assert_parity`: an array of one op or block of somebody's model, within the budget of a golden's tap.

It runs `diagnosis.single_tap`, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Array, ParityError, pb, read, write
from qwen3_golden.dtypes import to_bfloat16
from qwen3_parity import NotParityError, assert_parity
from qwen3_parity.judge.spoken import in_words

CASE = qwen3_parity.golden("decoder/plain")
TAP = "decoder.layers.0.merged_attn.q_norm"
NORM = "decoder.layers.0.input_layernorm"
SAID = "decoder.layers.0.self_attn.q_norm"


def golden_values(tap: str = TAP, step: int = 0) -> Array:
    return CASE.golden[tap, step].values().copy()


def said(actual: Any, tap: str = TAP, step: int = 0) -> str:
    with pytest.raises(NotParityError) as caught:
        assert_parity(actual, CASE, tap, step)
    assert isinstance(caught.value, AssertionError) and caught.value.blamed == in_words(tap.replace(".0.", ".*."))
    return str(caught.value)


@pytest.mark.parametrize("golden", ["decoder/plain", CASE, GOLDEN_ROOT / "cases" / "decoder" / "plain.pb"])
def test_a_golden_is_a_name_a_case_or_a_file(golden: Any) -> None:
    assert_parity(golden_values(), golden, TAP)


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy, np.ndarray.tolist, lambda x: x.astype(np.float64)])
def test_an_array_of_any_library_is_taken(make: Any) -> None:
    assert_parity(make(golden_values()), CASE, TAP)


def test_a_tensor_that_needs_a_gradient_is_taken() -> None:
    assert_parity(torch.nn.Parameter(torch.from_numpy(golden_values())), CASE, TAP)


def test_every_step_has_its_own_tap() -> None:
    assert_parity(golden_values(step=3), CASE, TAP, step=3)
    assert said(golden_values(step=2), step=3).startswith(f"{SAID} (step 3) of decoder/plain: further from the golden")


def test_a_wrong_element_is_named_with_both_values_the_share_and_what_to_run() -> None:
    actual = golden_values()
    actual[0, 1, 2, 3] *= 1.01
    head, *lines = said(actual).splitlines()
    assert head == f"{SAID} (step 0) of decoder/plain: further from the golden than honest arithmetic goes"
    details = dict(line.strip().split(": ", 1) for line in lines)
    values = f"{actual[0, 1, 2, 3]:.9g} for {golden_values()[0, 1, 2, 3]:.9g} at [0, 1, 2, 3], "
    assert details["first bad"].startswith(values) and details["first bad"].endswith("ULP apart; 1 of 300 elements")
    assert float(details["budget"].split()[0]) > 1
    assert details["next"].strip() == f"qwen3-parity show decoder/plain --tap {SAID}"


def test_what_is_wrong_by_a_little_everywhere_is_red_by_its_rms() -> None:
    assert "RMS error" in said(golden_values() * np.float32(1 + 2e-6))


def test_a_nan_is_not_parity() -> None:
    actual = golden_values()
    actual[0, 0, 0, 5] = np.nan
    text = said(actual)
    assert "NaN or infinity" in text and "nan for" in text and "at [0, 0, 0, 5]" in text


def test_a_narrower_dtype_is_not_parity() -> None:
    assert "another dtype" in said(golden_values().astype(np.float16))


def test_what_must_be_a_copy_has_no_budget() -> None:
    name = "decoder.position_ids"
    actual = golden_values(name)
    assert_parity(actual, CASE, name)
    actual[0, 2] += 1
    assert "3 for 2 at [0, 2]; 1 of 5 elements" in said(actual, name)


@pytest.mark.parametrize("make", [to_bfloat16, lambda values: torch.from_numpy(values).bfloat16()])
def test_bfloat16_is_read_as_bits_or_as_torch_has_it(make: Any) -> None:
    values = read(GOLDEN_ROOT / "cases" / "op" / "rms_norm_bfloat16.pb")["output.y", 0].values()
    assert_parity(make(values.copy()), "op/rms_norm_bfloat16", "output.y")
    with pytest.raises(NotParityError, match="ULP apart"):
        assert_parity(make(values * np.float32(1.2)), "op/rms_norm_bfloat16", "output.y")


def test_a_tap_a_step_or_a_shape_that_is_not_there_is_an_error_of_the_call() -> None:
    with pytest.raises(ParityError, match="has no such tap") as tap:
        assert_parity(golden_values(), CASE, TAP + "s")
    assert TAP in tap.value.expected
    with pytest.raises(ParityError, match="has no such step"):
        assert_parity(golden_values(), CASE, TAP, 9)
    with pytest.raises(ParityError, match=r"\[batch, query, heads, head_dim\] = \[1, 5, 6, 10\]"):
        assert_parity(golden_values()[0], CASE, TAP)
    with pytest.raises(ParityError, match="no golden of this name"):
        assert_parity(golden_values(), "decoder/plane", TAP)
    with pytest.raises(ParityError, match="cannot be recorded as an array"):
        assert_parity("five", CASE, TAP)


def test_a_golden_without_floors_passes_nobody(tmp_path: Any) -> None:
    golden = read(CASE.path)
    golden.case.name = "mine/bare"
    for tap in golden:
        tap.info.ClearField("floor")
    write(path := tmp_path / "bare.pb", golden)
    with pytest.raises(ParityError, match="no noise floor"):
        assert_parity(golden_values(), path, TAP)


def test_a_golden_of_ones_own_is_shown_by_its_file(tmp_path: Path) -> None:
    golden = read(CASE.path)
    golden.case.name = "mine"
    write(path := tmp_path / "my golden.pb", golden)
    with pytest.raises(NotParityError) as caught:
        assert_parity(golden_values() * 2, path, TAP)
    assert f"qwen3-parity show '{path}' --tap {SAID}" in str(caught.value)
    with pytest.raises(ParityError) as missing:
        assert_parity(golden_values(), path, "decoder.layers.0.q")
    assert missing.value.next_step == f"qwen3-parity show '{path}'"


@pytest.mark.parametrize("step", [True, False, None, 1.0, "0"])
def test_a_step_that_is_no_whole_number_is_an_error_of_the_call(step: Any) -> None:
    with pytest.raises(ParityError, match="step: it is not a whole number"):
        assert_parity(golden_values(), CASE, TAP, step)


@pytest.mark.parametrize("tap", [None, 3, b"q_norm", ("a", "b")])
def test_a_tap_that_is_no_text_is_an_error_of_the_call(tap: Any) -> None:
    with pytest.raises(ParityError, match="tap: it is not a tap's name"):
        assert_parity(golden_values(), CASE, tap)


ODD = {
    "meta": lambda tensor: tensor.to("meta"),
    "sparse": torch.Tensor.to_sparse,
    "complex": lambda tensor: tensor.to(torch.complex64),
    "float8": lambda tensor: tensor.to(torch.float8_e4m3fn),
    "uint16": lambda tensor: torch.zeros(tensor.shape, dtype=torch.uint16),
    "uninitialised": lambda tensor: torch.nn.parameter.UninitializedParameter(),
    "a class": lambda tensor: torch.Tensor,
    "masked": lambda tensor: np.ma.masked_array(tensor.numpy(), mask=True),
}


@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
def test_a_tensor_that_has_no_numbers_to_compare_is_an_error_of_the_call(make: Any) -> None:
    with pytest.raises(ParityError, match="actual: this cannot be recorded as an array"):
        assert_parity(make(torch.from_numpy(golden_values())), CASE, TAP)


def test_a_golden_whose_bytes_are_damaged_passes_nobody(tmp_path: Path) -> None:
    content = bytearray(CASE.path.read_bytes())
    at = content.index(golden_values().tobytes())
    content[at + 3] ^= 0x40
    (path := tmp_path / "damaged.pb").write_bytes(content)
    damaged = read(path)[TAP, 0].values().copy()
    with pytest.raises(ParityError, match="is not what was written"):
        assert_parity(damaged, path, TAP)


def wide(path: Path, name: str, factor: float) -> Path:
    """A golden whose floors are somebody's own."""
    golden = read(CASE.path)
    golden.case.name = name
    for tap in golden:
        widen(tap.info, factor)
    write(path, golden)
    return path


def widen(info: pb.Tensor, factor: float) -> None:
    for name in filter(info.HasField, ("floor", "own_angles_floor")):
        floor = getattr(info, name)
        for measured in ("max", "rms", "row", "head"):
            setattr(floor, measured, getattr(floor, measured) * factor)


@pytest.mark.parametrize("factor", [2.0, 1e12])
def test_a_golden_of_the_set_with_floors_of_ones_own_passes_nobody(factor: float, tmp_path: Path) -> None:
    path = wide(tmp_path / "plain.pb", "decoder/plain", factor)
    for golden in (path, qwen3_parity.golden(path)):
        with pytest.raises(ParityError, match=r"floors are not the released ones[\s\S]*cases/decoder/plain.pb"):
            assert_parity(golden_values(), golden, TAP)


def test_a_golden_of_ones_own_with_floors_that_take_zeros_passes_nobody(tmp_path: Path) -> None:
    path = wide(tmp_path / "own.pb", "mine/plain", 1e12)
    for actual in (golden_values(), np.zeros_like(golden_values()), golden_values() * 3):
        with pytest.raises(ParityError, match="zeros would pass"):
            assert_parity(actual, path, TAP)
    assert_parity(golden_values(), wide(tmp_path / "same.pb", "mine/plain", 1.0), TAP)


def test_floors_that_are_changed_in_memory_are_not_those_of_the_file() -> None:
    case = qwen3_parity.golden("decoder/plain")
    widen(case.golden[TAP, 0].info, 1e12)
    with pytest.raises(NotParityError):
        assert_parity(golden_values() * 2, case, TAP)


def normed(eps: float) -> Array:
    """The norm before the first layer's attention, on the golden's own input."""
    x = CASE.golden["decoder.layers.0.input", 0].values()
    weight = CASE.weights["decoder.layers.0.input_layernorm.weight"]
    mean = np.mean(x * x, axis=-1, keepdims=True)
    return (x / np.sqrt(mean + np.float32(eps)) * weight).astype(np.float32)


def test_a_known_mistake_of_the_op_is_named_with_its_fix() -> None:
    lines = said(normed(1e-5), NORM).splitlines()
    assert lines[-2] == "  mistake:  norm.eps: it uses eps 1e-05 instead of 1e-06"
    assert lines[-1] == "  fix:      read rms_norm_eps"
    assert_parity(normed(1e-6), CASE, NORM)


def test_what_no_known_mistake_gives_has_no_name() -> None:
    noise = np.random.Generator(np.random.PCG64(0)).normal(size=golden_values(NORM).shape).astype(np.float32)
    assert "mistake:" not in said(noise, NORM)


def test_what_is_right_in_the_goldens_other_layers_and_steps_speaks_against_no_name() -> None:
    unrotated = golden_values("decoder.layers.0.merged_attn.q_norm", 2).swapaxes(1, 2)
    text = said(unrotated, "decoder.layers.0.merged_attn.q_rope", 2)
    assert "mistake:  rope.not_applied: it does not rotate" in text


def test_mistakes_that_give_the_same_numbers_are_named_beside_the_first() -> None:
    text = said(golden_values("decoder.position_ids") + 1, "decoder.position_ids")
    assert "mistake:  positions.offset: it is +1 off; it could as well be positions." in text


def test_an_op_alone_is_named_in_the_words_of_its_case() -> None:
    rope = qwen3_parity.golden("op/rope")
    with pytest.raises(NotParityError, match=r"mistake:  rope\.not_applied: it does not rotate"):
        assert_parity(rope.golden["input.q", 0].values(), rope, "output.q")


def test_without_the_checkpoint_nothing_is_named_and_it_is_red_all_the_same(tmp_path: Path) -> None:
    path = wide(tmp_path / "own.pb", "mine/plain", 1.0)
    with pytest.raises(NotParityError) as caught:
        assert_parity(normed(1e-5), path, NORM)
    assert "mistake:" not in str(caught.value)
