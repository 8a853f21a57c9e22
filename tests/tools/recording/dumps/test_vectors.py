"""The committed cases as a data set: read in three lines of any language, and judged by nothing but what it holds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from safetensors.numpy import load_file

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read, to_float32
from qwen3_golden.contract import released_cases
from qwen3_parity.check import check_run
from qwen3_parity.cli import main

GIVEN = ("input.", "parameter.")
Rows = list[dict[str, Any]]
NUMBERS = ("rms", "max", "row", "head")


def written(out: Path, glob: str = "*") -> Path:
    done = CliRunner().invoke(main, ["dump", "export", glob, "--out", str(out)])
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("vectors") / "set")


def lines(file: Path) -> Rows:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def every(vectors: Path) -> Rows:
    return [row for file in sorted((vectors / "vectors").glob("*.jsonl")) for row in lines(file)]


def snippet(vectors: Path, language: str) -> str:
    (code,) = re.findall(rf"```{language}\n([\s\S]*?)```", (vectors / "README.md").read_text(encoding="utf-8"))
    assert 0 < len([line for line in code.splitlines() if line]) <= 3
    return str(code)


def test_every_tensor_of_every_case_with_numbers_is_there_as_it_is(vectors: Path) -> None:
    there = {(row["case"], row["tap"], row["step"]): row for row in every(vectors)}
    expected = 0
    for name in released_cases():
        golden = read(GOLDEN_ROOT / "cases" / f"{name}.pb")
        if golden.case.mode in (pb.TOKENIZATION, pb.PLUMBING) or golden.case.op == "read":
            continue
        for item in golden:
            row, expected = there[name, *item.key], expected + 1
            wide = to_float32(item.array) if item.info.dtype == pb.BF16 else item.array
            wide = wide.astype(np.float32) if wide.dtype == np.float16 else wide
            assert row["digest"] == sha256(np.ascontiguousarray(wide).tobytes()).hexdigest()
            assert (row["shape"], row["axes"]) == (list(item.array.shape), list(item.info.axes))
    assert expected == len(there) == len(every(vectors)) > 10_000


def test_a_data_set_of_few_files_that_its_card_describes(vectors: Path) -> None:
    files = [path.relative_to(vectors).as_posix() for path in vectors.rglob("*") if path.is_file()]
    assert len(files) < 100
    card = yaml.safe_load((vectors / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    named = {config["config_name"]: sorted(vectors.glob(config["data_files"])) for config in card["configs"]}
    assert all(named.values()) and sum(len(paths) for paths in named.values()) == sum(
        ".jsonl" in file for file in files
    )
    for paths in named.values():  # a table has the same columns in each of its files
        assert len({tuple(row) for path in paths for row in lines(path)}) == 1
    assert {row["case"] for row in every(vectors)} == {row["case"] for row in lines(vectors / "cases.jsonl")}
    checkpoints = {part["name"] for row in lines(vectors / "cases.jsonl") for part in row["checkpoints"]}
    weights = {row["checkpoint"] for row in lines(vectors / "weights.jsonl")}
    assert checkpoints == weights == {row["checkpoint"] for row in lines(vectors / "checkpoints.jsonl")}


def test_equal_goldens_give_equal_bytes(vectors: Path, tmp_path: Path) -> None:
    again = written(tmp_path / "again")
    files = sorted(path.relative_to(vectors) for path in vectors.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert not [file for file in files if (vectors / file).read_bytes() != (again / file).read_bytes()]


def test_three_lines_of_python_are_enough_to_judge_an_op(vectors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(vectors)
    names = dict[str, Any]()
    exec(snippet(vectors, "python"), names)
    rows = {row["tap"]: row for row in names["rows"] if row["case"] == "op/rope"}
    q, cos, sin, expected = (
        names["tensors"][rows[tap]["tensor"]] for tap in ("input.q", "input.cos", "input.sin", "output.q")
    )
    budget = rows["output.q"]["headroom"]["max"] * rows["output.q"]["floor"]["max"]
    first, second = np.split(q, 2, axis=-1)
    right = q * cos[:, None] + np.concatenate((-second, first), -1) * sin[:, None]
    wrong = q * cos[:, None] - np.concatenate((-second, first), -1) * sin[:, None]
    assert np.abs(right - expected).max() <= budget < np.abs(wrong - expected).max()


NODE = """
const { createHash } = require("crypto");
let count = 0;
for (const row of rows) {
  const digest = createHash("sha256").update(tensor(row.tensor)).digest("hex");
  if (digest !== row.digest) throw new Error(`${row.tensor}: ${digest}`);
  count += 1;
}
const floats = (name) => {
  const part = tensor(name);
  return new Float32Array(part.buffer.slice(part.byteOffset, part.byteOffset + part.length));
};
const [gate, up, act] = ["input.gate", "input.up", "output.act"].map((tap) => floats(`op/swiglu/0/${tap}`));
const row = rows.find((row) => row.tensor === "op/swiglu/0/output.act");
const budget = row.headroom.max * row.floor.max;
const share = (f) => Math.max(...act.map((value, i) => Math.abs(f(gate[i], up[i]) - value))) / budget;
const swiglu = (g, u) => (g / (1 + Math.exp(-g))) * u;
console.log(JSON.stringify({ count, right: share(swiglu), wrong: share((g, u) => swiglu(u, g)) }));
"""


def test_three_lines_of_javascript_are_enough_to_judge_an_op(vectors: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not here")
    done = subprocess.run(
        ["node", "-e", snippet(vectors, "javascript") + NODE], cwd=vectors, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["count"] == len(lines(vectors / "vectors" / "op.jsonl")) and said["right"] <= 1 < said["wrong"]


def errors(actual: np.ndarray, expected: np.ndarray, judged: np.ndarray | None, axes: list[str]) -> dict[str, float]:
    """The four errors, as the card says it."""
    counts = np.ones(actual.shape, bool) if judged is None else judged
    squares = np.where(counts, actual.astype(np.float64) - expected, 0) ** 2

    def largest(*kept: int) -> float:
        rest = tuple(index for index in range(actual.ndim) if index not in kept)
        number = counts.sum(axis=rest)
        return float(np.sqrt(np.max(np.where(number > 0, squares.sum(axis=rest) / np.maximum(number, 1), 0))))

    out = {"rms": largest(), "max": float(np.sqrt(squares.max())), "row": 0.0, "head": 0.0}
    for key, words in (("row", ("query", "key", "total", "new", "step")), ("head", ("heads", "kv_heads"))):
        if at := [axes.index(word) for word in words if word in axes][:1]:
            batch = [axes.index("batch")] if key == "row" and "batch" in axes else []
            out[key] = largest(*batch, *at)
    return out


@pytest.mark.parametrize(
    "name",
    ["decoder/ragged_decode", "encdec/ragged", "llama/ragged_decode", "op/softmax_hidden_rows", "op/inv_freq_yarn"],
)
def test_the_set_alone_gives_the_shares_that_check_gives(vectors: Path, name: str) -> None:
    golden, draw = read(GOLDEN_ROOT / "cases" / f"{name}.pb"), np.random.default_rng(3)

    def near(item: Tensor) -> Tensor:
        table = item.info.op in ("inv_freq", "cos", "sin") and golden.case.mode != pb.OP  # judged by each other, too
        if not item.is_float or item.info.name.startswith(GIVEN) or table:
            return item
        noise = draw.standard_normal(item.array.shape) * 2.0**-20
        return Tensor(item.info, (item.array * (1 + noise)).astype(item.array.dtype))

    candidate = replace(golden, tensors=[near(item) for item in golden])
    verdicts = check_run(golden, candidate)
    group = name.partition("/")[0]
    tensors, checked = load_file(vectors / "vectors" / f"{group}.safetensors"), 0
    rows = {
        (row["tap"], row["step"]): row for row in lines(vectors / "vectors" / f"{group}.jsonl") if row["case"] == name
    }
    for verdict in verdicts.taps:
        row = rows[verdict.name, verdict.step]
        assert row["role"] == "computed" and row["exact"] == verdict.exact
        if verdict.shares is None:
            assert row["floor"] is None and row["headroom"] is None
            continue
        judged = None if row["judged"] is None else tensors[row["judged"]]
        actual, expected = candidate[verdict.name, verdict.step].array, tensors[row["tensor"]]
        scale = expected.astype(np.float64) if row["op"] == "inv_freq" else 1.0
        measured = errors(actual / scale, expected / scale, judged, row["axes"])
        floor = row["own_angles_floor"] or row["floor"]
        shares = [measured[key] / (row["headroom"][key] * floor[key]) if measured[key] else 0.0 for key in NUMBERS]
        assert shares == pytest.approx(list(verdict.shares), rel=1e-5), verdict.where
        checked += verdict.share > 0
    assert checked >= (1 if group == "op" else 100)


def test_a_folder_that_holds_something_and_a_glob_without_cases_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    for glob, out, rule in (("op/*", tmp_path, "a folder of their own"), ("none/*", tmp_path / "new", "of cases")):
        done = CliRunner().invoke(main, ["dump", "export", glob, "--out", str(out)])
        assert done.exit_code == 2 and rule in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
