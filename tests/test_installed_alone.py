"""The wheel alone, and what runs without an extra."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Tensor, read, write
from qwen3_parity.cli import main
from qwen3_parity.report import extras
from qwen3_reference.versions import SUPPORTED

ROOT = Path(__file__).resolve().parents[1]
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
_EXTRAS = sorted({package for packages in extras.EXTRAS.values() for package in packages})


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has no package of any extra."""
    code = _ALONE.format(packages=_EXTRAS, arguments=list(arguments))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


JUDGE = (
    ("check", PLAIN),
    ("diagnose", PLAIN),
    ("show", PLAIN),
    ("demo", "--out", "tour"),
    ("doctor",),
    ("report", PLAIN),
)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("arguments", JUDGE, ids=lambda arguments: arguments[0])
def test_the_judge_runs_without_any_extra(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = alone(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr


def test_a_folder_is_diagnosed_without_any_extra_but_for_its_tokenizer(tmp_path: Path) -> None:
    golden = read(GOLDEN_ROOT / "cases" / "tokenization" / "words.pb")
    next(encoding for encoding in golden.tokenization.encoding if encoding.id).id[0] += 1
    write(tmp_path / "words.pb", golden)
    network = read(PLAIN)
    norms = [item.info.name.endswith("q_norm") for item in network]
    tensors = [Tensor(t.info, t.array * 2) if norm else t for t, norm in zip(network, norms, strict=True)]
    write(tmp_path / "plain.pb", replace(network, tensors=tensors))
    done = alone(tmp_path, "diagnose", str(tmp_path))
    assert done.returncode == 1, done.stderr
    assert "decoder.layers.*.self_attn.q_norm: recorded at another place" in done.stdout
    assert "cannot be diagnosed here without the package " in done.stdout


def test_a_command_says_which_extra_it_needs(tmp_path: Path) -> None:
    done = alone(tmp_path, "parity")
    assert done.returncode == 2 and "pip install 'qwen3-parity[torch]'" in done.stderr


def test_only_a_model_that_is_streamed_needs_accelerate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "qwen3_reference.capture.streamed", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "accelerate"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    model = str(GOLDEN_ROOT / "checkpoints" / "bfloat16")
    small = ["capture", "--model", model, "--target-ids", "1,2,3", "--out", str(tmp_path)]
    done = CliRunner().invoke(main, small)
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, [*small[:-1], str(tmp_path / "streamed.pb"), "--stream"])
    assert done.exit_code == 2 and "pip install 'qwen3-parity[large]'" in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["request.pb"]


def test_the_demo_names_its_mistake_and_leaves_what_to_do_next(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert done.exit_code == 0 and "rope.interleaved: pairs adjacent channels" in done.output
    assert {"decoder", "report.html", "yours.py"} == {path.name for path in tmp_path.iterdir()}


def test_what_the_demo_leaves_records_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CliRunner().invoke(main, ["demo", "--out", str(tmp_path)]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    model = "transformers.AutoModelForCausalLM.from_pretrained(case.checkpoint, dtype='float32')"
    exec("import transformers\n" + (tmp_path / "yours.py").read_text(encoding="utf-8").replace("...", model, 1), {})
    assert CliRunner().invoke(main, ["diagnose", "build/parity/decoder/plain.pb"]).exit_code == 0


def test_the_doctor_knows_every_command_and_the_goldens() -> None:
    said = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).output)
    assert not said["problems"] and set(said["commands"]) == set(main.every_verb())


def test_the_extras_are_the_projects_and_the_references_floors_those_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    del project["dev"]
    packages = {
        name: tuple(re.split("[<>=]", requirement)[0] for requirement in requirements)
        for name, requirements in project.items()
    }
    assert packages == extras.EXTRAS
    for name, (first, beyond) in SUPPORTED.items():
        assert f"{name}>={'.'.join(map(str, first))},<{'.'.join(map(str, beyond))}" in project["reference"]


TEXT: dict[str, Any] = {"capture_output": True, "text": True, "check": False}


def pythons() -> list[str]:
    """The oldest and the newest Python of those that the project's classifiers name and that are installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = []
    for name in (
        classifier.rpartition(" ")[2] for classifier in project["classifiers"] if ":: Python ::" in classifier
    ):
        on_path, by_pyenv = shutil.which(f"python{name}"), Path.home().glob(f".pyenv/versions/{name}.*/bin/python")
        for python in filter(None, (on_path, *map(str, by_pyenv))):
            said = subprocess.run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], **TEXT)
            if said.stdout.strip() == name:
                pythons.append(python)
                break
    return list(dict.fromkeys((pythons[:1] or [sys.executable]) + pythons[-1:]))


PYTHONS = pythons()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of this checkout, the sdist, and the wheel that is made of the sdist."""
    folder = tmp_path_factory.mktemp("built")
    venv.create(folder / "hatch", with_pip=True)
    python = str(folder / "hatch" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "hatchling"], check=True)

    def build(kind: str, root: Path, name: str) -> Path:
        command = [python, "-m", "hatchling", "build", "-t", kind, "-d", str(folder / name)]
        subprocess.run(command, cwd=root, check=True, capture_output=True)
        return next((folder / name).iterdir())

    wheel, sdist = build("wheel", ROOT, "wheel"), build("sdist", ROOT, "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    again = build("wheel", next((folder / "unpacked").iterdir()), "again")
    return {"wheel": wheel, "again": again}


def hashes(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(built: dict[str, Path]) -> None:
    assert hashes(built["wheel"]) == hashes(built["again"])


@pytest.mark.slow
def test_of_the_tests_those_that_judge_travel_and_nothing_that_seeds(built: dict[str, Path]) -> None:
    names = [name for name in hashes(built["wheel"]) if "test" in name.rpartition("/")[2] or "detection" in name]
    judging = [f"test_parity_{name}.py" for name in ("components", "plumbing", "tokenization")]
    assert sorted(names) == [f"qwen3_parity/tests/{name}" for name in ("conftest.py", *judging)]


@dataclass(frozen=True)
class Home:
    """An environment that has the wheel alone, and an empty folder to run in."""

    root: Path
    empty: Path

    def run(self, *command: str, code: int = 0, stream: str = "stdout") -> str:
        """The output of a command that exits with `code`; nothing of this checkout is on its path."""
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
        done = subprocess.run([str(self.root / "bin" / command[0]), *command[1:]], cwd=self.empty, env=clean, **TEXT)
        assert done.returncode == code, done.stdout + done.stderr
        return str(getattr(done, stream))

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())


ENVIRONMENTS = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "qwen3-parity" / "versions"
"""Those with torch have gigabytes, and are made once."""
VERSIONS = {
    "oldest": ("torch==2.4.0", "transformers==4.51.0", "numpy==2.0.2", "protobuf==5.26.0"),
    "newest": ("torch", "transformers<6", "numpy", "protobuf<8"),
    "protobuf-5": ("protobuf==5.26.0",),
    "protobuf-6": ("protobuf==6.33.6",),
    "protobuf-7": ("protobuf==7.36.2",),
}
"""The ends of what the extra [torch] and the judge run with, and every major version of protobuf between them."""


@pytest.fixture
def versioned(request: pytest.FixtureRequest, built: dict[str, Path], tmp_path: Path) -> Home:
    """The wheel beside the `VERSIONS` of the test's parameter; skips, visibly, where they cannot be installed."""
    there, versions = Home(ENVIRONMENTS / request.param, tmp_path), VERSIONS[request.param]
    if not (there.root / "ready").is_file():
        shutil.rmtree(there.root, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(there.root)], check=True)
        install = [there.root / "bin" / "pip", "install", "--quiet", *versions, str(built["wheel"])]
        if (done := subprocess.run(install, **TEXT)).returncode:
            pytest.skip(f"no environment with {', '.join(versions)}: {done.stderr.strip()[-300:]}")
        (there.root / "ready").touch()
    there.run("pip", "install", "--quiet", "--force-reinstall", "--no-deps", str(built["wheel"]))
    print(f"{request.param}: {', '.join(sorted(there.run('pip', 'freeze').splitlines()))}")
    return there


