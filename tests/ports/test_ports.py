"""The ports, from the golden files alone: compiled, run over the committed set in one process, and judged."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jvm import JAVA, JAVAC

from qwen3_golden import GOLDEN_ROOT, pb, read, tensor, write
from qwen3_parity import check
from qwen3_parity.conformance.port import Limits
from qwen3_parity.conformance.run import conformance

CASES = GOLDEN_ROOT / "cases"
NOT_PORTED = ("classic", "training")
COMMITTED = sorted(path.relative_to(CASES).with_suffix("").as_posix() for path in CASES.rglob("*.pb"))
COMMITTED = [name for name in COMMITTED if not name.startswith("model/")]  # each is another network
CLAIMED = [name for name in COMMITTED if not name.startswith(NOT_PORTED)]
COMPARE = GOLDEN_ROOT.parent / "ports" / "java" / "Compare.java"
LARGEST = max(CASES.rglob("*.pb"), key=lambda path: path.stat().st_size)
NEVER_SHOWN = {"java": (), "cpp": ("scores", "probs")}  # a fused attention has neither
PORTS = (pytest.param("java", marks=pytest.mark.slow), "cpp")  # a minute of two compilers shows what one of them does
each_port = pytest.mark.parametrize("port", PORTS, indirect=True)


def run(port: Any, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*port.command, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def recorded(compiled: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a port's recordings, made when it is first asked for."""

    def record(name: str) -> Path:
        ran = run(compiled(name), "run-all", CASES, out := tmp_path_factory.mktemp("recordings"))
        assert ran.returncode == 0, ran.stderr
        return out

    return cache(record)


@pytest.fixture
def recordings(port: Any, recorded: Callable[[str], Path]) -> Path:
    return recorded(port.name)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("name", CLAIMED)
@each_port
def test_a_port_is_at_parity_at_every_tap_that_it_has(name: str, port: Any, recordings: Path) -> None:
    verdicts = check(CASES / f"{name}.pb", recordings / f"{name}.pb")
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    golden = read(CASES / f"{name}.pb")
    hidden = [t for t in golden if t.info.name.endswith(tuple(f"_attn.{tap}" for tap in NEVER_SHOWN[port.name]))]
    assert verdicts.compared == verdicts.of - len(hidden)


@each_port
def test_a_port_records_what_it_claims_and_nothing_else(port: Any, recordings: Path) -> None:
    written = sorted(path.relative_to(recordings).with_suffix("").as_posix() for path in recordings.rglob("*"))
    assert [name for name in written if "/" in name] == CLAIMED


@each_port
def test_a_case_that_a_port_does_not_have_is_one_line_and_leaves_no_file(port: Any, tmp_path: Path) -> None:
    ran = run(port, "run", CASES / "classic" / "bert.pb", tmp_path / "out.pb")
    assert (ran.returncode, ran.stderr) == (1, "mode CLASSIC_ENCODER\n")
    assert not list(tmp_path.iterdir())


def sealed(message: pb.Recording) -> bytes:
    """The message as a file whose `end` has the digest of its metadata, as a wrong writer would make it."""
    metadata = pb.Recording()
    metadata.CopyFrom(message)
    for field in ("header", "padding", "payload", "end"):
        metadata.ClearField(field)
    message.end.digest = hashlib.sha256(metadata.SerializeToString()).digest()
    return message.SerializeToString()


def damages() -> Iterator[bytes]:
    content = (CASES / "op" / "mask_decode.pb").read_bytes()
    whole = pb.Recording.FromString(content)
    whole.ClearField("padding")
    yield from (content[:size] for size in range(0, len(content), 11))
    yield content * 2
    yield content + b"\x12\x00"
    yield content.replace(b"qwen3.golden", b"qwen3.silver")
    yield content.replace(b"mask_decode", b"mask_Decode")  # metadata, and no longer its digest
    for change in CHANGES:
        changed = pb.Recording()
        changed.CopyFrom(whole)
        change(changed)
        yield sealed(changed)


CHANGES: list[Callable[[pb.Recording], object]] = [
    lambda m: setattr(m.header, "schema_major", 2),
    lambda m: m.ClearField("provenance"),
    lambda m: m.ClearField("run"),
    lambda m: setattr(m.case, "mode", pb.MODE_UNSPECIFIED),
    lambda m: setattr(m.run, "backend", pb.BACKEND_UNSPECIFIED),
    lambda m: setattr(m.tensor[0], "dtype", pb.DTYPE_UNSPECIFIED),
    lambda m: setattr(m.tensor[0], "dtype", 99),
    lambda m: setattr(m.tensor[0], "name", m.tensor[1].name),
    lambda m: setattr(m.tensor[0], "bytes", 1),
    lambda m: m.tensor[0].shape.append(2**40),
    lambda m: m.tensor[0].axes.append("more"),
    lambda m: m.payload.__setitem__(0, bytes(len(m.payload[0]))),
    lambda m: m.payload.pop(),
    lambda m: m.tensor.pop(),
    lambda m: setattr(m.end, "payload_bytes", 1),
]


