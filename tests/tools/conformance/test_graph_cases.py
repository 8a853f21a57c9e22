"""Fresh cases of any network: from a golden's graph, other lengths and paddings, judged as its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read, tensor, write
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.conformance.graph_cases import GraphCase, graph_cases, source_of
from qwen3_parity.conformance.graph_golden import DRAWN, free_graph
from qwen3_parity.conformance.graph_inputs import Room, Rows, inputs_of, room_of
from qwen3_parity.conformance.run import GOLDEN
from qwen3_parity.recording.any_model import capture_model
from qwen3_reference.graph.load import load
from qwen3_reference.graph.tiny import tiny_model
from qwen3_reference.quiet import quiet

ROWS = [[11, 12, 13, 14, 15, 16], [21, 22, 23]]
SOME = (
    Rows((9, 4, 6), (), "left", few=False),
    Rows((5, 3), (), "right", few=True),
    Rows((7,), (), "right", few=False),
)
"""Lengths and sides that no golden here has."""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a family's checkpoint and golden, made when it is first asked for."""

    def capture(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind)
        with quiet():
            tiny_model(kind).save_pretrained(folder)
        capture_model(str(folder), folder / "golden.pb", ROWS, floors=False)
        return folder

    return cache(capture)


@pytest.fixture
def moe(captured: Callable[[str], Path]) -> Path:
    return captured("qwen3_moe")


@pytest.fixture
def bert(captured: Callable[[str], Path]) -> Path:
    return captured("bert")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["qwen3_moe", "bert"])
def test_hugging_faces_own_is_at_parity_on_fresh_cases(
    kind: str, captured: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = captured(kind)
    source = source_of(folder / "golden.pb")
    model = load(folder)
    for number, rows in enumerate(SOME if kind == "qwen3_moe" else SOME[1:]):
        GraphCase(folder / "golden.pb", rows, 3).write(tmp_path / str(number))
        path = tmp_path / str(number) / GOLDEN
        golden = read(path, digests=True)
        case = qwen3_parity.golden(path)
        assert case.inputs["input_ids"].shape == (len(rows.lengths), max(rows.lengths))
        assert case.inputs["attention_mask"].sum(1).tolist() == list(rows.lengths)
        with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / f"{number}.pb"):
            model(**case.inputs)
        verdicts = check(golden, tmp_path / f"{number}.pb", weights_of(golden, path.parent))
        assert verdicts.word == "parity" and not verdicts.wrong_alone and verdicts.judged == "run and ops"
        assert {flag.key: flag.value for flag in golden.provenance.flags}[DRAWN] == "from the graph of golden"
        assert [item.info.name for item in golden] == [item.info.name for item in source.golden]


@pytest.mark.slow
def test_a_fresh_case_has_the_mistakes_of_its_network_shown(moe: Path, tmp_path: Path) -> None:
    GraphCase(moe / "golden.pb", SOME[0], 3).write(tmp_path / "case")
    golden, model = read(tmp_path / "case" / GOLDEN, digests=True), load(moe)
    for layer in model.model.layers:
        layer.input_layernorm.variance_epsilon = 1e-4
    case = qwen3_parity.golden(tmp_path / "case" / GOLDEN)
    with torch.no_grad(), qwen3_parity.record(model, case, path=tmp_path / "wrong.pb"):
        model(**case.inputs)
    verdicts = check(golden, tmp_path / "wrong.pb", weights_of(golden, tmp_path / "case"))
    assert set(verdicts.wrong_alone) == {f"model.layers.{number}.input_layernorm" for number in range(2)}


@pytest.mark.slow
def test_ids_masks_and_positions_are_drawn_as_the_golden_has_them(moe: Path, bert: Path) -> None:
    golden = source_of(moe / "golden.pb").golden
    limits = room_of(golden)
    assert limits == Room(longest=40, sides=("left", "right"), masked=True, merged=False, vocabulary=61, pad=0)
    inputs = inputs_of(golden, limits, SOME[0], 7)
    assert {name: array.dtype for name, array in inputs.items()} == {
        name: golden[f"input.{name}", 0].array.dtype for name in inputs
    }
    mask = inputs["attention_mask"]
    assert mask[1].tolist() == [0] * 5 + [1] * 4 and inputs["position_ids"][1].tolist() == [0] * 6 + [1, 2, 3]
    assert not inputs["input_ids"][mask == 0].any() and len(np.unique(inputs["input_ids"])) > 10
    assert np.array_equal(inputs_of(golden, limits, SOME[0], 7)["input_ids"], inputs["input_ids"])
    assert inputs["input_ids"].tolist() != inputs_of(golden, limits, SOME[0], 8)["input_ids"].tolist()
    assert set(np.unique(inputs_of(golden, limits, SOME[1], 7)["input_ids"])) <= set(range(4))
    assert room_of(source_of(bert / "golden.pb").golden).sides == ("right",)


