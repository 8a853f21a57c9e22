"""Wrong usages that once ended in a traceback, or in an exit code of somebody else's code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main

TIED = GOLDEN_ROOT / "checkpoints" / "tied-decoder"
ROPE = GOLDEN_ROOT / "cases" / "op" / "rope.pb"
FACTORIES = """
def exits(case, checkpoints):
    raise SystemExit(3)

def raises(case, checkpoints):
    raise KeyError("x")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Modules that fail in every way, a loop of links, a broken tokenizer, a file whose name is no UTF-8."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "wrong_factories.py").write_text(FACTORIES, encoding="utf-8")
    (tmp_path / "wrong_module.py").write_text("raise RuntimeError('no device')\n", encoding="utf-8")
    (tmp_path / "wrong_syntax.py").write_text("def (\n", encoding="utf-8")
    (tmp_path / "leaves_at_once.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{}", encoding="utf-8")
    shutil.copytree(GOLDEN_ROOT / "tokenizers" / "tiny", tmp_path / "surrogate")
    (tmp_path / "surrogate" / "\udcff").write_text("")
    return tmp_path


REFUSED = [
    ("record op/rope --impl wrong_factories:exits --out o.pb", "the implementation failed on this case"),
    ("record op/rope --impl wrong_factories:raises --out o.pb", "the implementation failed on this case"),
    ("record op/rope --impl wrong_module:factory --out o.pb", "the implementation cannot be imported"),
    ("record op/rope --impl wrong_syntax:factory --out o.pb", "the implementation cannot be imported"),
    ("record op/rope --impl leaves_at_once:factory --out o.pb", "the implementation cannot be imported"),
    ("match-names decoder/plain --impl wrong_factories:exits", "the implementation failed on this case"),
    ("check {rope} --junit .", "it cannot be read or written"),
    ("capture --model {tied} --target-ids 1,2 --no-floors --taps logits --out loop", "it cannot be read or written"),
    ("capture --model {tied} --target a --tokenizer tokenizer --out o", "Hugging Face's tokenizer cannot be loaded"),
]


@pytest.mark.parametrize(("line", "rule"), REFUSED)
def test_a_wrong_usage_is_refused_in_words_and_as_json(folder: Path, line: str, rule: str) -> None:
    words = [word.format(rope=ROPE, tied=TIED) for word in line.split()]
    done = CliRunner().invoke(main, [words[0], "--json", *words[1:]])
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit), done.exception
    assert json.loads(done.stdout)["error"]["rule"].startswith(rule)
    assert rule in done.stderr


def test_a_file_beside_a_tokenizer_may_have_any_name(folder: Path) -> None:
    assert CliRunner().invoke(main, ["check", "--tokenizer", "surrogate", "--text", "a"]).exit_code == 0
