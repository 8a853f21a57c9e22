"""The ports, each compiled once, whichever worker of pytest-xdist asks first; the tests of this folder share `jvm`."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from jvm import JAVA

from qwen3_golden import GOLDEN_ROOT

PORTS = GOLDEN_ROOT.parent / "ports"
RUNTIME = Path(os.environ.get("PROTOBUF_JAR", "/usr/share/java/protobuf.jar"))


@dataclass(frozen=True)
class Port:
    """A compiled port: how it is started, and the folder that its build script filled."""

    name: str
    command: list[str]
    build: Path


def _has_cpp() -> bool:
    return bool(shutil.which("g++")) and Path("/usr/include/google/protobuf/message.h").exists()


def _compiled(name: str, folder: Path) -> Port:
    """Skips where the port cannot be compiled, with the command that helps."""
    if name == "java":
        there, packages = bool(shutil.which("javac")) and RUNTIME.exists(), "openjdk-17-jdk-headless libprotobuf-java"
    else:
        there, packages = _has_cpp(), "g++ libprotobuf-dev"
    if not (there and shutil.which("protoc")):
        pytest.skip(f"apt-get install protobuf-compiler {packages}")
    folder.mkdir(exist_ok=True)
    with (folder / "built").open("a") as built:
        fcntl.flock(built, fcntl.LOCK_EX)  # another worker may be at it
        if not os.fstat(built.fileno()).st_size:
            flags = {"CXXFLAGS": "-O1"} | os.environ  # -O2 takes a third longer to compile and runs no faster
            done = subprocess.run([PORTS / name / "build.sh", folder], env=flags, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            built.write("yes")
    command = [*JAVA, "-jar", str(folder / "qwen3-port.jar")] if name == "java" else [str(folder / "qwen3-port")]
    return Port(name, command, folder)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Port]:
    """The port of a name, compiled when it is first asked for."""
    root = tmp_path_factory.getbasetemp()  # of a worker: its own folder in the run's
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    return cache(lambda name: _compiled(name, shared / f"port-{name}"))


@pytest.fixture
def port(request: pytest.FixtureRequest, compiled: Callable[[str], Port]) -> Port:
    """The port that the test is parametrised with."""
    return compiled(request.param)


@pytest.fixture(scope="session")
def java_port(compiled: Callable[[str], Port]) -> Path:
    """The folder with qwen3-port.jar, protobuf.jar and classes/."""
    return compiled("java").build