def test_a_golden_of_fixed_sizes_of_steps_and_without_its_checkpoint_is_refused(tmp_path: Path) -> None:
    path = GOLDEN_ROOT / "cases" / "model" / "embedding.pb"
    golden = read(path)
    assert free_graph(golden).taps
    (tmp_path / "alone.pb").write_bytes(path.read_bytes())
    with pytest.raises(ParityError, match="the checkpoint of the golden's model is not there"):
        source_of(tmp_path / "alone.pb")
    graph = pb.Graph.FromString(golden.graph.SerializeToString())
    for block in graph.block:
        for node in block.node:
            node.shape[:] = [size or 7 for size in node.shape]
    write(tmp_path / "fixed.pb", replace(golden, graph=graph))
    with pytest.raises(ParityError, match=r"(?s)its graph is of this case's sizes.*6 alone"):
        graph_cases([tmp_path / "fixed.pb"])
    steps = pb.Case.FromString(golden.case.SerializeToString())
    steps.steps[:] = [5, 1]
    write(tmp_path / "steps.pb", replace(golden, case=steps))
    with pytest.raises(ParityError, match="one forward"):
        source_of(tmp_path / "steps.pb")
    embeds = tensor("input.inputs_embeds", np.ones((2, 6, 24), np.float32), op="input")
    with pytest.raises(ParityError, match="no other inputs can be drawn"):
        room_of(replace(golden, tensors=[*golden.tensors, embeds]))


PORT = """
import sys, tempfile
from pathlib import Path
import numpy as np
from qwen3_golden import Recording, pb, read, tensor, write
from qwen3_parity.slices.stored import graph_of
from qwen3_spec.arithmetic import Arithmetic
from qwen3_spec.aten import Numbers

FLOAT32 = Numbers(Arithmetic(np.float32, np.matmul, lambda x: np.asarray(np.sum(x, axis=-1, dtype=np.float32))))

def answer(request):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case.pb"
        file.write_bytes(request.recording)
        golden = read(file)
        graph = graph_of(golden.graph, file)
        arrays = {item.info.name.partition(".")[2]: item.array for item in golden}
        if WRONG:
            arrays["attention_mask"] = np.ones_like(arrays["attention_mask"])
        values = graph.run(graph.leaf_values(arrays), numbers=FLOAT32)
        taps = [item for item in golden if item.info.name.startswith("input.")]
        for (name, step), value in graph.taps.items():
            made = np.asarray(values[value])
            made = made.astype(np.float32) if made.dtype.kind == "f" else made
            taps.append(tensor(name, np.ascontiguousarray(made), step=step))
        said = pb.Run(arithmetic=pb.ARITHMETIC_F32, backend=pb.FOREIGN)
        write(file, Recording(golden.case, pb.Provenance(producer="port"), said, taps))
        return pb.ConformanceAnswer(id=request.id, recording=file.read_bytes())

source, sink = sys.stdin.buffer, sys.stdout.buffer
while size := source.read(4):
    request = pb.ConformanceRequest.FromString(source.read(int.from_bytes(size, "little")))
    message = answer(request).SerializeToString()
    sink.write(len(message).to_bytes(4, "little") + message)
    sink.flush()
"""


@pytest.fixture
def asked(moe: Path, tmp_path: Path) -> Callable[[bool, int], tuple[int, str]]:
    def ask(wrong: bool, count: int) -> tuple[int, str]:
        port = tmp_path / "port.py"
        port.write_text(f"WRONG = {wrong}\n{PORT}")
        words = ["conformance", "--case", str(moe / "golden.pb"), "--fresh", str(count), "--seed", "5"]
        done = CliRunner().invoke(main, [*words, "--save", str(tmp_path / "save"), "--", sys.executable, str(port)])
        return done.exit_code, done.output

    return ask


@pytest.mark.slow
def test_a_port_is_asked_for_fresh_cases_over_the_pipe(
    asked: Callable[[bool, int], tuple[int, str]], tmp_path: Path
) -> None:
    code, said = asked(False, 2)
    assert code == 0 and "2 judged against the golden's graph" in said, said
    code, said = asked(True, 2)
    assert code == 1 and "divergence" in said, said
    saved = sorted((tmp_path / "save" / "fresh").glob("*/golden.pb"))
    assert saved and (saved[0].parent / "checkpoint").is_symlink()
    golden: Recording = read(saved[0], digests=True)
    verdicts = check(golden, saved[0].parent / "answer.pb", weights_of(golden, saved[0].parent))
    assert verdicts.word == "divergence"
