"""A golden of mode GRAPH carries its graph, no other recording does, and its case says what a graph needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import ParityError, Recording, Writer, minor_of, pb, read, tensor, write
from qwen3_golden.rules import MODEL, REFERENCE

GRAPH = pb.Graph(architecture="TinyForCausalLM", tap=[pb.GraphTap(name="logits", step=1)])


def recording(producer: str = REFERENCE, graph: pb.Graph = GRAPH, **fields: object) -> Recording:
    case = pb.Case(name="graph/tiny", mode=pb.GRAPH, steps=[3, 1])
    case.checkpoint.add(role=MODEL, name="tiny", sha256=bytes(32))
    for name, value in fields.items():
        case.ClearField(name)  # type: ignore[arg-type]
        if isinstance(value, list):
            getattr(case, name).extend(value)
        elif value is not None:
            setattr(case, name, value)
    tensors = [tensor("logits", np.zeros((1, 3), "f4"), step=step) for step in (0, 1)]
    return Recording(case, pb.Provenance(producer=producer), pb.Run(), tensors, graph=graph)


def test_a_graph_is_read_as_it_was_written(tmp_path: Path) -> None:
    write(tmp_path / "g.pb", recording())
    assert minor_of(recording().case) == 6
    assert read(tmp_path / "g.pb").graph == GRAPH


def test_a_case_without_a_checkpoint_is_one_whose_weights_are_at_hand(tmp_path: Path) -> None:
    write(tmp_path / "g.pb", recording(checkpoint=[]))
    assert not read(tmp_path / "g.pb").case.checkpoint


WRONG: dict[str, Callable[[], Recording]] = {
    "a graph stands in a case of another mode": lambda: recording(mode=pb.PLUMBING),
    "config": lambda: with_config(recording()),
    "does not say its steps": lambda: recording(steps=[]),
    "does not say its steps ": lambda: recording(steps=[3, 0]),
    "the checkpoints of a case of mode GRAPH are not its model's": lambda: recording(
        checkpoint=[pb.Checkpoint(role="decoder", name="tiny")]
    ),
    "are not its model's": lambda: recording(checkpoint=[pb.Checkpoint(role=MODEL, name=name) for name in "ab"]),
    "a tap of the graph is of a step that the case does not have": lambda: recording(steps=[4]),
}


def with_config(changed: Recording) -> Recording:
    changed.case.config.num_hidden_layers = 1
    return changed


@pytest.mark.parametrize("rule", WRONG)
def test_what_cannot_be_is_not_written_and_not_read(rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParityError, match=rule.strip()):
        write(tmp_path / "g.pb", WRONG[rule]())
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("qwen3_golden.writer.check_metadata", lambda *_: None)
    write(tmp_path / "g.pb", WRONG[rule]())
    with pytest.raises(ParityError, match=rule.strip()):
        read(tmp_path / "g.pb")


@pytest.mark.parametrize("producer", [REFERENCE, "a port"])
def test_a_golden_needs_its_graph_and_a_candidate_does_not(producer: str, tmp_path: Path) -> None:
    whole = recording(producer)
    with Writer(tmp_path / "g.pb", schema_minor=6) as writer:
        for item in whole:
            writer.add(item)
        if producer == REFERENCE:
            with pytest.raises(ParityError, match="a golden of mode GRAPH has no graph"):
                writer.finish(whole.case, whole.provenance, whole.run)
        else:
            writer.finish(whole.case, whole.provenance, whole.run)
    assert (tmp_path / "g.pb").exists() == (producer != REFERENCE)
