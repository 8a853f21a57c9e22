"""Noise floors: what they measure, on what, and that the reference stays near the specification."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, last_rows, pb, place, read
from qwen3_reference.cases.networks import CASES, case
from qwen3_reference.checkpoints.weights import Weights, load_weights
from qwen3_reference.floors.arithmetics import error, half_ulp, has_floor, larger, least, scale, spec_run
from qwen3_reference.floors.measure import measure
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic

FLOAT32 = [c.name for c in CASES if c.dtype == "float32"]
FROM_THE_LAST = Arithmetic(
    np.float32,
    lambda a, b: SEQUENTIAL_FLOAT32.matmul(a[..., ::-1], b[..., ::-1, :]),
    lambda a: SEQUENTIAL_FLOAT32.sum(a[..., ::-1]),
)
"""The same sums in the other order: where few numbers make an error, one order may be lucky."""
AXES = ("batch", "heads", "query", "head_dim")


def golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb")


def parts(name: str) -> tuple[Recording, Scope, Weights, dict[tuple[str, int], Array]]:
    definition, recording = case(name), golden(name)
    folder = GOLDEN_ROOT / "checkpoints"
    given = {t.info.name: t.array for t in recording if t.info.name.startswith("input.")}
    scope = Scope(recording.case.config, given, tuple(recording.case.steps), recording.case)
    weights = load_weights(
        folder / definition.encoder if definition.encoder else None,
        folder / definition.decoder if definition.decoder else None,
    )
    return recording, scope, weights, {t.key: t.values() for t in recording}


def kept(recording: Recording, tap: str, value: Array) -> Array:
    """The rows of a tap that the recording's case keeps."""
    found = place(tap, recording.case.config.num_hidden_layers)
    assert found is not None
    return last_rows(value, found, recording.case.rows)


def collect(name: str, arithmetic: object) -> dict[tuple[str, int], Array]:
    """The taps of the specification's run, the rows that the case keeps."""
    recording, scope, weights, tables = parts(name)
    taps: dict[tuple[str, int], Array] = {}

    def keep(step: int, tap: str, value: Array) -> None:
        taps[tap, step] = kept(recording, tap, value)

    spec_run(weights, scope, tables, keep, arithmetic)  # type: ignore[arg-type]
    return taps


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", FLOAT32)
def test_hf_is_as_near_to_the_truth_as_plain_float32_sums(name: str) -> None:
    recording, scope, _, _ = parts(name)
    truth = collect(name, FLOAT64)
    orders = [collect(name, arithmetic) for arithmetic in (SEQUENTIAL_FLOAT32, FROM_THE_LAST)]
    compared = 0
    for item in recording:
        found = place(item.info.name, recording.case.config.num_hidden_layers)
        assert found is not None
        if item.key not in truth:
            assert found.op in ("input", "position_ids", "inv_freq", "cos", "sin", "argmax")
            continue
        expected = truth[item.key]
        if not has_floor(found):
            assert np.array_equal(np.broadcast_to(expected.astype(item.array.dtype), item.array.shape), item.array)
            continue
        judged = kept(recording, item.info.name, scope.judged(found, item.info.step))
        ours = error(item.array, expected, judged, found.axes)
        theirs = [error(taps[item.key], expected, judged, found.axes) for taps in orders]
        bound = larger([*theirs, least(expected, judged, found.axes, pb.F32)])
        assert ours.rms <= 6 * bound.rms and ours.max <= 10 * bound.max, item.key
        compared += 1
    assert compared > 3


@pytest.mark.parametrize("name", [c.name for c in CASES])
def test_every_float_tap_has_a_floor_that_is_small_and_not_zero(name: str) -> None:
    recording = golden(name)
    coarse = 2.0**-4 if recording.run.arithmetic == pb.ARITHMETIC_BF16 else 1e-5
    for item in recording:
        found = place(item.info.name, recording.case.config.num_hidden_layers)
        assert found is not None
        assert item.info.HasField("floor") == has_floor(found), item.key
        if not has_floor(found) or found.op in ("cos", "sin"):
            continue
        floor, values = item.info.floor, item.values()
        size = float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))
        assert 0 < floor.rms <= floor.max and floor.row > 0
        assert (floor.head > 0) == bool({"heads", "kv_heads"} & set(found.axes))
        assert floor.rms < coarse * size, item.key