@each_port
def test_a_damaged_golden_is_one_line_and_the_run_goes_on(port: Any, tmp_path: Path) -> None:
    files = [tmp_path / "cases" / f"{number:03}.pb" for number, _ in enumerate(damages())]
    files[0].parent.mkdir()
    for file, content in zip(files, damages(), strict=True):
        file.write_bytes(content)
    (tmp_path / "cases" / "whole.pb").write_bytes((CASES / "op" / "mask_decode.pb").read_bytes())
    ran = run(port, "run-all", tmp_path / "cases", tmp_path / "out")
    assert ran.returncode == 2
    assert [line.partition(": ")[0] for line in ran.stderr.splitlines()] == list(map(str, files))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["whole.pb"]


@each_port
def test_a_port_answers_over_a_pipe_from_what_a_request_brings(port: Any, tmp_path: Path) -> None:
    names = [
        "block/causal",
        "encdec/second_request",
        "generation/merged",
        "op/rope",
        "plumbing/dtypes",
        "plumbing/damaged",
    ]
    names += ["decoder/plain", "encoder/ragged", "encdec/bfloat16", "classic/bert", "tokenization/words"]
    outcome = conformance([*port.command, "answer"], names, tmp_path / "answers", limits=Limits(60.0))
    assert not outcome.failed and outcome.answers.unsupported == {"classic/bert": "mode CLASSIC_ENCODER"}
    assert outcome.folder is not None and {result.word for result in outcome.folder.results} == {"parity"}


@pytest.fixture(scope="module")
def compare(compiled: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """How compare.cpp of a port is started, or Compare.java, compiled here: from its source each start compiles it."""

    def command(name: str) -> list[str]:
        build = compiled(name).build
        if name == "cpp":
            return [str(build / "qwen3-compare")]
        path = f"{build}/classes:{build}/protobuf.jar:{(classes := tmp_path_factory.mktemp('compare'))}"
        subprocess.run([*JAVAC, "-cp", path, "-d", classes, COMPARE], check=True)
        return [*JAVA, "-cp", path, "Compare"]

    return cache(command)


def compared(command: Sequence[str], candidate: Path) -> subprocess.CompletedProcess[str]:
    """What Compare.java or compare.cpp says of a recording of the largest golden."""
    files = [LARGEST, candidate, GOLDEN_ROOT / "tolerances.textproto"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


def changed(path: Path, name: str, step: int, to: Path) -> Path:
    """The recording with one number a hundredth larger."""
    recording = read(path)
    at = next(i for i, item in enumerate(recording.tensors) if (item.info.name, item.info.step) == (name, step))
    array = np.array(recording.tensors[at].array)
    array.flat[-1] *= 1.01
    tensors = [*recording.tensors[:at], tensor(name, array, step=step), *recording.tensors[at + 1 :]]
    write(to, replace(recording, tensors=tensors))
    return to


@each_port
def test_the_largest_golden_is_compared_within_its_budgets_and_one_wrong_number_is_not(
    port: Any, compare: Callable[[str], list[str]], tmp_path: Path
) -> None:
    subprocess.run([*port.command, "run", LARGEST, tmp_path / "own.pb"], check=True)
    accepted = compared(compare(port.name), tmp_path / "own.pb")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert accepted.stdout.endswith("taps compared, 0 beyond their budgets\n")
    wrong = compared(compare(port.name), changed(tmp_path / "own.pb", "logits", 1, tmp_path / "wrong.pb"))
    assert wrong.returncode == 1
    assert wrong.stdout.startswith("logits, step 1: ") and len(wrong.stdout.splitlines()) == 2


@each_port
def test_what_is_no_recording_or_has_nothing_to_compare_is_one_line(
    port: Any, compare: Callable[[str], list[str]], tmp_path: Path
) -> None:
    content = LARGEST.read_bytes()
    (tmp_path / "cut.pb").write_bytes(content[: len(content) // 2])
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 1
    (tmp_path / "damaged.pb").write_bytes(damaged)
    op = GOLDEN_ROOT / "cases" / "op" / "rope.pb"
    for file in (tmp_path / "none.pb", tmp_path / "cut.pb", tmp_path / "damaged.pb", op):
        ran = compared(compare(port.name), file)
        assert (ran.returncode, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)


@pytest.mark.slow
def test_compare_java_runs_from_its_source(compiled: Callable[[str], Any], tmp_path: Path) -> None:
    build = compiled("java").build
    command = [*JAVA, "-cp", f"{build}/classes:{build}/protobuf.jar", str(COMPARE)]
    assert compared(command, tmp_path / "none.pb").returncode == 2
