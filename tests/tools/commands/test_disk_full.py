"""A disk that fills up while a command writes: one message, exit code 2, and nothing half-written stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from qwen3_golden import GOLDEN_ROOT

pytestmark = pytest.mark.slow  # the writers of files have such a test each
MODEL = GOLDEN_ROOT / "checkpoints" / "window-encoder"
TOKENIZER = GOLDEN_ROOT / "tokenizers" / "tiny"
IDS = ("--source-ids", "1,2,3;4,5,6", "--target-ids", "7,8,9;1,2,3")
COMMANDS: dict[str, list[str]] = {
    "record": ["record", "encdec/ragged", "--out", "OUT/result.pb"],
    "capture": ["capture", "--model", f"{MODEL}", *IDS, "--no-floors", "--out", "OUT/result.pb"],
    "capture with floors": ["capture", "--model", f"{MODEL}", *IDS, "--out", "OUT/result.pb"],
    "tokenize": ["check", "--tokenizer", f"{TOKENIZER}", "--text", "Hello " * 99, "--out", "OUT/result.pb"],
    "export of a tokenizer": ["weights", "export", "--tokenizer", f"{TOKENIZER}", "--out", "OUT/result.pb"],
    "export of a model": ["weights", "export", "--model", f"{MODEL}", "--out", "OUT/result"],
    "export in parts": ["weights", "export", "--model", f"{MODEL}", "--out", "OUT/result", "--part-bytes", "60000"],
    "import": ["weights", "import", "ROOT/export of a model/roomy/result", "--out", "OUT/result"],
    "initialize": ["weights", "initialize", "--model", f"{MODEL}", "--out", "OUT/result", "--verify"],
}
SHARES = (0.0, 0.3, 0.98)
"""How much of what a command writes the disk can take."""

DRIVER = '''
import json, os, resource, subprocess, sys, tempfile
from pathlib import Path
from click.testing import CliRunner
from qwen3_parity.cli import main

kind, root, commands, shares = sys.argv[1], Path(sys.argv[2]), *map(json.loads, sys.argv[3:])
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)


def state(folder):
    return {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*"))}


def run(arguments, out, size, limit, older=False):
    """One command on a disk of `size` bytes, or where no file may be larger than `limit`; None: a large disk."""
    out.mkdir(parents=True)
    if size is not None:
        size = max(size // 4096 * 4096, 8192 if older else 4096)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(out)], check=True)
    if older:
        (out / "result.pb").write_bytes(b"older")
    given = [argument.replace("OUT", str(out)).replace("ROOT", str(root)) for argument in arguments]
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    result = CliRunner().invoke(main, given)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    left = state(out)
    if size is not None:
        subprocess.run(["umount", "-l", str(out)], check=True)
    raised = "" if isinstance(result.exception, SystemExit | None) else repr(result.exception)
    return {"exit": result.exit_code, "output": result.output, "raised": raised, "left": left}


found = {}
for name, arguments in commands.items():
    roomy = run(arguments, root / name / "roomy", None, None)
    found[name] = {"roomy": roomy}
    sizes = [size for path, size in roomy["left"].items() if (root / name / "roomy" / path).is_file()]
    for share in shares if sizes else ():
        limits = (int(sum(sizes) * share), None) if kind == "small disk" else (None, int(max(sizes) * share))
        found[name][str(share)] = run(arguments, root / name / str(share), *limits)
        if share == max(shares) and "result.pb" in roomy["left"]:
            found[name]["older"] = run(arguments, root / name / "older", *limits, older=True)
found["temporary"] = [name for name in state(Path(tempfile.gettempdir())) if not name.startswith("torchinductor")]
print(json.dumps(found))
'''
IN_A_NAMESPACE = ["unshare", "--map-root-user", "--mount"]


@pytest.fixture(scope="module", params=["large files refused", "small disk"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What every command did: in a process whose files may not grow beyond a limit, on a small file system."""
    root, temporary = tmp_path_factory.mktemp("full"), tmp_path_factory.mktemp("temporary")
    before: list[str] = []
    if request.param == "small disk":
        able = [*IN_A_NAMESPACE, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(root)]
        if sys.platform != "linux" or subprocess.run(able, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here, not even in a namespace of one's own")
        before = IN_A_NAMESPACE
    arguments = [request.param, str(root), json.dumps(COMMANDS), json.dumps(SHARES)]
    done = subprocess.run(
        [*before, sys.executable, "-c", DRIVER, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(temporary), "COLUMNS": "1000"},
    )
    assert done.returncode == 0, done.stderr
    outcomes: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcomes


@pytest.mark.parametrize("name", COMMANDS)
def test_with_room_the_command_writes_its_result(name: str, runs: dict[str, Any]) -> None:
    roomy = runs[name]["roomy"]
    assert roomy["exit"] == 0 and not roomy["raised"], roomy
    assert any(path.startswith("result") for path in roomy["left"])


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_message_and_leaves_nothing(name: str, share: float, runs: dict[str, Any]) -> None:
    outcome = runs[name][str(share)]
    assert (outcome["exit"], outcome["raised"]) == (2, ""), outcome
    assert "Traceback" not in outcome["output"]
    assert any(word in outcome["output"] for word in ("cannot be written", "disk is too small")), outcome["output"]
    assert any(word in outcome["output"] for word in ("File too large", "No space left", "bytes free")), outcome[
        "output"
    ]
    assert outcome["left"] == {}


@pytest.mark.parametrize("name", [name for name, arguments in COMMANDS.items() if "OUT/result" not in arguments])
def test_an_older_result_stays_as_it_was(name: str, runs: dict[str, Any]) -> None:
    outcome = runs[name]["older"]
    assert outcome["exit"] == 2 and outcome["left"] == {"result.pb": len("older")}, outcome


def test_nothing_is_left_in_the_folder_for_temporary_files_either(runs: dict[str, Any]) -> None:
    assert runs["temporary"] == []
