"""The structure of a wrong weight is told of networks that only their golden's graph describes.

It runs `findings.product_of_graph` and `grammar.held`, too.
"""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_slices_committed import CHECKPOINTS, golden_of, network, step_by_step

import qwen3_parity
from qwen3_golden import Array, Recording, read, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_parity.mistakes.as_loaded import LOAD
from qwen3_reference.cases.models import MODEL_CASES

Change = Callable[[Array], Array]


def shuffled(count: int) -> Array:
    return np.random.Generator(np.random.PCG64(count)).permutation(count)


def adapted(w: Array) -> Array:
    random = np.random.Generator(np.random.PCG64(0))
    return np.asarray(w + 0.1 * random.standard_normal((len(w), 1)) @ random.standard_normal((1, w.shape[1])))


def four_bits(w: Array) -> Array:
    """Blocks of 8 numbers of a row, from the smallest to the largest."""
    parts = w.reshape(-1, 8)
    low = parts.min(1, keepdims=True)
    step = (parts.max(1, keepdims=True) - low) / np.float32(15)
    return np.asarray(np.rint((parts - low) / step) * step + low).reshape(w.shape)


def recorded(name: str, place: str, change: Change, folder: Path) -> Recording:
    """Hugging Face's model with another weight at a place."""
    case = next(case for case in MODEL_CASES if case.name == f"model/{name}")
    model: Any = network(case)
    module = model.get_submodule(place)
    weight = change(module.weight.detach().float().numpy())
    module.weight = torch.nn.Parameter(torch.tensor(np.ascontiguousarray(weight)).to(module.weight.dtype))
    asked = qwen3_parity.golden(case.name)
    with torch.no_grad(), qwen3_parity.record(model, asked, path=folder / "mine.pb") as recording:
        step_by_step(model, asked)
    return read(recording.path)


def explained(name: str, candidate: Recording) -> list[Explained]:
    golden = golden_of(f"model/{name}")
    return list(diagnose(golden, candidate, weights_of(golden, CHECKPOINTS), work=ENOUGH / 25).faults)


def unsaid(candidate: Recording) -> Recording:
    """As of a recorder that does not see parameters."""
    tensors = [item for item in candidate if not item.info.name.startswith("parameter.")]
    return replace(candidate, tensors=tensors, parameters=[])


Q, O = "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.o_proj"  # noqa: E741
FORMS: dict[str, tuple[str, str, Change, str, str]] = {
    "columns": ("qwen3_moe", O, lambda w: w[:, shuffled(24)], "structure.columns_permuted", "11 positions of 24"),
    "rows": ("gemma3", "lm_head", lambda w: w[shuffled(61)], "weight.permuted", "rows are in another order"),
    "shards": ("qwen3_moe", Q, lambda w: np.roll(w, 12, 0), "edit.parameter", "the halves of the rows"),
    "rows scaled": ("gpt_oss", Q, lambda w: w * np.linspace(1, 2, len(w))[:, None], "structure.row_scaled", "for each row: 1"),
    "columns scaled": ("qwen3_moe", Q, lambda w: w * np.linspace(1, 2, 16), "structure.column_scaled", "for each column"),
    "an adapter": ("gemma3", "model.layers.0.mlp.down_proj", adapted, "structure.low_rank", "a matrix of rank 1"),
    "4 bits": ("qwen3_moe", Q, four_bits, "structure.blocks", "4 bits with a minimum (as q4_1), a scale for each 8"),
    "a factor": ("qwen3_moe", Q, lambda w: 1.01 * w, "edit.fitted", "by 1.01"),
}  # fmt: skip


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("mistake", FORMS)
def test_the_structure_of_a_weight_is_told_by_the_graph(mistake: str, tmp_path: Path) -> None:
    case, place, change, name, words = FORMS[mistake]
    faults = explained(case, unsaid(recorded(case, place, change, tmp_path)))
    assert faults and {fault.name for fault in faults} == {name}
    assert all(words in [*fault.explanations, *fault.findings][0].says for fault in faults)


