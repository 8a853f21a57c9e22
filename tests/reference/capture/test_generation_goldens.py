"""What the goldens of generation show: Hugging Face's own `generate()`, with ends and filters that matter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read
from qwen3_parity.judge.budgets import reach
from qwen3_reference.capture.generation import FreeRun, chosen, hf_generate
from qwen3_reference.capture.models import Reference
from qwen3_reference.capture.run import generate_greedy
from qwen3_reference.cases.networks import case
from qwen3_spec.ops.argmax import choosing_steps

FOLDER = GOLDEN_ROOT / "cases" / "generation"
SEARCHES = ("greedy", "merged", "small_margins")
Load = Callable[..., Reference]


def golden(name: str) -> Recording:
    return read(FOLDER / f"{name}.pb")


def prompt_of(recording: Recording) -> dict[str, np.ndarray]:
    """The case's inputs before anything was chosen."""
    stop = recording.case.generation.prompt_length
    given = {t.info.name: t.array for t in recording if t.info.name.startswith("input.")}
    return {name: value[:, :stop] if "decoder" in name else value for name, value in given.items()}


@pytest.mark.parametrize("name", SEARCHES)
def test_generated_tokens_differ_and_no_choice_is_a_near_tie(name: str) -> None:
    recording = golden(name)
    assert len(np.unique(recording["generated_ids", 0].array)) >= 8
    floor = max(t.info.floor.max for t in recording if t.info.name == "logits")
    assert recording.case.smallest_margin > 5 * reach(floor)


def test_logits_are_as_near_to_each_other_as_those_of_trained_models() -> None:
    near = []
    for name in ("decoder/head_dim_64", "decoder/head_dim_64_ragged", "generation/small_margins"):
        recording = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
        mask = recording["input.decoder_attention_mask", 0].array
        stops = np.cumsum(recording.case.steps)
        for step, stop in enumerate(stops):
            logits = recording["logits", step].array
            best = np.sort(logits[mask[:, stop - logits.shape[1] : stop]], axis=-1)
            near += (best[:, -1] - best[:, -2]).tolist()
    assert len(near) > 30 and min(near) > 0.1 and max(near) < 3


def test_two_equal_logits_are_the_best_ones_and_the_lower_id_is_chosen() -> None:
    recording = golden("equal_logits")
    ids = recording["generated_ids", 0].array
    last = [recording["logits", step].array[:, -1] for step in range(len(recording.case.steps))]
    ties = [
        (row, n)
        for n, one in enumerate(last)
        for row in range(len(ids))
        if np.count_nonzero(one[row] == one[row].max()) > 1
    ]
    assert ties and [ids[row, n] for row, n in ties] == [last[n][row].argmax() for row, n in ties]
    assert recording.case.smallest_margin == 0


def test_what_stands_in_padding_is_not_penalised() -> None:
    recording = golden("penalty_padded")
    generation, mask = recording.case.generation, recording["input.decoder_attention_mask", 0].array
    assert not mask[1, 0] and recording["input.decoder_input_ids", 0].array[1, 0] == generation.pad_token_id
    for step in choosing_steps(recording.case.steps, generation):
        plain = torch.from_numpy(recording["logits", step].array[1, -1].astype(np.float64)).softmax(-1).numpy()
        probs = recording["next_token_probs", step].array[1]
        unseen = np.setdiff1d(np.arange(len(probs)), recording["input.decoder_input_ids", 0].array[1])
        kept = probs[unseen] / plain[unseen]  # every token that never stood in the row moves by one factor
        assert np.allclose(probs[generation.pad_token_id] / plain[generation.pad_token_id], kept, rtol=1e-4)


@pytest.mark.parametrize("name", ["greedy", "merged"])
def test_rows_end_at_different_steps_by_either_of_two_ids(name: str) -> None:
    recording = golden(name)
    generation, ids = recording.case.generation, recording["generated_ids", 0].array
    ends = [[int(one) for one in row if one in generation.eos_token_id] for row in ids]
    assert {one for row in ends for one in row} == set(generation.eos_token_id)
    assert len({int(np.count_nonzero(row != generation.pad_token_id)) for row in ids}) == len(ids)


def test_removed_tokens_have_exactly_no_probability_and_every_filter_removes_some() -> None:
    recording = golden("sample")
    kept = [t.array > 0 for t in recording if t.info.name == "next_token_probs"]
    k = recording.case.generation.top_k
    assert len(kept) == len(choosing_steps(recording.case.steps, recording.case.generation))
    assert all((one.sum(axis=1) < k).any() for one in kept)


@pytest.mark.parametrize("name", ["greedy", "merged"])
def test_generate_chooses_what_a_loop_over_forwards_does(reference_of: Load, name: str) -> None:
    recording = golden(name)
    prompt, new = prompt_of(recording), recording.case.max_new_tokens
    ids, _ = generate_greedy(reference_of(f"generation/{name}"), prompt, recording.case.generation.prompt_length, new)
    ends = np.isin(ids, list(recording.case.generation.eos_token_id))
    behind = np.cumsum(ends, axis=1) - ends > 0
    expected = np.where(behind, recording.case.generation.pad_token_id, ids)
    assert recording["generated_ids", 0].array.tolist() == expected.tolist()


def test_an_encoder_that_is_hidden_changes_what_is_generated(reference_of: Load) -> None:
    recording = golden("merged")
    prompt, generation = prompt_of(recording), recording.case.generation
    prompt["input.encoder_attention_mask"] = np.zeros_like(prompt["input.encoder_attention_mask"])
    output = hf_generate(
        reference_of("generation/merged"),
        prompt,
        max_new_tokens=recording.case.max_new_tokens,
        eos_token_id=None,
        pad_token_id=generation.pad_token_id,
        do_sample=False,
    )
    found = output.sequences[:, generation.prompt_length :].numpy()
    assert found[0].tolist() != recording["generated_ids", 0].array[0].tolist()


def test_a_forced_run_with_other_logits_than_generate_saw_is_refused(reference_of: Load) -> None:
    recording = golden("greedy")
    given = {t.info.name: t.array for t in recording if t.info.name.startswith("input.")}
    logits = [
        recording["logits", s].array[:, -1] for s in choosing_steps(recording.case.steps, recording.case.generation)
    ]
    free = FreeRun(given, tuple(recording.case.steps), None, 1.0, logits)
    sink = chosen(reference_of("generation/greedy").decoder, free, recording.case, lambda *_: None)
    right = torch.from_numpy(recording["logits", 1].array.copy())
    sink(1, "logits", right)
    with pytest.raises(ParityError, match="not the run that chose the tokens"):
        sink(1, "logits", right + 0.01)


def test_the_cases_state_how_tokens_were_chosen() -> None:
    for path in sorted(Path(FOLDER).glob("*.pb")):
        generation = read(path).case.generation
        assert generation.prompt_length == sum(case(f"generation/{path.stem}").steps)
        assert generation.strategy in ("greedy", "sample")
    assert {read(path).case.mode for path in FOLDER.glob("*.pb")} == {pb.CAUSAL, pb.ENCODER_DECODER}
