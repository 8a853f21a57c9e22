"""What a port is asked: a committed case with everything that it needs, and nothing that it is to compute."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read, write
from qwen3_golden.writer import tensor
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_at_hand
from qwen3_parity.judge.match import GIVEN
from qwen3_parity.text.inputs import inputs_of


def is_asked(golden: Path) -> bool:
    """Whether a port is asked for a golden's case unbidden: of a model with a graph it would have to know that one."""
    return read(golden).case.mode != pb.GRAPH


def request_for(name: str, goldens: Mapping[str, Path]) -> pb.ConformanceRequest:
    """The request for a committed case, with the case that runs before it; its id is not set."""
    case = read(goldens[name]).case
    request = pb.ConformanceRequest(recording=bare_golden(goldens[name]))
    if case.after:
        request.prior = bare_golden(goldens[case.after])
    if case.mode == pb.TOKENIZATION:
        request.tokenizer = (GOLDEN_ROOT / "tokenizers" / f"{case.checkpoint[0].name}.pb").read_bytes()
    return request


def bare_golden(path: Path) -> bytes:
    """A golden's file without what is to be computed, with every parameter of its case's checkpoint.

    Of mode GRAPH with its graph, which has the network's config.json and tells the taps' names.
    """
    golden = read(path)
    if golden.case.mode == pb.PLUMBING:
        return path.read_bytes()
    tables = ("cos", "sin")
    tensors = [t for t in golden if t.info.name.startswith(GIVEN)]
    tensors += [
        tensor(t.info.name, t.array, step=t.info.step, dtype=t.info.dtype, axes=t.info.axes, op=t.info.op)
        for t in golden
        if t.info.op in tables and not t.info.name.startswith(("output.", *GIVEN))
    ]
    weights = weights_at_hand(golden, checkpoints_of(path)) or {}
    tensors += [tensor(f"parameter.{name}", array) for name, array in weights.items()]
    texts = inputs_of(golden.tokenization)
    bare = Recording(golden.case, golden.provenance, golden.run, tensors, tokenization=texts, graph=golden.graph)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "request.pb", bare)
        return (Path(folder) / "request.pb").read_bytes()
