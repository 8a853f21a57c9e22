"""The wheel alone, and what runs without an extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT
from qwen3_parity.cli import main
from qwen3_parity.report import extras

ROOT = Path(__file__).resolve().parents[2]
PLAIN = str(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
_ALONE = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from qwen3_parity.cli import main
main({arguments})
"""
_EXTRAS = sorted({extras.MODULES.get(one, one) for packages in extras.EXTRAS.values() for one in packages})


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has no package of any extra."""
    code = _ALONE.format(packages=_EXTRAS, arguments=list(arguments))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


JUDGE = (
    ("check", PLAIN),
    ("diagnose", PLAIN),
    ("show", PLAIN),
    ("demo", "tour"),
    ("doctor",),
    ("report", PLAIN, "--format", "markdown"),
)


@pytest.mark.parametrize("arguments", JUDGE, ids=lambda arguments: arguments[0])
def test_the_judge_runs_without_any_extra(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = alone(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("arguments", "extra"), [(("parity",), "torch"), (("report", PLAIN), "report")])
def test_a_command_says_which_extra_it_needs(tmp_path: Path, arguments: tuple[str, ...], extra: str) -> None:
    done = alone(tmp_path, *arguments)
    assert done.returncode == 2
    assert f"pip install 'qwen3-parity[{extra}]'" in done.stderr


def test_the_demo_says_how_to_get_the_plots(tmp_path: Path) -> None:
    assert alone(tmp_path, "demo", "tour").returncode == 0
    page = (tmp_path / "tour" / "report.html").read_text(encoding="utf-8")
    assert "pip install 'qwen3-parity[report]'" in page.partition("<script")[0]


def test_the_demo_names_its_mistake_and_leaves_what_to_do_next(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", str(tmp_path)])
    assert done.exit_code == 0 and "rope.interleaved: pairs adjacent channels" in done.output
    assert {"decoder", "report.html", "yours.py"} == {one.name for one in tmp_path.iterdir()}


def test_what_the_demo_leaves_records_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(main, ["demo", str(tmp_path)]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    model = "transformers.AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype='float32')"
    exec("import transformers\n" + (tmp_path / "yours.py").read_text(encoding="utf-8").replace("...", model, 1), {})
    assert CliRunner().invoke(main, ["diagnose", "build/parity/decoder/plain.pb"]).exit_code == 0


def test_the_doctor_knows_every_command_and_the_goldens() -> None:
    said = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    assert not said["problems"] and set(said["commands"]) == set(main.list_commands(click.Context(main)))


@pytest.mark.slow
def test_the_wheel_alone_is_enough(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    home, empty = tmp_path / "home", tmp_path / "empty"
    venv.create(home, with_pip=True)
    empty.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: str) -> str:
        done = subprocess.run(
            [str(home / "bin" / command[0]), *command[1:]], cwd=empty, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    before = _size(home)
    run("pip", "install", "--quiet", str(wheel))
    print(f"the base install: {(_size(home) - before) / 1e6:.0f} MB")
    assert "rope.interleaved" in run("qwen3-parity", "demo", "tour")
    assert "as released" in run("qwen3-parity", "doctor")
    site = run("python", "-c", "import qwen3_golden; print(qwen3_golden.GOLDEN_ROOT)").strip()
    for verb in ("check", "diagnose", "show"):
        assert run("qwen3-parity", verb, f"{site}/cases/decoder/plain.pb")
    assert str(home) in site
    run("pip", "install", "--quiet", f"{wheel}[report]")
    assert "Parity in decoder/plain" in run("qwen3-parity", "report", f"{site}/cases/decoder/plain.pb")
    page = (empty / "build" / "report.html").read_text(encoding="utf-8")
    assert "vegaEmbed" in page and "qwen3-parity[report]" not in page


def _size(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
