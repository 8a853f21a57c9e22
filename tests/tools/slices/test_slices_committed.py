"""Committed goldens of models: Hugging Face's own runs are at parity, and a mistake is blamed on its module alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_reference.caches import CACHE
from qwen3_reference.cases.models import MODEL_CASES, ModelCase
from qwen3_reference.graph.load import load
from qwen3_reference.graph.pooled import POOL, around, inside

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
by_case = pytest.mark.parametrize("case", MODEL_CASES, ids=lambda case: case.name.rpartition("/")[2])


@cache
def golden_of(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb", digests=True)


def network(case: ModelCase, attention: str = "eager") -> Any:
    model = load(CHECKPOINTS / case.checkpoint, getattr(torch, case.dtype), bare=POOL in case.around)
    model.set_attn_implementation(attention if attention == "eager" or model._supports_sdpa else "eager")
    return around(model, case.around)


def at_once(model: Any, case: qwen3_parity.Case) -> None:
    model(**case.inputs)


def step_by_step(model: Any, case: qwen3_parity.Case) -> None:
    if len(case.steps) == 1:  # what stands around a model has one alone
        at_once(model, case)
        return
    states = None
    for step in case.steps:
        states = model(**step, **{CACHE: states}, use_cache=True)[CACHE]


def judged(
    case: ModelCase, model: Any, folder: Path, run: Callable[[Any, qwen3_parity.Case], None] = step_by_step
) -> Verdicts:
    asked = qwen3_parity.golden(case.name)
    with torch.no_grad(), qwen3_parity.record(model, asked, path=folder / "mine.pb") as recording:
        run(model, asked)
    golden = golden_of(case.name)
    return check(golden, recording.path, weights_of(golden, CHECKPOINTS))


@by_case
def test_a_golden_is_of_its_checkpoint_and_says_its_steps(case: ModelCase) -> None:
    golden = golden_of(case.name)
    assert golden.case.name == case.name and golden.case.description == case.description
    assert [checkpoint.name for checkpoint in golden.case.checkpoint] == [case.checkpoint]
    assert list(golden.case.steps) == ([max(case.lengths)] if case.around else [5, 1, 1])
    assert golden.provenance.seed == case.seed
    assert golden.run.arithmetic == {"float32": pb.ARITHMETIC_F32, "bfloat16": pb.ARITHMETIC_BF16}[case.dtype]
    assert golden["input.attention_mask", 0].array[:, 0].all() == (case.padding == "right")


@pytest.mark.sample(every=9)
@by_case
@pytest.mark.parametrize("run", [step_by_step, at_once], ids=lambda run: run.__name__)
def test_hugging_faces_own_model_is_at_parity(
    case: ModelCase, run: Callable[[Any, qwen3_parity.Case], None], tmp_path: Path
) -> None:
    verdicts = judged(case, network(case, "sdpa"), tmp_path, run)
    assert verdicts.word == "parity" and verdicts.judged == "run and ops", verdicts.problems[:2]
    if run is step_by_step:  # torch's fused attention never has probabilities
        absent = {where.partition(" ")[0] for where in verdicts.not_materialised}
        assert all(name.endswith(("self_attn[1]", "self_attn.probs")) for name in absent)


def another_eps(model: Any) -> str:
    """The first norm's epsilon, a tenth of what it is: one row of embeddings is as small."""
    place = next(name for name, _ in model.named_modules() if name.endswith("layers.0.input_layernorm"))
    norm = model.get_submodule(place)
    name = "variance_epsilon" if hasattr(norm, "variance_epsilon") else "eps"
    setattr(norm, name, getattr(norm, name) / 10)
    return place


def another_scale(model: Any) -> str:
    """The experts' weights normalised or not, or a little larger; without experts the scores a little larger."""
    names = [name for name, _ in model.named_modules()]
    routers = [name for name in names if name.endswith((".mlp.gate", ".mlp.router"))]
    last = (routers or [name for name in names if name.endswith(".self_attn")])[-1]
    module = model.get_submodule(last)
    if hasattr(module, "norm_topk_prob"):
        module.norm_topk_prob = not module.norm_topk_prob
    elif last.endswith(".self_attn"):
        module.scaling *= 1.05
    else:
        module.register_forward_hook(lambda *called: (called[2][0], called[2][1] * 1.05, *called[2][2:]))
    return last


@pytest.mark.sample(every=7)
@by_case
@pytest.mark.parametrize("mistake", [another_eps, another_scale], ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_blamed_on_its_module_alone(
    case: ModelCase, mistake: Callable[[Any], str], tmp_path: Path
) -> None:
    model = network(case)
    place = mistake(inside(model))
    verdicts = judged(case, model, tmp_path)
    assert verdicts.word == "divergence"
    taps = golden_of(case.name).graph.tap
    of_place = {tap.value for tap in taps if tap.name.startswith(place)}  # a module around it may give it on
    names = {tap.name for tap in taps if tap.value in of_place}
    assert verdicts.wrong_alone and set(verdicts.wrong_alone) <= names