def test_a_wrong_specification_would_be_noticed() -> None:
    name = "encoder/ragged"
    recording, scope, weights, tables = parts(name)
    wrong = dataclasses.replace(scope, config=pb.ModelConfig.FromString(scope.config.SerializeToString()))
    wrong.config.rms_norm_eps *= 2
    last: dict[str, Array] = {}
    spec_run(weights, wrong, tables, lambda _, tap, value: last.__setitem__(tap, value), FLOAT64)
    found = place("encoder.norm", 3)
    assert found is not None
    item = recording["encoder.norm", 0]
    off = error(item.array, last["encoder.norm"], scope.judged(found, 0), found.axes)
    assert off.rms > 20 * item.info.floor.rms


def test_error_counts_only_what_is_judged() -> None:
    expected = np.zeros((2, 3, 4, 5))
    actual = expected.copy()
    actual[1, 2, 3, 4] = 2.0
    actual[0, :, 0] = 1e9
    judged = np.ones((2, 1, 4, 1), bool)
    judged[0, :, 0] = False
    found = error(actual, expected, judged, AXES)
    assert found.max == 2
    assert found.rms == pytest.approx(2 / np.sqrt(7 * 15))
    assert found.row == pytest.approx(2 / np.sqrt(15))
    assert found.head == pytest.approx(2 / np.sqrt(7 * 5))


def test_a_tap_without_heads_has_no_head_floor() -> None:
    assert error(np.ones((1, 2, 3)), np.zeros((1, 2, 3)), np.ones(1, bool), ("batch", "query", "hidden")).head == 0


@pytest.mark.parametrize(("value", "expected"), [(1.0, 2.0**-24), (1.99, 2.0**-24), (0.75, 2.0**-25), (1000, 2.0**-15)])
def test_half_an_ulp_is_numpys_spacing(value: float, expected: float) -> None:
    assert half_ulp(value, pb.F32) == expected == float(np.spacing(np.float32(value))) / 2
    assert half_ulp(value, pb.BF16) == expected * 2**16


def test_the_scale_of_nothing_is_0() -> None:
    assert scale(np.ones((2, 2)), np.zeros((2, 2), bool)) == (0.0, 0.0)


@pytest.mark.parametrize("tap", ["encoder.layers.1.self_attn.scores", "decoder.layers.1.merged_attn.scores"])
def test_scores_are_judged_where_a_real_query_sees_a_key(tap: str) -> None:
    recording, scope, _, _ = parts("encdec/ragged")
    found = place(tap, 3)
    assert found is not None
    stack = tap.partition(".")[0]
    shown = recording[tap.replace("scores", "mask"), 0].array
    rows = scope.inputs[f"input.{stack}_attention_mask"][:, : shown.shape[1]]
    assert np.array_equal(scope.judged(found, 0)[:, 0], shown & rows[:, :, None])


def test_what_was_padding_in_a_cache_is_not_judged() -> None:
    _, scope, _, _ = parts("decoder/ragged_decode")
    found = place("decoder.layers.0.merged_attn.cache_keys", 3)
    assert found is not None
    assert scope.judged(found, 2).shape == (3, 1, 7, 1)
    assert scope.judged(found, 2)[1, 0, :, 0].tolist() == [True, True, False, False, False, True, True]


def test_a_quiet_step_keeps_a_floor_of_its_own_size() -> None:
    recording = golden("decoder/plain_two_rows")
    sizes = []
    for step in range(5):
        item = recording["decoder.layers.0.input", step]
        rms = float(np.sqrt(np.mean(item.array.astype(np.float64) ** 2)))
        sizes.append(rms)
        assert item.info.floor.rms < 2**-22 * rms
    assert min(sizes) < 0.01 * max(sizes)


def test_floors_do_not_depend_on_how_often_they_are_measured(tmp_path: Path) -> None:
    recording, _, weights, tables = parts("encoder/one_token")
    stages: list[str] = []
    tell: Callable[[str], None] = stages.append
    found = measure(recording, weights, tables, tmp_path / "truth.pb", tell)
    assert stages == ["float64 truth", "sequential float32", "other angles"]
    assert found == measure(recording, weights, tables, tmp_path / "again.pb", tell)


def test_floors_measured_here_are_those_that_were_recorded_elsewhere(tmp_path: Path) -> None:
    recording, _, weights, tables = parts("encoder/one_token")
    found = measure(recording, weights, tables, tmp_path / "truth.pb", lambda _: None).floor
    recorded = {item.key: item.info.floor for item in recording if item.info.HasField("floor")}
    assert found.keys() == recorded.keys()
    ratios = [
        getattr(floor, one) / getattr(recorded[key], one) for key, floor in found.items() for one in ("rms", "max")
    ]
    # NumPy without AVX2 rounds exponentials elsewhere, which makes the floor of a tap of 40 elements 1.8 × as large.
    assert max(np.abs(np.log2(ratios))) < 1
    assert np.median(np.abs(np.log2(ratios))) < 0.1
