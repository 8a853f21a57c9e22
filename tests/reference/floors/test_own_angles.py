"""The wider floors: how far a run may be that turns by angles of its own, beside what float32 does to any run."""

from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_reference.capture.remeasure import main, remeasured
from qwen3_reference.floors.own_angles import ULPS, moved_tables, rope_tables
from qwen3_spec import ops

CASES = GOLDEN_ROOT / "cases"
FAR = read(CASES / "long" / "position_32768.pb")
NUMBERS = ("rms", "max", "row", "head")


def numbers(floor: pb.Floor) -> list[float]:
    return [getattr(floor, one) for one in NUMBERS]


def tables(theta: float = 1e6) -> dict[tuple[str, int], np.ndarray]:
    inv_freq = ops.inv_freq.forward(10, theta).astype(np.float32)
    positions = np.array([[0, 1, 1000, 32768]])
    cos, sin = ops.rope_table.forward(positions, inv_freq)
    made = {"decoder.position_ids": positions, "decoder.inv_freq": inv_freq, "decoder.cos": cos, "decoder.sin": sin}
    return {(name, 0): array for name, array in made.items()}


def test_an_angle_moves_by_its_position_times_two_ulp_and_half_an_ulp_of_its_own() -> None:
    given = tables()
    moved = moved_tables(given, 1.0, ULPS)
    angles = (np.arctan2(one["decoder.sin", 0], one["decoder.cos", 0])[0, :, :5] for one in (moved, given))
    found = np.abs(np.angle(np.exp(1j * np.subtract(*angles))))
    inv_freq = given["decoder.inv_freq", 0]
    for row, position in enumerate([0, 1, 1000, 32768]):
        rounding = np.where(inv_freq == 1, 0, 0.5 * np.spacing((position * inv_freq).astype(np.float32)))
        expected = 2 * position * np.spacing(inv_freq).astype(np.float64)
        # both within one rounding of the float64 arithmetic around it
        assert (np.abs(found[row] - expected) <= rounding * 1.001 + 1e-11).all()


def test_equal_positions_are_moved_equally_so_that_distances_stay_distances() -> None:
    given = tables()
    again = {key: np.concatenate([array, array]) if array.ndim > 1 else array for key, array in given.items()}
    first, second = moved_tables(again, 1.0, ULPS)["decoder.cos", 0]
    assert np.array_equal(first, second)


@pytest.mark.parametrize("path", sorted(CASES.glob("*/*.pb")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_wider_floor_is_nowhere_narrower_and_stored_only_where_it_is_wider(path: Path) -> None:
    for item in read(path):
        if item.info.HasField("own_angles_floor"):
            pairs = list(zip(numbers(item.info.own_angles_floor), numbers(item.info.floor), strict=True))
            assert all(wide >= narrow for wide, narrow in pairs) and any(wide > narrow for wide, narrow in pairs)


def test_it_stands_at_rotations_and_what_follows_from_them_alone() -> None:
    golden = read(CASES / "decoder" / "yarn_mscale.pb")
    before = ("cos", "sin", "inv_freq", "layers.0.input_layernorm", "layers.0.merged_attn.q_proj")
    after = ("layers.0.merged_attn.q_rope", "layers.0.merged_attn.scores", "layers.1.merged_attn.q_proj")
    assert not any(golden[f"decoder.{name}", 0].info.HasField("own_angles_floor") for name in before)
    assert all(golden[f"decoder.{name}", 0].info.HasField("own_angles_floor") for name in after)
    assert golden["logits", 1].info.HasField("own_angles_floor")


def test_a_far_rotation_may_be_thousands_of_the_narrow_floors_off() -> None:
    info = FAR["decoder.layers.0.merged_attn.q_rope", 0].info
    assert info.own_angles_floor.rms > 500 * info.floor.rms


def test_the_merged_decoders_rotated_encoder_keys_have_it() -> None:
    golden = read(CASES / "long" / "position_4096.pb")
    assert golden["decoder.layers.0.merged_attn.encoder_k_rope", 0].info.HasField("own_angles_floor")


@pytest.fixture(scope="module")
def again() -> Recording:
    return remeasured(FAR, GOLDEN_ROOT / "checkpoints")


def test_measuring_again_changes_no_value_and_no_other_floor(again: Recording) -> None:
    for old, new in zip(FAR, again, strict=True):
        assert np.array_equal(old.array, new.array)
        plain = [pb.Tensor.FromString(one.info.SerializeToString()) for one in (old, new)]
        for info in plain:
            info.ClearField("own_angles_floor")
        assert plain[0] == plain[1]


def test_measuring_again_finds_the_committed_floors(again: Recording) -> None:
    for old, new in zip(FAR, again, strict=True):
        assert numbers(new.info.own_angles_floor) == pytest.approx(numbers(old.info.own_angles_floor), rel=0.05)


def test_measuring_twice_gives_the_same_bytes(again: Recording) -> None:
    twice = remeasured(again, GOLDEN_ROOT / "checkpoints")
    assert [one.info for one in twice] == [one.info for one in again]


def test_tables_that_a_golden_does_not_hold_follow_from_its_case() -> None:
    golden = read(CASES / "generation" / "sample.pb")
    assert ("decoder.position_ids", 1) not in golden
    found = rope_tables(golden)
    slot = golden.case.steps[0]
    assert np.array_equal(
        found["decoder.position_ids", 1], golden["input.decoder_position_ids", 0].array[:, slot : slot + 1]
    )
    assert found["decoder.inv_freq", 0].dtype == np.float32


def test_the_command_writes_the_cases_that_match_and_says_when_none_does(tmp_path: Path) -> None:
    assert main([str(tmp_path), "--only", "encoder/one_token"]) == 0
    assert [path.name for path in (tmp_path / "cases").rglob("*.pb")] == ["one_token.pb"]
    assert main([str(tmp_path), "--only", "nothing/*"]) == 2
