"""The same files give the same answer: nothing that a verb prints follows the order of a set."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, Array, Tensor, read, write

CASES = GOLDEN_ROOT / "cases"
SCALED = ("op/context", "op/embedding", "op/head_norm", "op/linear", "op/scores", "op/softmax_large")
"""Ops with a mistake each, all of other names: a name that is known from one case is one of many."""
MASKS = ("op/mask_bidirectional", "op/mask_causal", "op/mask_causal_window_2")
"""Ops with one mistake that has several names."""
SEEDS = ("1", "2")
VERBS = """
report port --format card --date 2026-01-31 --out out/card
check port --json
check port/op/mask_causal.pb -v
check port/tokenization/words.pb
check port/encoder/one_token.pb
conformance --only op/rms_norm --out out/answers --json -- {python} {examples}/numpy_process.py
diagnose port --json
diagnose port/op/mask_causal.pb
diagnose port/encoder/one_token.pb
dump export port/encoder/one_token.pb --out out/dump.npz
dump import encoder/one_token out/dump.npz --out out/imported.pb
report port --out out/report.md
report port/encoder/one_token.pb --out out/single.html
show port/encoder/one_token.pb
show encoder/one_token port/encoder/one_token.pb --tap encoder.norm
show MSK-21
""".strip().splitlines()
"""Every verb that judges or reads."""
RUN = """
import shlex, sys
from click.testing import CliRunner
from qwen3_parity.cli import main
for line in sys.stdin.read().splitlines():
    print("$", line)
    done = CliRunner().invoke(main, shlex.split(line))
    print(done.stdout, done.stderr if done.exit_code == 2 else '', done.exit_code)
"""


def changed(name: str, path: Path, change: dict[str, Array]) -> None:
    golden = read(CASES / f"{name}.pb")
    tensors = [Tensor(item.info, change.get(item.info.name, item.array)) for item in golden]
    write(path / f"{name}.pb", replace(golden, tensors=tensors))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port whose ops are wrong in many ways, a network without its last norm, a tokenizer, and what is right."""
    out = tmp_path_factory.mktemp("seeds") / "port"
    for name in SCALED:
        golden = read(CASES / f"{name}.pb")
        outputs = {item.info.name: item.array for item in golden if item.info.name.startswith("output.")}
        changed(name, out, {key: array * array.dtype.type(2) for key, array in outputs.items()})
    for name in MASKS:
        golden = read(CASES / f"{name}.pb")
        numbers = {attribute.key: int(attribute.value) for attribute in golden.case.attributes}
        (padding,) = (item.array for item in golden if item.info.name.startswith("input."))
        changed(name, out, {"output.mask": unpadded(padding, numbers, causal="causal" in name)})
    golden = read(CASES / "encoder" / "one_token.pb")
    changed("encoder/one_token", out, {"encoder.norm": golden["encoder.layers.0.output", 0].array})
    changed("tokenization/words", out, {})
    return out.parent


def unpadded(padding: Array, numbers: dict[str, int], *, causal: bool) -> Array:
    """The mask of a row in which nothing is padding."""
    queries, keys = (np.arange(padding.shape[1]) for _ in range(2))
    distance = queries[:, None] - keys
    visible = distance >= 0 if causal else np.ones(distance.shape, bool)
    visible &= (distance < numbers["window"]) if numbers["window"] else True
    return np.broadcast_to(visible, (len(padding), *visible.shape)).copy()


def outcome(folder: Path, seed: str, where: Path) -> str:
    """What every verb prints and writes under a hash seed."""
    (where / "out").mkdir(parents=True)
    (where / "port").symlink_to(folder / "port")
    words = {
        "python": sys.executable,
        "examples": GOLDEN_ROOT.parent / "examples",
    }
    lines = "\n".join(VERBS).format(**words)
    environment = os.environ | {"PYTHONHASHSEED": seed, "COLUMNS": "160"}
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=lines, cwd=where, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_every_verb_says_the_same_whatever_the_order_of_sets(folder: Path, tmp_path: Path) -> None:
    first, *others = [outcome(folder, seed, tmp_path / seed) for seed in SEEDS]
    assert " 2\n$" not in first, first  # nothing was refused
    for seed, later in zip(SEEDS[1:], others, strict=True):
        assert later == first
        files = {path.relative_to(tmp_path / seed): path for path in sorted((tmp_path / seed / "out").rglob("*.*"))}
        assert files
        for name, path in files.items():
            assert path.read_bytes() == (tmp_path / SEEDS[0] / name).read_bytes(), name
