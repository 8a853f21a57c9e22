"""Honest runs of Hugging Face's models stay within rounding, seeded mistakes do not, and both leave no trace."""

from __future__ import annotations

import pytest
import torch

from detection.families import honest, mistakes
from detection.families.models import FAMILIES, tiny
from detection.families.subject import Subject, subject

ROUNDING = 1e-5
"""How far float32 moves the results of any of these families, in parts of the largest; chunk rules most."""
CHUNKED = 1e-4


def rounding(family: str) -> float:
    return CHUNKED if family.startswith(("qwen3_next", "qwen3_5", "qwen4_exp")) else ROUNDING


def test_the_list_has_the_families_that_people_port() -> None:
    packages = {family.partition(".")[0] for family in FAMILIES}
    assert len(packages) >= 60
    assert packages >= {
        *("qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "qwen3_vl", "llama"),
        *("mistral", "mixtral", "gemma2", "gemma3", "gemma4", "gpt_oss", "olmo2", "olmo3", "glm4", "glm4_moe"),
        *("deepseek_v3", "phi3", "granite", "cohere2", "smollm3", "falcon_h1", "lfm2", "mamba2", "bert", "t5gemma2"),
    }


@pytest.mark.sample(every=11)
@pytest.mark.parametrize("family", FAMILIES)
def test_honest_runs_stay_within_rounding_and_eight_mistakes_do_not(family: str) -> None:
    run = subject(family)
    for variation in honest.runs(run):
        with variation.on():
            assert run.gap(run.run(steps=variation.steps)) < rounding(family), variation.name
    assert run.gap(run.run()) == 0
    gaps = dict[str, float]()
    for name, make in mistakes.MISTAKES.items():
        seed = make(run)
        if seed is not None:
            with seed.on():
                gaps[name] = run.gap(run.run())
            assert run.gap(run.run()) == 0, name
            assert seed.blame and set(seed.blame) & {"", *dict(run.model.named_modules())}, name
    assert sum(gap > 10 * rounding(family) for gap in gaps.values()) >= 8


def wrong(run: Subject, name: str) -> tuple[float, tuple[str, ...]]:
    """How far a mistake moves the results, and whom it blames."""
    seed = mistakes.MISTAKES[name](run)
    assert seed is not None
    with seed.on():
        return run.gap(run.run()), seed.blame


def test_a_mistake_blames_the_module_that_it_is_in() -> None:
    run = subject("qwen3_moe.Qwen3Moe")
    gap, blame = wrong(run, "top k without the first")
    assert gap > 0.1 and blame == ("model.layers.1.mlp.gate",)
    gap, blame = wrong(run, "the new key is the one before")
    assert gap > 0.1 and blame == ("model.layers.0.self_attn", "model.layers.1.self_attn")


def test_a_family_without_the_part_has_no_such_mistake() -> None:
    assert mistakes.MISTAKES["top k without the first"](subject("qwen3.Qwen3")) is None
    assert mistakes.MISTAKES["the new key is the one before"](subject("bert.Bert")) is None


def test_a_mask_that_nobody_sees_through_moves_nothing() -> None:
    gap, _ = wrong(subject("qwen3.Qwen3"), "the window is off")
    assert gap == 0


def test_a_models_numbers_are_as_they_were_after_float64() -> None:
    model, run = tiny("qwen3.Qwen3"), subject("qwen3.Qwen3")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (double,) = [variation for variation in honest.runs(run) if variation.name == "float64"]
    with double.on():
        assert {value.dtype for value in model.parameters()} == {torch.float64}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
