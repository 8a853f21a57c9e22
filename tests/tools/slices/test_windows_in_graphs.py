"""An engine whose cache has every key, and whose window is another: by layers, by projections and by the results alone.

It runs `edits.past_windows`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from test_slices_committed import CHECKPOINTS, golden_of, network
from transformers import DynamicCache

import qwen3_parity
from qwen3_golden import Recording, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.search import ENOUGH
from qwen3_reference.cases.models import MODEL_CASES

NAME = "model/gemma3"
LEVELS = {
    "layers": re.compile(r"input\..*|model\.layers\.\d+|logits"),
    "results": re.compile(r"input\..*|logits"),
    "projections": re.compile(r"input\..*|.*self_attn\.[qkvo]_(proj|norm)"),
}
WORK = {"layers": ENOUGH / 10, "results": ENOUGH / 5, "projections": ENOUGH / 10}


def with_window(length: int, folder: Path, begin: int = 0) -> Recording:
    """Hugging Face's model with another window from a step on, and a cache that drops nothing."""
    model: Any = network(next(case for case in MODEL_CASES if case.name == NAME))
    case = qwen3_parity.golden(NAME)
    taps = ["model.layers.?", "logits", "model.layers.?.self_attn.?_*"]  # others show more keys
    with torch.no_grad(), qwen3_parity.record(model, case, path=folder / "mine.pb", taps=taps) as recording:
        cache = DynamicCache()
        for number, step in enumerate(case.steps):
            if number == begin:
                model.config.get_text_config().sliding_window = length
            model(**step, past_key_values=cache)
    return read(recording.path)


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("by", "says"), [(1, "has {} for {} (sliding_window)"), (10**5, "without an end")])
def test_another_window_is_named_by_the_first_step_though_later_ones_read_keys_that_no_cache_has(
    by: int, says: str, level: str, tmp_path: Path
) -> None:
    golden = golden_of(NAME)
    window = int(re.search(r'"sliding_window": (\d+)', golden.graph.config)[1])  # type: ignore[index]
    every = with_window(window + by, tmp_path)
    taken = [item for item in every if LEVELS[level].fullmatch(item.info.name)]
    diagnosis = diagnose(golden, replace(every, tensors=taken), weights_of(golden, CHECKPOINTS), work=WORK[level])
    every_name = diagnosis.faults[0].explanations  # of 5 tokens all are within a window of 5, and of any longer one
    assert {each.name for each in every_name} == {"edit.constant"}
    assert any(says.format(window + by, window) in each.says for each in every_name)
    assert "in later steps it reads keys that the reference's cache no longer has" in every_name[0].says
    assert every_name[0].whole == every_name[0].of == len(diagnosis.faults[0].fault.wrong)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("by", "says"), [(1, "reads one key more than its window has"), (10**5, "reads every key")])
def test_a_window_that_decode_steps_alone_do_not_have_is_named(by: int, says: str, level: str, tmp_path: Path) -> None:
    golden = golden_of(NAME)
    window = int(re.search(r'"sliding_window": (\d+)', golden.graph.config)[1])  # type: ignore[index]
    every = with_window(window + by, tmp_path, begin=1)
    taken = [item for item in every if LEVELS[level].fullmatch(item.info.name)]
    diagnosis = diagnose(golden, replace(every, tensors=taken), weights_of(golden, CHECKPOINTS), work=WORK[level])
    best = diagnosis.faults[0].explanations[0]
    assert best.says.startswith(says) and "attn_weights + attention_mask" in best.fix
    assert best.whole == best.of == len(diagnosis.faults[0].fault.wrong)
