"""No parameter is dead: whichever is disturbed, the taps of its own op change first, in every channel that it feeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from qwen3_golden import GOLDEN_ROOT, Array, read, table
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.recording.ours.network import EncoderDecoder, factory
from qwen3_parity.recording.record import inputs_of, tables_of

CASE = read(GOLDEN_ROOT / "cases" / "encdec" / "ragged.pb")
DIRECTORIES = checkpoint_directories(CASE.case, GOLDEN_ROOT / "checkpoints")
Taps = dict[tuple[str, int], Array]


def build() -> EncoderDecoder:
    torch.set_num_threads(1)
    runner = factory()(CASE.case, DIRECTORIES)
    assert isinstance(runner, EncoderDecoder)
    return runner


@pytest.fixture(scope="module")
def runner() -> EncoderDecoder:
    return build()


def taps_of(runner: EncoderDecoder) -> Taps:
    """Everything that a run computes, in order."""
    taps: Taps = {}
    given = inputs_of(CASE) | tables_of(CASE)

    def tap(name: str, step: int, value: torch.Tensor | Array) -> None:
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else value
        taps[name, step] = array.copy()

    with torch.no_grad():
        runner(CASE.case, given, tap, lambda name: True)
    return taps


@pytest.fixture(scope="module")
def undisturbed(runner: EncoderDecoder) -> Taps:
    return taps_of(runner)


def readers(name: str) -> set[str]:
    """The taps whose op reads a parameter, from the table."""
    layers = range(CASE.case.config.num_hidden_layers)
    return {
        row.pattern.replace("{layer}", str(layer))
        for row in table()
        if not row.pattern.startswith("gradient.")
        for layer in layers
        if name in (one.replace("{layer}", str(layer)) for one in row.parameters)
    }


def changed(one: Taps, two: Taps) -> Iterator[str]:
    """The names of the taps that differ, in order of execution."""
    assert list(one) == list(two)
    for key, array in one.items():
        if not np.array_equal(array, two[key]):
            yield key[0]


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("name", sorted(build().parameters))
def test_a_disturbed_parameter_changes_its_own_op_first(name: str, runner: EncoderDecoder, undisturbed: Taps) -> None:
    parameter = runner.parameters[name]
    shared = [n for n, p in runner.parameters.items() if p.data_ptr() == parameter.data_ptr()]
    own = {tap for one in shared for tap in readers(one)}
    before = parameter.detach().clone()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        parameter.mul_(1 + 0.1 * torch.rand(parameter.shape, generator=noise))
    try:
        disturbed = taps_of(runner)
    finally:
        with torch.no_grad():
            parameter.copy_(before)
    found = list(changed(undisturbed, disturbed))
    assert readers(name) <= set(found)
    assert found[0] in own, f"{found[0]} comes before {sorted(own)}"
    for tap in readers(name) - {"encoder.embed_tokens", "decoder.embed_tokens"}:
        moved = undisturbed[tap, 0] != disturbed[tap, 0]
        assert moved.reshape(-1, moved.shape[-1]).any(axis=0).all(), f"{tap}: a channel that nothing feeds"


def test_every_tensor_of_the_checkpoints_is_a_parameter_that_is_disturbed(runner: EncoderDecoder) -> None:
    assert set(runner.parameters) == {one.name for one in CASE.parameters}
    assert all(readers(name) for name in runner.parameters)


def test_a_parameter_that_nothing_reads_would_be_found(undisturbed: Taps) -> None:
    dead = build()
    norm = dead.model.encoder.layers[1].self_attn.q_norm
    norm.forward = lambda x: x  # type: ignore[method-assign]
    without = taps_of(dead)
    with torch.no_grad():
        norm.weight.mul_(2)
    assert not list(changed(without, taps_of(dead)))
    assert list(changed(undisturbed, without))
