"""A recording says which module and line of the user's own code makes each tap, and a diagnosis repeats it."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import plain_qwen3
import pytest
from click.testing import CliRunner
from graph_goldens import STEPS, golden_of, inputs, moe
from plain_qwen3 import Mixer, Norm, PlainQwen3
from test_wire_models import PLAIN
from torch import nn

import qwen3_parity
from qwen3_golden import pb, read, write
from qwen3_golden.origins import Origin, origin_of, written
from qwen3_parity import Case
from qwen3_parity.cli import main
from qwen3_parity.recording.origins import Lines

FILE = "plain_qwen3.py"
SOURCE = inspect.getsource(plain_qwen3).splitlines()
HOSTILE = "a\x1b[2J\n<script>alert(1)</script>"


def line(text: str) -> int:
    """Where the model's source has a text that stands there once."""
    (number,) = [number for number, row in enumerate(SOURCE, 1) if text in row]
    return number


@pytest.fixture(scope="module")
def case() -> Case:
    return qwen3_parity.golden("decoder/plain")


@pytest.fixture(scope="module")
def wrong(case: Case, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a model that pairs neighbours in RoPE."""
    assert case.checkpoint
    model, path = PlainQwen3(case.checkpoint, interleaved=True), tmp_path_factory.mktemp("own") / "wrong.pb"
    with qwen3_parity.record(model, case, PLAIN, path):
        model(case.inputs["input_ids"])
    return path


def origins(path: Path, taps: Iterable[str]) -> list[Origin | None]:
    run = read(path).run
    return [origin_of(run, f"decoder.layers.2.{tap}") for tap in taps]


def test_a_forward_of_ones_own_is_where_it_begins_a_librarys_where_it_is_called(wrong: Path) -> None:
    norm, mixer = (inspect.getsourcelines(layer.forward)[1] for layer in (Norm, Mixer))
    assert origins(wrong, ["merged_attn.q_norm", "post_attention_layernorm"]) == [
        Origin("blocks.2.mix.qn", FILE, norm),
        Origin("blocks.2.n2", FILE, norm),
    ]
    fused, projected = line("qkv = self.wqkv(x)"), line("return self.wo(out")
    assert origins(wrong, ["merged_attn.k_proj", "merged_attn.o_proj"]) == [
        Origin("blocks.2.mix.wqkv", FILE, fused),
        Origin("blocks.2.mix.wo", FILE, projected),
    ]
    assert mixer < fused < projected


def test_what_a_call_of_attention_shows_is_of_the_forward_that_calls_it(wrong: Path) -> None:
    call = Origin("blocks.2.mix", FILE, line("F.scaled_dot_product_attention("))
    assert origins(wrong, ["merged_attn.q_rope", "merged_attn.context"]) == [call, call]


def test_what_a_module_is_given_is_of_the_line_that_calls_it(wrong: Path) -> None:
    assert origins(wrong, ["attn_residual"]) == [Origin("blocks.2.n2", FILE, line("x += self.ffn(self.n2(x))"))]


def test_layers_stand_there_once_and_no_path_leads_out_of_a_folder(wrong: Path) -> None:
    run = read(wrong).run
    assert [row.tap for row in run.origin] == sorted({tap for tap in run.materialised if not tap.startswith("input.")})
    assert {row.file for row in run.origin} == {FILE} and sum(row.ByteSize() for row in run.origin) < 2500


def test_the_same_run_is_the_same_bytes(case: Case, wrong: Path, tmp_path: Path) -> None:
    assert case.checkpoint
    model = PlainQwen3(case.checkpoint, interleaved=True)
    with qwen3_parity.record(model, case, PLAIN, tmp_path / "again.pb"):
        model(case.inputs["input_ids"])
    assert (tmp_path / "again.pb").read_bytes() == wrong.read_bytes()


def test_a_diagnosis_says_it_in_text_json_and_page(wrong: Path, tmp_path: Path) -> None:
    said = f"{FILE}:{line('F.scaled_dot_product_attention(')}, blocks.0.mix"
    text = CliRunner().invoke(main, ["diagnose", str(wrong)])
    assert f"  your {said}\n" in text.output and "rope.interleaved" in text.output
    diagnosis = json.loads(CliRunner().invoke(main, ["diagnose", str(wrong), "--json"]).stdout)
    number = line("F.scaled_dot_product_attention(")
    assert diagnosis["faults"][0]["origin"] == {"module": "blocks.0.mix", "file": FILE, "line": number}
    page = tmp_path / "page.html"
    assert CliRunner().invoke(main, ["report", str(wrong), "--out", str(page)]).exit_code == 1
    assert page.read_text().count(f"<code>{said}</code>") == 1


@pytest.mark.slow
def test_a_folders_diagnosis_says_it_too(wrong: Path, tmp_path: Path) -> None:
    (tmp_path / "decoder").mkdir()
    shutil.copy(wrong, tmp_path / "decoder" / "plain.pb")
    said = f"{FILE}:{line('F.scaled_dot_product_attention(')}, blocks.0.mix"
    assert f"  your {said}\n" in CliRunner().invoke(main, ["diagnose", str(tmp_path)]).output
    diagnosis = json.loads(CliRunner().invoke(main, ["diagnose", str(tmp_path), "--json"]).stdout)
    assert [mistake["origins"] for mistake in diagnosis["mistakes"]] == [[said]]


@pytest.mark.slow
def test_nothing_is_said_where_no_line_is_known(wrong: Path, tmp_path: Path) -> None:
    recording = read(wrong)
    run = pb.Run()
    run.CopyFrom(recording.run)
    run.ClearField("origin")
    write(tmp_path / "dump.pb", replace(recording, run=run))
    text = CliRunner().invoke(main, ["diagnose", str(tmp_path / "dump.pb")])
    assert "rope.interleaved" in text.output and f"{FILE}:" not in text.output and "  your " not in text.output
    diagnosis = json.loads(CliRunner().invoke(main, ["diagnose", str(tmp_path / "dump.pb"), "--json"]).stdout)
    assert [fault["origin"] for fault in diagnosis["faults"]] == [None] * len(diagnosis["faults"]) != []


def test_a_hostile_origin_is_shown_and_obeyed_by_nobody(wrong: Path, tmp_path: Path) -> None:
    recording, path, page = read(wrong), tmp_path / "hostile.pb", tmp_path / "page.html"
    run = pb.Run()
    run.CopyFrom(recording.run)
    for row in run.origin:
        row.module, row.file = HOSTILE, f"/srv/somebody/{HOSTILE}.py"
    write(path, replace(recording, run=run))
    text = CliRunner().invoke(main, ["diagnose", str(path)]).output
    assert "your script>.py:" in text and "\x1b" not in text and "somebody" not in text
    assert CliRunner().invoke(main, ["report", str(path), "--out", str(page)]).exit_code == 1
    assert HOSTILE not in page.read_text() and "<script>alert" not in page.read_text()


def test_a_file_is_named_below_the_folder_in_which_one_runs_or_by_its_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "project" / "models" / "mine.py"
    file.parent.mkdir(parents=True)
    file.write_text("import torch\n\n\nclass Mine(torch.nn.Module):\n    def forward(self, x):\n        return x\n")
    names: dict[str, type[nn.Module]] = {}
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "mine"}, names)
    lines = {tmp_path / "project": "models/mine.py", tmp_path: "project/models/mine.py", Path("/usr"): "mine.py"}
    for folder, shown in lines.items():
        monkeypatch.chdir(folder)
        assert Lines().of_module(names["Mine"](), "x") == Origin("x", shown, 5)
    file.unlink()
    monkeypatch.chdir(tmp_path / "project" / "models")
    assert Lines().of_module(names["Mine"](), "x") == Origin("x")


def test_layers_of_different_lines_stand_there_one_by_one() -> None:
    alike = {f"decoder.layers.{layer}.norm": Origin(f"h.{layer}.n", "a.py", 1) for layer in range(3)}
    two = {f"decoder.layers.{layer}.mlp": Origin(f"h.{layer}.mlp", "a.py", 5 + layer) for layer in range(2)}
    run = pb.Run(origin=written({**alike, **two, "logits": Origin("")}))
    assert [row.tap for row in run.origin] == [
        *("decoder.layers.{layer}.norm", "decoder.layers.0.mlp", "decoder.layers.1.mlp", "logits")
    ]
    assert {tap: origin_of(run, tap) for tap in (*alike, *two)} == {**alike, **two}
    assert origin_of(run, "logits") == Origin("") and origin_of(run, "decoder.norm") is None


def test_a_golden_with_a_graph_has_them_too(tmp_path: Path) -> None:
    case = qwen3_parity.golden(golden_of(moe(), tmp_path / "moe.pb", inputs(), STEPS))
    assert not read(tmp_path / "moe.pb").run.origin
    model = moe("sdpa")
    with qwen3_parity.record(model, case, path=tmp_path / "run.pb") as recording:
        model(**case.inputs)
    run = read(recording.path).run
    taps = [f"model.layers.1.self_attn.{tap}" for tap in ("q_proj", "query", "q_norm")]
    q_proj, query, q_norm = (origin_of(run, tap) for tap in taps)
    assert q_proj and query and q_norm
    assert [q_proj.module, query.module, q_norm.module] == [taps[0], taps[0].removesuffix(".q_proj"), taps[2]]
    assert q_proj.file == "transformers/models/qwen3_moe/modeling_qwen3_moe.py" == query.file == q_norm.file
    norm = type(model.get_submodule(taps[2]))
    assert q_norm.line == inspect.getsourcelines(norm.forward)[1] and q_proj.line < query.line
