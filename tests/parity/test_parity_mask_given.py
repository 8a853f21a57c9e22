"""A causal case whose mask is given whole: a port that makes its own, or adds order to it, is caught at the mask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pattern_of, read
from qwen3_parity import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.recording.ours.network import factory
from qwen3_parity.recording.record import record

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "mask_4d.pb")
MASK = "input.decoder_mask"
Change = Callable[[dict[str, Array]], object]


def ignored(inputs: dict[str, Array]) -> None:
    del inputs[MASK]


def joined_with_order(inputs: dict[str, Array]) -> None:
    inputs[MASK] = np.tril(inputs[MASK])


def of_the_first_row(inputs: dict[str, Array]) -> None:
    inputs[MASK] = inputs[MASK] & (np.arange(8) != 3)


def recorded(change: Change, path: Path) -> Recording:
    def build(*arguments: Any) -> Any:
        plain = factory()(*arguments)

        class Wrong:
            producer, run, parameters = plain.producer, plain.run, plain.parameters

            def __call__(self, case: Any, inputs: Mapping[str, Array], *more: Any) -> None:
                changed = dict(inputs)
                change(changed)
                plain(case, changed, *more)

        return Wrong()

    record(GOLDEN, path, build)
    return read(path)


def test_ours_takes_it_as_it_is(tmp_path: Path) -> None:
    verdicts = check(GOLDEN, recorded(lambda _inputs: None, tmp_path / "c.pb"), weights_of(GOLDEN, CHECKPOINTS, None))
    assert verdicts.exit_code == 0 and verdicts.word == "parity"


@pytest.mark.parametrize("change", [ignored, joined_with_order, of_the_first_row])
def test_another_mask_is_caught_and_blamed_on_the_mask(change: Change, tmp_path: Path) -> None:
    candidate = recorded(change, tmp_path / "c.pb")
    weights = weights_of(GOLDEN, CHECKPOINTS, None)
    assert check(GOLDEN, candidate, weights).exit_code == 1
    faults = diagnose(GOLDEN, candidate, weights).faults
    assert {pattern_of(place) for fault in faults for place in fault.places} == {
        "decoder.layers.{layer}.merged_attn.mask"
    }