@pytest.fixture(scope="module", params=PYTHONS, ids=lambda python: "-".join(Path(python).parts[-3:]))
def home(request: pytest.FixtureRequest, built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Home:
    """The base install of a Python; it is measured, then pytest joins it."""
    folder = tmp_path_factory.mktemp("home")
    subprocess.run([request.param, "-m", "venv", str(folder / "home")], check=True)
    installed = Home(folder / "home", folder / "empty")
    installed.empty.mkdir()
    before = installed.size
    installed.run("pip", "install", "--quiet", "--disable-pip-version-check", str(built["wheel"]))
    megabytes = (installed.size - before) / 1e6
    print(f"the base install under {installed.run('python', '--version').strip()}: {megabytes:.0f} MB")
    assert megabytes <= 150
    installed.run("pip", "install", "--quiet", "--disable-pip-version-check", "pytest>=9.0")
    return installed


@pytest.mark.slow
def test_the_wheel_alone_is_enough(home: Home) -> None:
    assert "rope.interleaved" in home.run("qwen3-parity", "demo", "--out", "tour")
    assert "as released" in home.run("qwen3-parity", "doctor")
    site = home.run("python", "-c", "import qwen3_golden; print(qwen3_golden.GOLDEN_ROOT)").strip()
    assert str(home.root) in site
    for verb in ("check", "diagnose", "show"):
        assert home.run("qwen3-parity", verb, f"{site}/cases/decoder/plain.pb")
    assert home.run("qwen3-parity", "show", "decoder/plain", "tour/decoder/plain.pb", "--json")
    assert home.run("qwen3-parity", "show", "docs/glossary.md").startswith("# Glossary")
    assert home.run("qwen3-parity", "show", "golden/README.md").startswith("# ")
    assert "Parity in decoder/plain" in home.run("qwen3-parity", "report", f"{site}/cases/decoder/plain.pb")
    page = (home.empty / "build" / "report.html").read_text(encoding="utf-8")
    assert "vegaEmbed" in page


@pytest.mark.slow
def test_the_plugin_is_found_and_an_array_is_judged_there(home: Home) -> None:
    test = """
def test_it(golden, assert_parity):
    tap = "decoder.layers.0.merged_attn.q_norm"
    assert_parity(golden("decoder/plain").golden[tap, 0].array, "decoder/plain", tap)
"""
    (home.empty / "test_theirs.py").write_text(test, encoding="utf-8")
    assert "1 passed" in home.run("pytest", "test_theirs.py")
    assert "1 passed" in home.run("pytest", "-p", "qwen3_parity.plugin", "test_theirs.py")
    assert "assert_parity [session scope]" in home.run("pytest", "--fixtures", "test_theirs.py")


@pytest.mark.slow
def test_a_folder_of_candidates_is_judged_by_the_tests_that_travelled(home: Home) -> None:
    home.run("qwen3-parity", "demo", "--out", "candidates")
    output = home.run("pytest", "--pyargs", "qwen3_parity.tests", "--parity-candidate=candidates", code=1)
    lines = output.splitlines()
    first = lines[next(number for number, line in enumerate(lines) if line.strip("= ") == "parity") + 1]
    assert first.startswith("rope.interleaved at decoder.layers.*.self_attn.q_rope, decoder.layers.*")
    assert len(lines) <= 60, output
    assert "pip install 'qwen3-parity[torch]'" in home.run(
        "pytest", "--pyargs", "qwen3_parity.tests", "-k", "norm and encoder/one_token", code=1
    )


OWN_NAMES = """
import sys
import torch
import qwen3_parity
from plain_qwen3 import PlainQwen3
names = {
    "wte": "embed_tokens",
    "blocks.{layer}.n1": "input_layernorm",
    "blocks.{layer}.mix.wqkv": ["q_proj", "k_proj", "v_proj"],
    "blocks.{layer}.mix.wo:input": "context",
    "blocks.{layer}": "output",
    "ln_f": "norm",
}
case = qwen3_parity.golden("decoder/plain")
model = PlainQwen3(case.checkpoint, interleaved="interleaved" in sys.argv)
with qwen3_parity.record(model, case, names) as recording, torch.no_grad():
    model(case.inputs["input_ids"])
"""
FACTORY = """
import torch
from plain_qwen3 import PlainQwen3
def build(case, checkpoints):
    return PlainQwen3(checkpoints["decoder"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("versioned", ["oldest", "newest"], indirect=True)
def test_a_model_of_own_names_is_recorded_and_judged_with_the_ends_of_the_versions(versioned: Home) -> None:
    shutil.copy(ROOT / "tests" / "tools" / "recording" / "plain_qwen3.py", versioned.empty)
    (versioned.empty / "own_names.py").write_text(OWN_NAMES, encoding="utf-8")
    (versioned.empty / "factory.py").write_text(FACTORY, encoding="utf-8")
    recording = "build/parity/decoder/plain.pb"
    versioned.run("python", "-W", "error", "own_names.py")
    assert "decoder/plain: parity" in versioned.run("qwen3-parity", "check", recording)
    assert "is right" in versioned.run("qwen3-parity", "diagnose", recording)
    versioned.run("python", "-W", "error", "own_names.py", "interleaved")
    assert "rope.interleaved" in versioned.run("qwen3-parity", "diagnose", recording, code=1)
    assert "rope.interleaved" in versioned.run("qwen3-parity", "report", recording, code=1)
    versioned.run("qwen3-parity", "match-names", "decoder/plain", "--impl", "factory:build", "--out", "names.toml")
    versioned.run("qwen3-parity", "record", "decoder/plain", "--impl", "factory:build", "--names", "names.toml")
    assert "decoder/plain: parity" in versioned.run("qwen3-parity", "check", recording)
    versioned.run("qwen3-parity", "dump", "export", recording, "--out", "dump.safetensors")
    versioned.run("qwen3-parity", "dump", "import", "decoder/plain", "dump.safetensors", "--out", "again.pb")
    assert "decoder/plain: parity" in versioned.run("qwen3-parity", "check", "again.pb")


REFUSED = """the reference and our implementation: they run with the libraries that made the goldens; \
a model of your own is recorded with older ones
  expected: torch >= 2.13, < 3, transformers >= 5.23, < 6
  got:      torch 2.4.0, transformers 4.51.0
  next:     pip install 'qwen3-parity[reference]' in an environment of its own; record your model by --impl
"""


@pytest.mark.slow
@pytest.mark.parametrize("versioned", ["oldest"], indirect=True)
def test_only_the_reference_and_our_implementation_are_pinned(versioned: Home) -> None:
    tiny = ("capture", "--tiny", "qwen3", "--out", "tiny")
    for command in (("record", "decoder/plain"), ("parity", "-q"), ("regenerate", "-q"), tiny):
        assert versioned.run("qwen3-parity", *command, code=2, stream="stderr").endswith(REFUSED)
    assert not list(versioned.empty.rglob("*.pb"))


@pytest.mark.slow
@pytest.mark.parametrize("versioned", ["protobuf-5", "protobuf-6", "protobuf-7"], indirect=True)
def test_the_judge_runs_with_every_major_version_of_protobuf(versioned: Home) -> None:
    kind = "from google.protobuf.internal.api_implementation import Type; print(Type())"
    assert versioned.run("python", "-W", "error", "-c", f"import qwen3_golden\n{kind}") == "upb\n"
    assert "as released" in versioned.run("qwen3-parity", "doctor")
    assert "rope.interleaved" in versioned.run("qwen3-parity", "demo", "--out", "tour")
    versioned.run("qwen3-parity", "check", "tour/decoder/plain.pb", code=1)
