"""What Hugging Face's model holds on a case, by the names of its modules; the tests of this folder share `dumped`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import qwen3_parity
from qwen3_parity import Case
from qwen3_reference.caches import CACHE

sys.path.insert(0, str(Path(__file__).parent))

from dumped import Tensors, hooked


@pytest.fixture(scope="session")
def case() -> Case:
    """A prefill of 5 tokens and four steps of one, three layers."""
    return qwen3_parity.golden("decoder/plain")


@pytest.fixture(scope="session")
def model(case: Case) -> PreTrainedModel:
    """Hugging Face's, with the weights of `case`."""
    made: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        case.checkpoint, attn_implementation="eager", dtype=torch.float32
    )
    return made.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def whole(model: PreTrainedModel, case: Case) -> Tensors:
    """All slots in one forward."""
    (forward,) = hooked(model, lambda: model(**case.inputs))
    return forward


@pytest.fixture(scope="session")
def steps(model: PreTrainedModel, case: Case) -> list[Tensors]:
    """A forward a step, with a cache."""

    def run() -> None:
        cache = None
        for inputs in case.steps:
            cache = model(**inputs, **{CACHE: cache}, use_cache=True)[CACHE]

    return hooked(model, run)
