"""Commands that README and docs/*.md show: run page by page, in order, or listed with the reason why not."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForCausalLM

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Recording, read
from qwen3_parity.check import check
from qwen3_parity.cli import main
from qwen3_parity.folder.levels import cases_of
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.recording.record import record

ROOT = GOLDEN_ROOT.parent
sys.path.insert(0, str(ROOT / "tests" / "tools" / "recording"))
from plain_qwen3 import PlainQwen3  # noqa: E402

WRONG = ("candidate.pb", "build/parity/decoder/plain.pb")
"""Recordings with the bug that the pages show; what a page prints is of these."""
TINY = GOLDEN_ROOT / "tokenizers" / "tiny"
NAMES = [p.relative_to(GOLDEN_ROOT / "cases").with_suffix("").as_posix() for p in GOLDEN_ROOT.glob("cases/**/*.pb")]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *ROOT.glob("skills/*/SKILL.md")]
PROGRAMS = ("qwen3-parity", "make", "pytest", "python", "pip", "git", "torchrun", ".", "export", "java")

NOT_RUN = {  # a command, as a glob: the reason
    "pip install *": "tests/test_installed_alone.py installs the wheel",
    "qwen3-parity regenerate --check --only 'op/rms_norm'": "tests/tools/report/test_json_schema.py runs it",
    "qwen3-parity regenerate --accept --only 'op/rms_norm' --reason \"why\"": "writes golden/: test_regenerate.py",
    "pytest tests/parity --parity-candidate=my_recordings/": "tests/tools/plugin/test_candidates.py runs it",
    "*-- ./my-port arguments": "the reader's port: tests/tools/conformance have theirs",
}


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the lines that the page shows as its output."""

    page: Path
    command: str
    output: tuple[str, ...] | None


def shown(page: Path) -> Iterator[Shown | str]:
    """The page's commands and, as text, its Python, in order."""
    block = re.compile(r"^```python\n([\s\S]*?)^```$|^\n((?:    .*\n(?:\n(?=    ))*)+)", re.MULTILINE)
    for code, text in block.findall(page.read_text(encoding="utf-8")):
        lines = [line.removeprefix("    ").rstrip() for line in text.rstrip("\n").split("\n")]
        if code:
            yield str(code)
        elif lines[0].startswith("$ "):
            yield Shown(page, lines[0].removeprefix("$ "), tuple(lines[1:]))
        elif lines[0].split(" ")[0] in PROGRAMS:
            yield from (Shown(page, re.split(r"\s+#\s", line)[0], None) for line in lines if line)


ITEMS = {page: list(shown(page)) for page in PAGES}
COMMANDS = {page: [item for item in items if isinstance(item, Shown)] for page, items in ITEMS.items()}
TESTED = ("port-to-another-language", "tokenizer")
"""Pages whose Python is run by tests/ports/test_port_guide.py, and as the module that the page's commands name."""


