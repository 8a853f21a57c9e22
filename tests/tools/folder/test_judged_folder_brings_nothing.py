"""Judging a folder runs nothing that lies in it and takes no configuration from it, by whatever road.

It runs `qwen3_parity.__main__`, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, Tensor, read, write

ROOT = GOLDEN_ROOT.parent
RUNS = "from pathlib import Path\nPath({marker!r}).touch()\n"
PASSES = "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]\n"
INI = "[{section}]\naddopts = -k nothing_of_this_name\npythonpath = .\n"
PLUGGED = "[pytest]\naddopts = -p evil\npythonpath = .\n"
TOML = '[tool.pytest.ini_options]\naddopts = "-k nothing_of_this_name"\n'
BY_CONFIGURATION: Mapping[str, tuple[str, str]] = {
    "pytest.ini": ("pytest.ini", INI.format(section="pytest")),
    "pyproject.toml": ("pyproject.toml", TOML),
    "tox.ini": ("tox.ini", INI.format(section="pytest")),
    "setup.cfg": ("setup.cfg", INI.format(section="tool:pytest")),
    "a plugin in addopts": ("pytest.ini", PLUGGED),
    "above it": ("../pytest.ini", INI.format(section="pytest")),
}


class Folder:
    """A folder with a wrong recording, `elsewhere` to run in, and tests that travelled in a package."""

    def __init__(self, root: Path) -> None:
        self.judged, self.elsewhere, packages = root / "theirs" / "out", root / "elsewhere", root / "packages"
        self.marker = root / "ran"
        for folder in (self.judged, self.elsewhere, packages / "judging_tests"):
            folder.mkdir(parents=True)
        golden = read(GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb")
        first = next(tap for tap in golden if tap.array.size and tap.array.dtype.kind == "f")
        tensors = [Tensor(t.info, t.array + 1) if t is first else t for t in golden]
        golden.tensors[:] = tensors
        write(self.judged / "dtypes.pb", golden)
        for name in ("conftest.py", "test_parity_plumbing.py"):
            shutil.copy(ROOT / "tests" / "parity" / name, packages / "judging_tests")
        (packages / "judging_tests" / "__init__.py").touch()
        self._path = [str(packages), *(entry for entry in sys.path if entry)]

    def add(self, name: str, text: str) -> None:
        (self.judged / name).write_text(text, encoding="utf-8")

    def add_code(self, name: str, then: str = "") -> None:
        """A file that leaves a mark when it is run."""
        self.add(name, RUNS.format(marker=str(self.marker)) + then)

    @property
    def ran(self) -> bool:
        return self.marker.exists()

    def pytest(
        self, *candidate: str, cwd: Path | None = None, module: bool = False, **environment: str
    ) -> tuple[int, str]:
        """Exit code and output of `pytest --pyargs judging_tests CANDIDATE`, or of `python -m pytest …`."""
        program = [sys.executable, "-m", "pytest"] if module else [shutil.which("pytest", path=SCRIPTS) or "pytest"]
        command = [*program, "-p", "qwen3_parity.plugin", "-p", "no:cacheprovider", "--pyargs", "judging_tests"]
        return self._run([*command, *candidate], cwd or self.elsewhere, environment)

    def parity(self, *arguments: str, module: bool) -> tuple[int, str]:
        """Exit code and output of a verb that runs in the judged folder."""
        program = ["-m", "qwen3_parity"] if module else [shutil.which("qwen3-parity", path=SCRIPTS) or ""]
        return self._run([sys.executable, *program, *arguments], self.judged, {})

    def _run(self, command: list[str], cwd: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        path = os.pathsep.join((*environment.get("PYTHONPATH", "").split(), *self._path))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env = clean | environment | {"PYTHONPATH": path}
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr


SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def refused(code: int, output: str) -> bool:
    return code == pytest.ExitCode.USAGE_ERROR and "no verdict of such a run counts" in output and "next:" in output


@pytest.mark.sample(every=7)
@pytest.mark.parametrize("road", BY_CONFIGURATION)
def test_no_configuration_of_the_folder_is_taken(road: str, folder: Folder) -> None:
    name, text = BY_CONFIGURATION[road]
    folder.add(name, text)
    folder.add_code("evil.py", PASSES)
    code, output = folder.pytest(f"--parity-candidate={folder.judged}")
    assert code == 1 and "judged, 1: plumbing/dtypes" in output and not folder.ran, output


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("road", BY_CONFIGURATION)
def test_where_pytest_took_it_before_we_knew_the_run_is_refused(road: str, folder: Folder) -> None:
    name, text = BY_CONFIGURATION[road]
    folder.add(name, text)
    folder.add_code("evil.py", PASSES)
    assert refused(*folder.pytest("--parity-candidate", str(folder.judged)))


@pytest.mark.sample(every=7)
@pytest.mark.parametrize("name", ["conftest.py", "../conftest.py", "test_more/conftest.py"])
@pytest.mark.parametrize("joined", [True, False])
def test_no_conftest_in_it_or_above_is_run(name: str, joined: bool, folder: Folder) -> None:
    (folder.judged / "test_more").mkdir()
    folder.add_code(name, PASSES)
    option = [f"--parity-candidate={folder.judged}"] if joined else ["--parity-candidate", str(folder.judged)]
    code, output = folder.pytest(*option)
    assert code == 1 and "judged, 1: plumbing/dtypes" in output and not folder.ran, output


@pytest.mark.parametrize("name", ["conftest.py", "test_more/conftest.py", "pytest.ini"])
def test_a_run_in_the_folder_is_refused_before_its_conftest_is_run(name: str, folder: Folder) -> None:
    (folder.judged / "test_more").mkdir()
    if name.endswith(".py"):
        folder.add_code(name, PASSES)
    else:
        folder.add(name, INI.format(section="pytest"))
    code, output = folder.pytest("--parity-candidate=.", cwd=folder.judged)
    assert refused(code, output) and not folder.ran and "cd " in output


def test_a_run_by_python_m_in_the_folder_is_refused(folder: Folder) -> None:
    folder.add_code("numpy.py", "raise SystemExit(0)\n")
    assert refused(*folder.pytest("--parity-candidate=.", cwd=folder.judged, module=True))


@pytest.mark.parametrize("name", ["sitecustomize.py", "plugged.py"])
def test_a_path_of_python_into_the_folder_is_refused(name: str, folder: Folder) -> None:
    folder.add_code(name)
    plugins = {"PYTEST_PLUGINS": "plugged"} if name == "plugged.py" else {}
    ran = folder.pytest(f"--parity-candidate={folder.judged}", PYTHONPATH=str(folder.judged), **plugins)
    assert refused(*ran)


def test_a_module_that_only_a_test_imports_is_refused(folder: Folder) -> None:
    folder.add_code("helper.py")
    text = (
        f"import importlib.util as u\ns = u.spec_from_file_location('helper', {str(folder.judged / 'helper.py')!r})\n"
    )
    text += "import sys\nm = u.module_from_spec(s)\nsys.modules['helper'] = m\ns.loader.exec_module(m)\n"
    (folder.elsewhere / "test_mine.py").write_text(text + "def test_it(): pass\n", encoding="utf-8")
    assert refused(*folder.pytest("test_mine.py", f"--parity-candidate={folder.judged}"))


def test_tests_that_lie_in_the_folder_are_refused(folder: Folder) -> None:
    folder.add_code("test_theirs.py", "def test_it(): pass\n")
    code, output = folder.pytest(str(folder.judged / "test_theirs.py"), f"--parity-candidate={folder.judged}")
    assert refused(code, output) and not folder.ran


def test_a_cache_of_failures_in_the_folder_chooses_no_tests(folder: Folder) -> None:
    code, output = folder.pytest(
        "--lf", "-p", "cacheprovider", "--rootdir", str(folder.judged), f"--parity-candidate={folder.judged}"
    )
    assert refused(code, output)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("above", [True, False])
def test_the_users_own_configuration_holds(above: bool, folder: Folder) -> None:
    directory = folder.elsewhere.parent if above else folder.elsewhere
    (directory / "pytest.ini").write_text("[pytest]\naddopts = -k nothing_of_this_name\n", encoding="utf-8")
    code, output = folder.pytest(f"--parity-candidate={folder.judged}")
    assert code != pytest.ExitCode.USAGE_ERROR and "1 passed" not in output and "deselected" in output, output


VERBS = (
    ("check", "."),
    ("check", "dtypes.pb"),
    ("diagnose", "."),
    ("report", ".", "--format", "markdown"),
    ("report", ".", "--format", "card", "--date", "2026-11-25"),
    ("parity", "--only", "op/rope"),
    ("show", "dtypes.pb"),
)


@pytest.mark.sample(every=9)
@pytest.mark.parametrize("module", [False, True], ids=["qwen3-parity", "python -m"])
@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_a_verb_that_runs_in_the_folder_imports_nothing_of_it(
    arguments: tuple[str, ...], module: bool, folder: Folder
) -> None:
    for name in ("qwen3_golden", "numpy", "click", "rich", "torch", "sitecustomize", "conftest", "typing", "json"):
        folder.add_code(f"{name}.py", "raise SystemExit(0)\n")
    folder.add("pytest.ini", PLUGGED)
    code, output = folder.parity(*arguments, module=module)
    assert not folder.ran, output
    assert output and "Traceback" not in output and code in (0, 1, 2), output
    assert code == 1 or arguments[0] not in ("check", "diagnose"), output
