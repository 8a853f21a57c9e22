"""Numbers of half precision where a reference in bfloat16 has float32 (a stream, a state) are no parity.

It runs `slices.judge`, too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import Array, Recording, pb, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.graph_weights import weights_in
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.slices.judge import in_few_bits, narrowed
from qwen3_parity.slices.network import network

NUMBERS = np.random.Generator(np.random.PCG64(0)).normal(size=(6, 40)).astype(np.float32)


def to_bfloat16(x: Array) -> Array:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return np.asarray((bits + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32))


def test_numbers_that_were_rounded_are_not_so_by_chance() -> None:
    assert in_few_bits(to_bfloat16(NUMBERS), NUMBERS) and in_few_bits(NUMBERS.astype(np.float16), NUMBERS)
    assert not in_few_bits(NUMBERS, NUMBERS)
    assert not in_few_bits(to_bfloat16(NUMBERS), to_bfloat16(NUMBERS))  # the golden's are such, too
    assert not in_few_bits(to_bfloat16(NUMBERS[:1, :2]), NUMBERS)  # two numbers may be by chance


def rounded(golden: Recording, *endings: str) -> Recording:
    """The golden as an engine that rounds the taps whose names end so to bfloat16."""
    chosen = [item.info.name.endswith(endings) and item.info.dtype == pb.F32 for item in golden]
    items = [
        replace(item, array=to_bfloat16(item.array)) if half else item
        for item, half in zip(golden, chosen, strict=True)
    ]
    return replace(golden, tensors=items)


@pytest.mark.slow
def test_a_stream_and_a_state_that_the_reference_has_in_float32_are_not_rounded(tmp_path: Path) -> None:
    folder = tmp_path / "mamba2"
    captured = (
        ("capture", "--tiny", "mamba2", "--out", str(folder)),
        (
            *("capture", "--model", str(folder), "--ids", "5,6,7,8,9,10,11,12;13,14,15,16,17,18,19,20", "--steps", "2"),
            *("--dtype", "bfloat16", "--out", str(folder / "half.pb")),
        ),
    )
    for arguments in captured:
        assert CliRunner().invoke(main, arguments).exit_code == 0
    golden = read(folder / "half.pb", digests=True)
    weights = weights_in(golden, folder)
    graph = network(golden, golden, weights)
    norm = golden["backbone.norm_f", 0]
    assert norm.info.dtype == pb.F32 and narrowed(graph, graph.value(norm)) == "bfloat16"
    for ending, wrong in (("layers.0", True), ("recurrent_states", True), (".norm_f", False), (".mixer.norm", False)):
        endings = (
            (ending, "backbone") if ending == ".norm_f" else (ending,)
        )  # what the module around gives is that, too
        candidate = rounded(golden, *endings)
        assert check(golden, candidate, weights).word == ("divergence" if wrong else "parity"), ending
    (fault,) = diagnose(golden, rounded(golden, "recurrent_states"), weights).faults
    assert fault.name == "fit.grid" and fault.fault.place.endswith("recurrent_states")
