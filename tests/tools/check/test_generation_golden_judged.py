"""How the judge reads cases of generation: settings, removed tokens, rows that have ended, exact pasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, Tensor, pb, read, tensor
from qwen3_parity.blame import replay
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose

FOLDER = GOLDEN_ROOT / "cases" / "generation"


def golden(name: str) -> Recording:
    return read(FOLDER / f"{name}.pb")


def changed(recording: Recording, name: str, step: int, change: Callable[[Array], Array]) -> Recording:
    """The recording as a candidate with one tensor changed."""

    def rewritten(item: Tensor) -> Tensor:
        if item.key != (name, step):
            return item
        info, values = item.info, change(item.array.copy())
        return tensor(name, values, step=step, axes=info.axes, op=info.op, inputs=info.inputs)

    return replace(recording, tensors=[rewritten(item) for item in recording])


def blamed(recording: Recording, candidate: Recording) -> set[str]:
    ops = replay(candidate, weights_of(candidate, GOLDEN_ROOT / "checkpoints"), recording)
    return {verdict.name for verdict in ops if not verdict.passed}


@pytest.mark.parametrize("name", ["greedy", "merged", "sample"])
def test_the_reference_itself_is_right_at_every_place(name: str) -> None:
    recording = golden(name)
    assert check(recording, recording).word == "parity"
    assert blamed(recording, recording) == set()


def test_a_candidate_that_chose_by_other_settings_ran_another_case() -> None:
    recording = golden("sample")
    case = pb.Case.FromString(recording.case.SerializeToString())
    case.generation.top_p = 0.8
    with pytest.raises(ParityError, match=r"case\.generation\.top_p"):
        check(recording, replace(recording, case=case))


def test_a_removed_token_with_any_probability_fails_however_small() -> None:
    recording = golden("sample")
    verdicts = check(
        recording, changed(recording, "next_token_probs", 2, lambda x: np.where(x == 0, 1e-12, x).astype("f4"))
    )
    (problem,) = verdicts.problems
    assert "not exactly 0" in problem.rule


def test_rows_that_have_ended_are_judged_for_finiteness_alone() -> None:
    recording = golden("greedy")
    step = len(recording.case.steps) - 1
    ended = ~recording["input.decoder_attention_mask", 0].array[:, -1]
    assert ended.any()

    def spoiled(value: float) -> Callable[[Array], Array]:
        return lambda x: np.where(ended[:, None, None], np.float32(value), x)

    assert check(recording, changed(recording, "logits", step, spoiled(5.0))).word == "parity"
    assert check(recording, changed(recording, "logits", step, spoiled(np.nan))).word == "divergence"


def test_tokens_behind_the_end_of_a_row_are_blamed_on_the_search() -> None:
    recording = golden("merged")
    candidate = changed(recording, "generated_ids", 0, lambda x: np.where(x == 3, 7, x))
    assert check(recording, candidate).exit_code == 1
    assert blamed(recording, candidate) == {"generated_ids"}


def test_ids_alone_are_not_judged_behind_a_near_tie() -> None:
    """A search that goes on freely has another past there, and says nothing of it."""
    recording = golden("equal_logits")
    row, new = 1, 4  # two logits are equal here

    def went_on(x: Array) -> Array:
        x[row, new] += 1
        x[row, new + 1 :] = 7
        return x

    candidate = changed(recording, "generated_ids", 0, went_on)
    inputs = [item for item in candidate if item.info.name.startswith("input.")]
    run = pb.Run.FromString(candidate.run.SerializeToString())
    run.materialised[:] = ["generated_ids"]
    candidate = replace(candidate, run=run, tensors=[*inputs, candidate["generated_ids", 0]])
    assert check(recording, candidate, partial=True).word == "near-tie"
    assert blamed(recording, candidate) == set()


def test_padding_for_the_end_of_a_row_is_named() -> None:
    recording = golden("merged")
    ends = list(recording.case.generation.eos_token_id)
    pad = recording.case.generation.pad_token_id
    candidate = changed(recording, "generated_ids", 0, lambda x: np.where(np.isin(x, ends), pad, x))
    diagnosis = diagnose(recording, candidate, weights_of(recording, GOLDEN_ROOT / "checkpoints"))
    assert {
        (explanation.name, explanation.whole) for fault in diagnosis.faults for explanation in fault.explanations
    } == {("eos.padded", 1)}


@pytest.mark.slow
def test_the_last_of_equal_logits_is_named() -> None:
    """A tie of the largest logits at the first choice, of which the candidate took the second."""
    recording = golden("greedy")
    first = recording["generated_ids", 0].array[0, 0]
    last = recording["logits", 0].array.shape[-1] - 1

    def tied(x: Array) -> Array:
        x[0, -1, last] = x[0, -1, first]
        return x

    def taken(x: Array) -> Array:
        x[0, 0] = last
        return x

    prompt = 1  # it came in two parts, and the first choice is behind the second
    candidate = changed(changed(recording, "logits", prompt, tied), "generated_ids", 0, taken)
    diagnosis = diagnose(recording, candidate, weights_of(recording, GOLDEN_ROOT / "checkpoints"))
    names = {
        explanation.name
        for fault in diagnosis.faults
        if "generated_ids" in fault.places
        for explanation in fault.explanations
    }
    assert first != last and "greedy.last_maximum" in names
