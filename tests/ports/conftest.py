"""The Java port, compiled once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT

RUNTIME = Path(os.environ.get("PROTOBUF_JAR", "/usr/share/java/protobuf.jar"))


@pytest.fixture(scope="session")
def java_port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with qwen3-port.jar, protobuf.jar and classes/; skips where the port cannot be compiled."""
    if not (shutil.which("javac") and shutil.which("protoc") and RUNTIME.exists()):
        pytest.skip("apt-get install openjdk-17-jdk-headless protobuf-compiler libprotobuf-java")
    build = tmp_path_factory.mktemp("java")
    command = [GOLDEN_ROOT.parent / "ports" / "java" / "build.sh", build]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return build
