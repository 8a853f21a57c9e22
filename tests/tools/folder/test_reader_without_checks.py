"""A port whose reader parses and checks nothing does not reach the level `reader`, by files and over a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, damaged, read
from qwen3_parity.cli import main
from qwen3_parity.conformance.requests import request_for
from qwen3_parity.folder.levels import cases_of
from qwen3_parity.judge.candidates import golden_names

CASES = GOLDEN_ROOT / "cases"
READER = cases_of(["reader"], list(golden_names()))
PORT = f"""
import hashlib, importlib.util, pathlib, sys

spec = importlib.util.spec_from_file_location("golden_pb2", {str(GOLDEN_ROOT / "qwen3_golden" / "golden_pb2.py")!r})
pb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pb)
how = sys.argv[1]


def refuses(content):
    try:
        read = pb.Recording.FromString(content)
    except Exception:
        return True
    return how == "refuses everything" or (how == "checks the header" and read.header.magic != "qwen3.golden")


def answer(content):
    golden = pb.Recording.FromString(content)
    out = pb.Recording(case=golden.case, run=golden.run, provenance=pb.Provenance(producer="parses"))
    for info, payload in zip(golden.tensor, golden.payload):
        if golden.case.mode != pb.OP or info.name.startswith("input."):
            out.tensor.append(info)
            out.payload.append(payload)
        if golden.case.mode == pb.OP and info.name.startswith("input."):
            name = info.name.replace("input.", "output.")
            said = bytes([refuses(payload)])
            out.tensor.add(name=name, dtype=pb.BOOL, bytes=1, sha256=hashlib.sha256(said).digest())
            out.payload.append(said)
    metadata = pb.Recording()
    metadata.CopyFrom(out)
    metadata.ClearField("payload")
    out.header.magic, out.header.schema_major = "qwen3.golden", 1
    out.end.tensors, out.end.payload_bytes = len(out.tensor), sum(map(len, out.payload))
    out.end.digest = hashlib.sha256(metadata.SerializeToString()).digest()
    return out.SerializeToString()


if len(sys.argv) > 2:
    source, target = map(pathlib.Path, sys.argv[2:])
    for file in sorted(source.glob("plumbing/*.pb")):
        (target / file.name).write_bytes(answer(file.read_bytes()))
while len(sys.argv) == 2 and (size := sys.stdin.buffer.read(4)):
    request = pb.ConformanceRequest.FromString(sys.stdin.buffer.read(int.from_bytes(size, "little")))
    message = pb.ConformanceAnswer(id=request.id, recording=answer(request.recording)).SerializeToString()
    sys.stdout.buffer.write(len(message).to_bytes(4, "little") + message)
    sys.stdout.buffer.flush()
"""
FILES = {one.name: one for one in damaged.files()}
WRONG = {
    "checks nothing": "header_behind_payloads",
    "checks the header": "payload_changed",
    "refuses everything": "newer_minor",
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("port") / "port.py"
    path.write_text(PORT, encoding="utf-8")
    return path


@pytest.mark.parametrize("how", WRONG)
def test_a_folder_by_such_a_reader_does_not_reach_the_level(how: str, port: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, port, how, CASES, tmp_path], check=True)
    assert len(list(tmp_path.glob("*.pb"))) == len(READER)
    done = run("check", tmp_path, "--level", "reader", "--json")
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert [one["reached"] for one in said["levels"] if one["level"] == "reader"] == [False]
    assert [one["case"] for one in said["cases"] if one["verdict"] != "parity"] == ["plumbing/damaged"]
    assert f"output.{WRONG[how]} " in run("check", tmp_path / "damaged.pb", "-v").stdout


@pytest.mark.parametrize("how", WRONG)
def test_such_a_reader_fails_over_a_pipe(how: str, port: Path) -> None:
    done = run("conformance", "--level", "reader", "--", sys.executable, port, how)
    assert done.exit_code == 1 and "plumbing/damaged: divergence: output." in done.stdout


def test_a_request_for_the_files_does_not_bring_the_answer(tmp_path: Path) -> None:
    (tmp_path / "request.pb").write_bytes(request_for("plumbing/damaged", golden_names()).recording)
    assert [item.info.name for item in read(tmp_path / "request.pb")] == [f"input.{name}" for name in FILES]
