"""A recording of another convention is read as it is meant, its recorder told once what to mend, its network judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, Tensor, pb, read, tensor, write
from qwen3_parity import Verdicts, check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.conventions import RULES, conventional

GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
WEIGHTS = weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints")
Change = Callable[[Tensor], list[Tensor]]


def rewritten(item: Tensor, array: Array | None = None, *, name: str = "", step: int | None = None) -> Tensor:
    array = item.array if array is None else np.ascontiguousarray(array)
    step = item.info.step if step is None else step
    return tensor(name or item.info.name, array, step=step, op=item.info.op)


def candidate(change: Change) -> Recording:
    return replace(GOLDEN, tensors=[new for item in GOLDEN for new in change(item)], source="port.pb")


def layers_from_1(item: Tensor) -> list[Tensor]:
    return [rewritten(item, name=re.sub(r"layers\.(\d)", lambda m: f"layers.{int(m[1]) + 1}", item.info.name))]


def a_layer_too_many(item: Tensor) -> list[Tensor]:
    more = (
        [rewritten(item, name=item.info.name.replace("layers.2", "layers.3"))] if "layers.2" in item.info.name else []
    )
    return [item, *more]


def misnamed(item: Tensor) -> list[Tensor]:
    return [rewritten(item, name=item.info.name.replace("q_rope", "q_rot"))]


def mask_as_bytes(item: Tensor) -> list[Tensor]:
    return [rewritten(item, item.array.astype(np.uint8)) if item.info.name.endswith(".mask") else item]


def steps_from_1(item: Tensor) -> list[Tensor]:
    return [rewritten(item, step=item.info.step + 1) if "cache_keys" in item.info.name else item]


def heads_not_split(item: Tensor) -> list[Tensor]:
    flat = item.info.name.endswith(".context")
    return [rewritten(item, item.array.reshape(*item.array.shape[:2], -1)) if flat else item]


def heads_first(item: Tensor) -> list[Tensor]:
    return [rewritten(item, np.swapaxes(item.array, 1, 2)) if item.info.name.endswith(".context") else item]


def positions_first(item: Tensor) -> list[Tensor]:
    return [rewritten(item, np.swapaxes(item.array, 1, 2)) if item.info.name.endswith(".q_rope") else item]


def by_columns(item: Tensor) -> list[Tensor]:
    return [rewritten(item, item.array.ravel(order="F").reshape(item.array.shape))]


def big_endian(item: Tensor) -> list[Tensor]:
    return [rewritten(item, item.array.byteswap())]


def floats_big_endian(item: Tensor) -> list[Tensor]:
    return [rewritten(item, item.array.byteswap()) if item.is_float else item]


def no_inputs(item: Tensor) -> list[Tensor]:
    return [] if item.info.name.startswith("input.") else [item]


CHANGES: dict[Change, tuple[str, str]] = {
    layers_from_1: ("layers are counted from 1", "subtract 1"),
    a_layer_too_many: ("a layer too many", "leave them out"),
    misnamed: ("no tap decoder.layers.{layer}.merged_attn.q_rot", "names of golden/taps.textproto"),
    mask_as_bytes: ("truth values written as numbers", "dtype to BOOL"),
    steps_from_1: ("steps are counted from 1", "from 0"),
    heads_not_split: ("another layout", "reshape it to (1, 5, 6, 10)"),
    heads_first: ("another layout", "transpose it by [0, 2, 1, 3]"),
    positions_first: ("another layout", "transpose it by [0, 2, 1, 3]"),
    by_columns: ("column by column", "C's order"),
    big_endian: ("big-endian", "LITTLE_ENDIAN"),
    floats_big_endian: ("big-endian", "LITTLE_ENDIAN"),
    no_inputs: ("inputs are not in it", "copy the golden's tensors"),
}
changes = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)


def one_problem(verdicts: Verdicts, change: Change) -> None:
    problem = verdicts.problems[0]
    assert len(verdicts.problems) == 1, "\n".join(map(str, verdicts.problems))
    assert CHANGES[change][0] in problem.rule and CHANGES[change][1] in problem.next_step
    assert verdicts.exit_code == 1 and verdicts.compared == verdicts.of


@pytest.mark.sample(every=3)
@changes
def test_check_says_in_one_problem_what_the_recorder_has_to_mend(change: Change) -> None:
    one_problem(check(GOLDEN, candidate(change), WEIGHTS), change)


@pytest.mark.sample(every=3)
@changes
def test_diagnose_says_the_same_and_accuses_no_op(change: Change) -> None:
    diagnosis = diagnose(GOLDEN, candidate(change), WEIGHTS)
    one_problem(diagnosis.verdicts, change)
    assert not (diagnosis.faults or diagnosis.misplaced or diagnosis.failures)


@pytest.mark.parametrize(
    "change", [layers_from_1, by_columns, big_endian, heads_first], ids=lambda change: change.__name__
)
def test_a_mistake_of_the_network_is_blamed_behind_one_of_the_recorder(change: Change) -> None:
    def wrong(item: Tensor) -> list[Tensor]:
        scaled = item.info.name.endswith("1.mlp.act")
        return change(rewritten(item, item.array * np.float32(1.5)) if scaled else item)

    diagnosis = diagnose(GOLDEN, candidate(wrong), WEIGHTS)
    blamed = {fault.fault.place for fault in diagnosis.faults} | {tap.place for tap in diagnosis.misplaced}
    assert blamed == {"decoder.layers.{layer}.mlp.act"}
    assert CHANGES[change][0] in diagnosis.verdicts.problems[0].rule


def test_a_recording_that_keeps_every_convention_is_left_as_it_is() -> None:
    again, problems, notes = conventional(GOLDEN, GOLDEN)
    assert again is GOLDEN and not problems and not notes


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_leaves_every_golden_as_it_is(rule: Callable[..., tuple[Recording, list[object]]]) -> None:
    for case in (
        "encdec/ragged",
        "training/tied",
        "classic/bert",
        "generation/merged",
        "op/rms_norm",
        "plumbing/dtypes",
    ):
        golden = read(GOLDEN_ROOT / "cases" / f"{case}.pb")
        again, problems = rule(golden, golden)
        assert not problems and [item.key for item in again] == [item.key for item in golden]


def test_numbers_that_are_merely_wrong_are_no_other_layout() -> None:
    def noise(item: Tensor) -> list[Tensor]:
        drawn = np.random.Generator(np.random.PCG64(0)).standard_normal(item.array.shape).astype(np.float32)
        heads = item.info.name.endswith(".context")
        return [rewritten(item, np.swapaxes(drawn, 1, 2)) if heads else item]

    assert {problem.rule for problem in check(GOLDEN, candidate(noise)).problems} == {"another shape"}


def test_a_float_tap_as_truth_values_is_another_dtype_and_no_traceback() -> None:
    def truth(item: Tensor) -> list[Tensor]:
        return [rewritten(item, item.array != 0) if item.info.name.endswith("1.input_layernorm") else item]

    diagnosis = diagnose(GOLDEN, candidate(truth), WEIGHTS)
    assert {problem.rule for problem in diagnosis.verdicts.problems} == {"another dtype"}
    assert not diagnosis.faults


def test_a_cache_at_a_step_that_the_case_does_not_have_is_an_extra_tap_and_no_traceback() -> None:
    def far(item: Tensor) -> list[Tensor]:
        more = item.info.name.endswith("1.merged_attn.cache_keys") and item.info.step == 4
        return [item, rewritten(item, step=4000)] if more else [item]

    diagnosis = diagnose(GOLDEN, candidate(far), WEIGHTS)
    assert ["extra tap" in problem.rule for problem in diagnosis.verdicts.problems] == [True]


def test_an_unset_arithmetic_and_backend_are_the_goldens_and_foreign(tmp_path: Path) -> None:
    path = tmp_path / "port.pb"
    run = pb.Run(materialised=GOLDEN.run.materialised)
    write(path, replace(GOLDEN, run=run))
    verdicts = check(GOLDEN, path)
    assert verdicts.exit_code == 0
    assert (verdicts.arithmetic, verdicts.backend) == (GOLDEN.run.arithmetic, pb.FOREIGN)
