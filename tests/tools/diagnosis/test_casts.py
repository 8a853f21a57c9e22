"""In bfloat16 a diagnosis says where a candidate rounds elsewhere than Hugging Face, and judges nobody by it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from qwen3_encdec import attention
from qwen3_encdec.norm import Qwen3RMSNorm
from qwen3_golden import GOLDEN_ROOT, Recording, read, tensor
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis, diagnose
from qwen3_parity.diagnosis.casts import Casts
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record
from qwen3_parity.report import diagnoses as pages
from qwen3_parity.report.terminal import console
from qwen3_spec import ops

CASE = GOLDEN_ROOT / "cases" / "encdec" / "bfloat16.pb"
Q_NORM = "decoder.layers.{layer}.merged_attn.q_norm"
PROBS = "decoder.layers.{layer}.merged_attn.probs"
Diagnosed = Callable[..., Diagnosis]


@pytest.fixture(scope="module")
def golden() -> Recording:
    return read(CASE)


@pytest.fixture
def diagnosed(golden: Recording, tmp_path: Path) -> Diagnosed:
    """What is said of our implementation with one function exchanged."""
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")

    def run(owner: object = object, name: str = "", replacement: object = None) -> Diagnosis:
        with patch.object(owner, name, replacement) if name else nullcontext():
            record(golden, tmp_path / "ours.pb", factory(dtype=torch.bfloat16))
        return diagnose(golden, read(tmp_path / "ours.pb"), weights)

    return run


def of(diagnosis: Diagnosis, place: str) -> Casts:
    return next(casts for casts in diagnosis.casts if casts.place == place)


def mean_square(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def narrow_norm(self: Qwen3RMSNorm, x: torch.Tensor) -> torch.Tensor:
    return self.weight * (x * torch.rsqrt(mean_square(x) + self.variance_epsilon))


def narrow_root(self: Qwen3RMSNorm, x: torch.Tensor) -> torch.Tensor:
    root = torch.rsqrt(mean_square(x.float()) + self.variance_epsilon).to(x.dtype)
    return self.weight * (x.float() * root.float()).to(x.dtype)


def wide_weight(self: Qwen3RMSNorm, x: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (self.weight.float() * wide * torch.rsqrt(mean_square(wide) + self.variance_epsilon)).to(x.dtype)


def narrow_exponentials(scores: torch.Tensor, mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
    wide = (scores if mask is None else scores + mask).float()
    weights = (wide - wide.amax(-1, keepdim=True)).exp().to(dtype).float()
    return (weights / weights.sum(-1, keepdim=True)).to(dtype)


def test_hugging_face_s_own_run_has_nothing_to_report(golden: Recording) -> None:
    diagnosis = diagnose(golden, golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert diagnosis.alone and not diagnosis.casts


def test_our_own_run_has_nothing_to_report(diagnosed: Diagnosed) -> None:
    diagnosis = diagnosed()
    assert diagnosis.alone and not diagnosis.casts


NORMS = {
    "in bfloat16 throughout": (narrow_norm, "the mean square"),
    "with a narrow reciprocal root": (narrow_root, "the reciprocal root"),
}


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("name", NORMS)
def test_norms_with_more_roundings_are_reported_with_what_is_rounded(name: str, diagnosed: Diagnosed) -> None:
    norm, point = NORMS[name]
    diagnosis = diagnosed(Qwen3RMSNorm, "forward", norm)
    casts = of(diagnosis, Q_NORM)
    assert point in casts.rounded and casts.differing > casts.compared / 10 and "no fault" not in str(casts)
    assert not diagnosis.faults and not diagnosis.verdicts.exit_code


def test_a_softmax_that_rounds_twice_is_reported_with_what_is_rounded(diagnosed: Diagnosed) -> None:
    diagnosis = diagnosed(attention, "probabilities", narrow_exponentials)
    casts = of(diagnosis, PROBS)
    assert (casts.unrounded, casts.rounded, casts.unexplained) == ((), ("the exponentials",), 0)
    assert not diagnosis.faults and {reported.place.rpartition(".")[2] for reported in diagnosis.casts} == {"probs"}


def test_fewer_roundings_are_no_fault_and_said_to_be_none(diagnosed: Diagnosed) -> None:
    diagnosis = diagnosed(Qwen3RMSNorm, "forward", wide_weight)
    casts = of(diagnosis, Q_NORM)
    assert (casts.unrounded, casts.rounded, casts.unexplained) == (("the normalised row",), (), 0)
    assert "% of its elements are rounded elsewhere" in str(casts) and str(casts).endswith("no fault")
    assert not diagnosis.faults and not diagnosis.verdicts.exit_code


def test_terminal_and_json_say_the_same(diagnosed: Diagnosed) -> None:
    diagnosis = diagnosed(Qwen3RMSNorm, "forward", narrow_root)
    shown = console()
    with shown.capture() as text:
        shown.print(pages.terminal(diagnosis))
    said = " ".join(text.get().split())
    assert all(" ".join(entry["says"].split()) in said for entry in pages.to_json(diagnosis)["casts"])


def test_a_result_that_is_stored_in_float32_is_reported_as_kept(golden: Recording) -> None:
    weights, item = weights_of(golden, GOLDEN_ROOT / "checkpoints"), golden["decoder.norm", 0]
    norm = ops.rms_norm.forward(golden["decoder.layers.1.output", 0].values(), weights["decoder.norm.weight"], 1e-6)
    info = item.info
    wide = tensor(info.name, norm.astype(np.float32), axes=info.axes, op=info.op, inputs=info.inputs)
    candidate = replace(golden, tensors=[wide if old.key == item.key else old for old in golden])
    diagnosis = diagnose(golden, candidate, weights)
    assert of(diagnosis, "decoder.norm").unrounded == ("its result",)


def test_a_wrong_op_is_a_fault_and_no_matter_of_casts(diagnosed: Diagnosed) -> None:
    def doubled(scores: torch.Tensor, mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        return 2 * torch.softmax(scores if mask is None else scores + mask, -1)

    diagnosis = diagnosed(attention, "probabilities", doubled)
    assert diagnosis.faults and not diagnosis.casts