def test_a_line_is_to_be_mended_where_the_checkpoints_weight_was_loaded(tmp_path: Path) -> None:
    candidate = recorded("qwen3_moe", Q, lambda w: np.roll(w, 12, 0), tmp_path)
    stored, bare = golden_of("model/qwen3_moe").parameters, unsaid(candidate)
    line = "query_states = self.q_norm("
    for loaded, begin in ((candidate.parameters, LOAD), (stored, line), ([], f"{LOAD}; where they are: {line}")):
        (fault,) = explained("qwen3_moe", replace(bare, parameters=loaded))
        (said,) = fault.explanations
        assert said.name == "edit.parameter" and said.fix.startswith(begin) and (".py:" in said.says) == (begin != LOAD)


@pytest.mark.slow
def test_noise_has_no_structure_in_a_graph(tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    candidate = recorded("qwen3_moe", Q, lambda w: w + 0.1 * random.standard_normal(w.shape), tmp_path)
    (fault,) = explained("qwen3_moe", unsaid(candidate))
    (first,) = (finding for finding in fault.findings if finding.name.startswith(("structure.", "fit.weight")))
    assert first.name == "fit.weight" and first.says.endswith("10 different positions cannot tell 16 weights")
    (fault,) = explained("qwen3_moe", replace(unsaid(candidate), parameters=golden_of("model/qwen3_moe").parameters))
    assert not [finding for finding in fault.findings if finding.name.startswith(("structure.", "fit.weight"))]


def test_another_digest_says_that_another_weight_was_loaded(tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    candidate = recorded("qwen3_moe", Q, lambda w: w + 0.1 * random.standard_normal(w.shape), tmp_path)
    (fault,) = explained("qwen3_moe", candidate)
    assert fault.name == "weight.unknown" and "as loaded it is another one by 0.3" in fault.findings[0].says
    golden = golden_of("model/qwen3_moe")
    listed = diagnose(golden, candidate, weights_of(golden, CHECKPOINTS), work=ENOUGH / 25).parameters
    assert [parameter.name for parameter in listed] == [f"{Q}.weight"], "nothing explains it"
    (fault,) = explained("qwen3_moe", replace(unsaid(candidate), parameters=candidate.parameters))
    assert fault.name == "weight.unknown" and "by its digest" in fault.findings[0].says


def test_by_a_layers_output_it_is_said_what_a_weight_is_that_was_loaded(tmp_path: Path) -> None:
    def other_scales(w: Array) -> Array:
        blocks = w.reshape(len(w), -1, 8)
        scale = np.abs(blocks).max(-1, keepdims=True) / 7
        return np.asarray(np.rint(blocks / scale) * np.roll(scale, 1, 0), np.float32).reshape(w.shape)

    candidate = recorded("qwen3_moe", Q, other_scales, tmp_path)
    layers = re.compile(r"^(input|parameter)\.|^model\.layers\.\d+$|logits")
    (fault,) = explained("qwen3_moe", replace(candidate, tensors=[x for x in candidate if layers.search(x.info.name)]))
    assert fault.fault.place == "model.layers.{layer}" and fault.name == "structure.misread"
    says = fault.explanations[0].says
    assert "computes with what was loaded as q_proj" in says and "its scales are those of the row before" in says


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "numbers",
    [np.zeros(()), np.zeros((3, 2)), np.full((12, 16), np.nan), np.full((24, 16), np.inf), np.full((24, 16), 1e300)],
)
@pytest.mark.parametrize("by", ["modules", "layers"])
def test_whatever_stands_under_a_parameters_name_ends_no_diagnosis(by: str, numbers: Array, tmp_path: Path) -> None:
    candidate = recorded("qwen3_moe", Q, lambda w: 1.01 * w, tmp_path)
    wrong = tensor(f"parameter.{Q}.weight", numbers)
    taps = re.compile(r"^input\.|^model\.layers\.\d+$|logits" if by == "layers" else r"(?!parameter\.)")
    tensors = [*(x for x in candidate if taps.match(x.info.name)), wrong]
    golden = golden_of("model/qwen3_moe")
    hostile = replace(candidate, tensors=tensors)
    diagnosis = diagnose(golden, hostile, weights_of(golden, CHECKPOINTS), work=ENOUGH / 50)
    assert diagnosis.faults and not diagnosis.failures
    assert all(fault.name != "weight.as_loaded" for fault in diagnosis.faults)