def mixed_rope(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """The bug that the pages show: channels are paired as neighbours, angles as halves."""
    turned = np.stack((-x[..., 1::2], x[..., ::2]), axis=-1).reshape(x.shape)
    return x * cos[:, None] + turned * sin[:, None]


def mixed_rope_of_both(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    return tuple(torch.from_numpy(mixed_rope(*(tensor.detach().numpy() for tensor in (x, cos, sin)))) for x in (q, k))


def with_text(directory: Path) -> None:
    """A Qwen3 checkpoint with a row for every token of the tiny tokenizer, and that tokenizer."""
    shutil.copytree(GOLDEN_ROOT / "checkpoints" / "tied-decoder", directory)
    shutil.copytree(TINY, directory, dirs_exist_ok=True)
    config = json.loads((directory / "config.json").read_text())
    weights = load_file(directory / "model.safetensors")
    for name in {"model.embed_tokens.weight", "lm_head.weight"} & set(weights):
        weights[name] = np.resize(weights[name], (4480, config["hidden_size"]))
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    (directory / "config.json").write_text(json.dumps({**config, "vocab_size": 4480, "pad_token_id": 4349}))


def my_qwen3(checkpoint: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32)


def my_forward(checkpoint: Path, ids: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """An array library's model: two taps of it."""
    hidden = load_file(checkpoint / "model.safetensors")["model.embed_tokens.weight"][ids]
    yield from (("embed_tokens", hidden), ("layers.0.input", hidden))


def my_step(case: Any, step: int) -> Iterator[tuple[str, np.ndarray]]:
    """A step of an engine without padding: a tap of the tokens that are real, one behind the other."""
    start = sum(case.lengths[:step])
    real = case.arrays["attention_mask"].astype(bool)[:, start : start + case.lengths[step]]
    yield "layers.0.input", case.golden["decoder.layers.0.input", step].array[real]


def my_packed(case: Any, step: int) -> Iterator[tuple[str, np.ndarray]]:
    """A step of a server: every tap of the real tokens alone, but for caches and what has keys."""
    start = sum(case.lengths[:step])
    real = case.arrays["attention_mask"].astype(bool)[:, start : start + case.lengths[step]]
    for item in case.golden:
        axes = list(item.info.axes)
        if item.info.step == step and {"batch", "query"} <= {*axes} and "key" not in axes and item.info.op != "input":
            yield item.info.name, np.moveaxis(item.array, axes.index("query"), 1)[real]


def my_logits(case: Any, step: int) -> np.ndarray:
    return np.asarray(case.golden["logits", step].array[:, -1])


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NumPy port on every case of the level "causal", and on one with the bug that the pages show."""
    root = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        port = importlib.import_module("numpy_port")
        for name in cases_of(["causal"], NAMES):
            (root / "build/parity/decoder").mkdir(parents=True, exist_ok=True)
            (root / "my_recordings" / name).parent.mkdir(parents=True, exist_ok=True)
            record(read(GOLDEN_ROOT / "cases" / f"{name}.pb"), root / "my_recordings" / f"{name}.pb", port.factory)
        patch.setattr(port, "rotate", mixed_rope)
        record(read(GOLDEN_ROOT / "cases" / "decoder" / "ragged_decode.pb"), root / WRONG[0], port.factory)
        patch.setattr("transformers.models.qwen3.modeling_qwen3.apply_rotary_pos_emb", mixed_rope_of_both)
        case = qwen3_parity.golden("decoder/plain")
        with qwen3_parity.record(model := my_qwen3(case.checkpoint), case, path=root / WRONG[1]):
            model(**case.inputs)
    with_text(root / "DIR")
    return root


JUDGED = dict[tuple[object, ...], Verdicts]()


def judged_once(golden: Recording, candidate: Path, weights: Any, *, partial: bool) -> Verdicts:
    """Each page's folder has the same recordings, which several of its commands judge."""
    key = golden.digest, str(candidate), sha256(candidate.read_bytes()).digest(), weights is None, partial
    if key not in JUDGED:
        JUDGED[key] = check(golden, candidate, weights, partial=partial)
    return JUDGED[key]


@pytest.fixture
def folder(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the pages speak of: DIR, my_model, my.txt, my_recordings, and the Python of the tokenizer's page."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "build")
    monkeypatch.setattr("qwen3_parity.folder.check.check", judged_once)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "my.txt").write_text("café\n", encoding="utf-8")
    model = "def build(case, checkpoints):\n    return PlainQwen3(checkpoints['decoder'])\n"
    (tmp_path / "my_model.py").write_text(f"from plain_qwen3 import PlainQwen3\n\n\n{model}", encoding="utf-8")
    text = (ROOT / "docs" / "tokenizer.md").read_text(encoding="utf-8")
    code = "import qwen3_encdec\n" + "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    code += f"\n\nmy_tokenizer = qwen3_encdec.ByteLevelTokenizer.from_directory({str(TINY)!r})\n"
    (tmp_path / "my_tokenizer_runner.py").write_text(code, encoding="utf-8")
    return tmp_path


def rounded(line: str) -> str:
    """A line without the numbers that depend on kernels or the version of transformers, and its columns' widths."""
    line = re.sub(r"(?<=\.py:)\d+", "#", re.sub(r" +", " ", line.strip()))
    return re.sub(r"\d+(\.\d+)?e[+-]\d+|\d+\.\d+", "#", line)


@pytest.mark.parametrize("page", [p for p in PAGES if COMMANDS[p]], ids=lambda page: page.stem)
def test_a_pages_python_and_commands_run_in_order_and_print_what_it_shows(
    page: Path, folder: Path, recordings: Path
) -> None:
    names: dict[str, Any] = {
        "MyQwen3": my_qwen3,
        "MyOwnNames": PlainQwen3,
        "my_forward": my_forward,
        "my_step": my_step,
        "my_packed": my_packed,
        "my_logits": my_logits,
    }
    for item in ITEMS[page]:
        if isinstance(item, Shown):
            run(item, folder, recordings)
        elif page.stem not in TESTED:
            exec(compile(item, str(page), "exec"), names)


def run(shown: Shown, folder: Path, recordings: Path) -> None:
    if any(fnmatchcase(shown.command, glob) for glob in NOT_RUN):
        return
    program, *arguments = shlex.split(shown.command)
    assert program == "qwen3-parity", f"{shown.command}: run it here, or say in NOT_RUN why not"
    for name in WRONG if shown.output is not None else ():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(recordings / name, folder / name)
    arguments = [sys.executable if argument == "python" else argument for argument in arguments]
    answer = answer_of_the_same_files if shown.command.startswith(SAME) else answer_of
    exit_code, output = answer(*arguments)
    assert exit_code == (0 if shown.output is None else 1), f"{shown.command}\n{output}"
    printed = [rounded(line) for line in output.splitlines()]
    for line in filter(None, (rounded(line).removesuffix("…") for line in shown.output or ())):
        assert any(line_printed.startswith(line) for line_printed in printed), f"{shown.command}: {line}\n{output}"


SAME = ("qwen3-parity check my_recordings/", "qwen3-parity diagnose my_recordings/")
"""What several pages ask about files that are the same in each page's folder: run once."""


def answer_of(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments, terminal_width=120)
    return result.exit_code, result.output


answer_of_the_same_files = cache(answer_of)


def test_what_is_not_run_is_shown_somewhere() -> None:
    everything = {command.command for commands in COMMANDS.values() for command in commands}
    assert not [glob for glob in NOT_RUN if not any(fnmatchcase(command, glob) for command in everything)]


SPANS = re.compile(r"`((?:qwen3-parity|make|pytest|python -m|python) [^`]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_within_sentences_name_what_there_is(page: Path) -> None:
    text = re.sub(r"```[\s\S]*?```", "", page.read_text(encoding="utf-8")).replace("\n", " ")
    targets, verbs = (ROOT / "Makefile").read_text(encoding="utf-8"), main.every_verb()
    wrong = []
    for span in SPANS.findall(text):
        program, first, *rest = span.replace("…", "").replace("python -m ", "python-m ").split()
        if program == "qwen3-parity":
            verb = verbs.get(" ".join([first, *rest[:1]])) or verbs.get(first)
            options = {option for parameter in verb.params for option in parameter.opts} if verb else set()
            if verb is None or any(part.startswith("--") and part not in options for part in rest):
                wrong.append(span)
        elif program == "make":
            family = first.rpartition("-")[0] + "-%:"
            if f"\n{first}:" not in targets and f"\n{family}" not in targets and first not in targets:
                wrong.append(span)
        elif program == "python-m":
            name = first.strip(".").replace(".", "/")
            places = ("golden", "reference", "impl", "tools", "tests")
            if not any((ROOT / p / f"{name}{end}").exists() for p in places for end in (".py", "/__main__.py", "")):
                wrong.append(span)
        else:
            wrong += [span for part in (first, *rest) if "/" in part and not (ROOT / part).exists()]
    assert not wrong
