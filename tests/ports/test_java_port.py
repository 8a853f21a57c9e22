"""The port to Java, from the golden files alone: compiled, run over the committed set in one process, and judged."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity import check

PORT = GOLDEN_ROOT.parent / "ports" / "java"
RUNTIME = Path(os.environ.get("PROTOBUF_JAR", "/usr/share/java/protobuf.jar"))
CASES = GOLDEN_ROOT / "cases"
NOT_PORTED = ("classic", "training", "generation/beams")
CLAIMED = [
    name
    for name in sorted(path.relative_to(CASES).with_suffix("").as_posix() for path in CASES.rglob("*.pb"))
    if not name.startswith(NOT_PORTED)
]

pytestmark = pytest.mark.skipif(
    not (shutil.which("javac") and shutil.which("protoc") and RUNTIME.exists()),
    reason="apt-get install openjdk-17-jdk-headless protobuf-compiler libprotobuf-java",
)


def java(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["java", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("java")
    built = subprocess.run([PORT / "build.sh", build], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return build / "qwen3-port.jar"


@pytest.fixture(scope="module")
def recordings(port: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("recordings")
    run = java("-jar", port, "run-all", CASES, out)
    assert run.returncode == 0, run.stderr
    return out


@pytest.mark.parametrize("name", CLAIMED)
def test_the_java_port_is_at_parity(name: str, recordings: Path) -> None:
    verdicts = check(CASES / f"{name}.pb", recordings / f"{name}.pb")
    assert verdicts.exit_code == 0, "\n".join(map(str, verdicts.problems))
    assert verdicts.compared == verdicts.of


def test_the_java_port_records_what_it_claims_and_nothing_else(recordings: Path) -> None:
    written = sorted(path.relative_to(recordings).with_suffix("").as_posix() for path in recordings.rglob("*"))
    assert [name for name in written if "/" in name] == CLAIMED


def test_a_case_that_the_port_does_not_have_is_one_line_and_leaves_no_file(port: Path, tmp_path: Path) -> None:
    run = java("-jar", port, "run", CASES / "classic" / "bert.pb", tmp_path / "out.pb")
    assert (run.returncode, run.stderr) == (1, "mode CLASSIC_ENCODER\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("keep", [0, 100, -1, -60])
def test_a_golden_that_was_cut_off_is_refused(keep: int, port: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pb"
    damaged.write_bytes((CASES / "encoder" / "one_token.pb").read_bytes()[:keep])
    run = java("-jar", port, "run", damaged, tmp_path / "out.pb")
    assert run.returncode == 2 and run.stderr.startswith(f"{damaged}: ") and run.stderr.count("\n") == 1
    assert not (tmp_path / "out.pb").exists()
