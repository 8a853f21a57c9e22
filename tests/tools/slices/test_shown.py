"""`qwen3-parity show` of a golden with a graph, and of one whose graph cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from drawn import message

from qwen3_golden import Recording, Writer, pb, tensor, write
from qwen3_parity.cli import main


def golden(path: Path, graph: pb.Graph, producer: str = "qwen3_reference") -> Path:
    case = pb.Case(name="graph/tiny", mode=pb.GRAPH, steps=[2])
    run = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.EAGER)
    recording = Recording(
        case, pb.Provenance(producer=producer), run, [tensor("y", np.ones((2, 4), "f4"))], graph=graph
    )
    write(path, recording)
    return path


def shown(path: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["show", str(path), *options])
    return result.exit_code, result.output


def test_it_says_the_architecture_the_sizes_and_the_taps(tmp_path: Path) -> None:
    code, text = shown(golden(tmp_path / "g.pb", message(5)))
    flat = " ".join(text.split())
    assert code == 0
    assert "graph of TinyModel: 22 nodes of 5 ops on 5 lines (6 stored in 3 blocks, 7 calls," in flat
    assert "of x and 5 parameters; 1 taps" in flat
    assert "y 0 f32 2×4" in flat


def test_a_program_reads_the_same(tmp_path: Path) -> None:
    code, text = shown(golden(tmp_path / "g.pb", message(5)), "--json")
    graph = json.loads(text)["graph"]
    assert code == 0 and (graph["architecture"], graph["nodes"], graph["inputs"]) == ("TinyModel", 22, ["x"])


def test_what_a_port_recorded_without_the_graph_is_shown_too(tmp_path: Path) -> None:
    whole = golden(tmp_path / "whole.pb", message(), "a port")
    path = tmp_path / "port.pb"
    with Writer(path, schema_minor=6) as writer:
        writer.add(tensor("y", np.ones((2, 4), "f4")))
        case = pb.Case(name="graph/tiny", mode=pb.GRAPH, steps=[2])
        writer.finish(case, pb.Provenance(producer="a port"), pb.Run())
    assert shown(path)[0] == shown(whole)[0] == 0
    assert "graph of" not in shown(path)[1] and "graph of" in shown(whole)[1]


@pytest.mark.parametrize("verb", [[], ["--json"]])
def test_a_graph_that_cannot_be_is_one_sentence_and_exit_code_2(verb: list[str], tmp_path: Path) -> None:
    graph = message()
    graph.op.append("os.system")
    path = golden(tmp_path / "g.pb", graph)
    code, text = shown(path, *verb)
    assert code == 2 and "os.system" in text and "Traceback" not in text
    assert "ops that nothing here computes" in " ".join(text.split())


def test_a_name_that_a_terminal_would_obey_is_shown_escaped(tmp_path: Path) -> None:
    graph = message()
    graph.architecture = "\x1b[2JTiny"
    code, text = shown(golden(tmp_path / "g.pb", graph))
    assert code == 0 and "\x1b[2J" not in text and "Tiny" in text
