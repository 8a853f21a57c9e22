"""The plugin in somebody else's project: its fixtures, what a red run ends with, and that it is in nobody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_golden.writer import write
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.demonstrated import with_mistake
from qwen3_parity.diagnosis.mistake import Mistake
from qwen3_parity.report import closing
from qwen3_parity.report.sums import red_tests

CASE = "decoder/yarn_mscale"
PROJECT = """
import pytest

@pytest.mark.parametrize("end", ["input_layernorm", "q_norm", "0.merged_attn.scores", "0.merged_attn.q_rope"])
def test_taps(judge, golden, end):
    verdicts = judge(golden("decoder/yarn_mscale"), CANDIDATE)
    judge.require(verdicts, [tap for tap in verdicts.taps if tap.name.endswith(end)])

def test_of_something_else():
    assert "somebody" == "else"
"""


@dataclass(frozen=True)
class Ran:
    """A run of pytest: exit code, lines, and where the closing section begins."""

    code: int
    lines: list[str]
    command: str

    @property
    def section(self) -> list[str]:
        start = next(number for number, line in enumerate(self.lines) if line.strip("= ") == "parity")
        return self.lines[start + 1 : -1]


def run(folder: Path, *options: str, **environment: str) -> Ran:
    """`pytest OPTIONS` in a folder, with the plugin and without what this process was told."""
    clean = {name: value for name, value in os.environ.items() if name not in ("GITHUB_ACTIONS", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-p", "qwen3_parity.plugin", "-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=folder, env=clean | environment, capture_output=True, text=True, check=False)
    return Ran(done.returncode, done.stdout.splitlines(), f"next: qwen3-parity diagnose {folder / 'candidate.pb'}")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tests of a recording in which the norm of queries has another eps."""
    folder = tmp_path_factory.mktemp("elsewhere")
    golden = read(GOLDEN_ROOT / "cases" / f"{CASE}.pb")
    wrong = with_mistake(golden, weights_of(golden, GOLDEN_ROOT / "checkpoints"), "norm.eps", ["q_norm"])
    write(folder / "candidate.pb", wrong)
    text = f"CANDIDATE = {str(folder / 'candidate.pb')!r}\n{PROJECT}"
    (folder / "test_theirs.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def quiet(project: Path) -> Ran:
    return run(project)


@pytest.fixture(scope="module")
def verbose(project: Path) -> Ran:
    return run(project, "-v", "--junitxml=junit.xml", GITHUB_ACTIONS="true")


def test_the_closing_section_begins_with_the_op_and_the_mistake(quiet: Ran) -> None:
    first, fix, command, case, *tests, compared, contract = quiet.section
    assert first.startswith("norm.eps at decoder.layers.*.self_attn.q_norm: it uses eps ")
    assert fix.startswith("  fix: read rms_norm_eps; behind 1 of 1 red cases")
    assert command == quiet.command
    assert case.startswith(f"{CASE}: divergence, run and ops, ") and case.endswith("; norm.eps")
    names = ["FAILED test_theirs.py::test_taps[q_norm]", "DOWNSTREAM test_theirs.py::test_taps[0.merged_attn.scores]"]
    assert tests == names
    assert compared.startswith("106 of 106 taps compared in 1 cases") and contract.startswith("judged by ")


def test_what_is_red_only_downstream_is_counted_by_itself_and_the_run_fails(quiet: Ran) -> None:
    assert quiet.code == 1
    assert "2 failed, 2 passed, 1 downstream" in quiet.lines[-1]


def test_a_test_that_judges_nothing_is_shown_as_ever(quiet: Ran) -> None:
    text = "\n".join(quiet.lines)
    assert "____ test_of_something_else ____" in text and "FAILED test_theirs.py::test_of_something_else" in text
    assert "____ test_taps" not in text and text.count("FAILED test_theirs.py::test_taps[q_norm]") == 1


@pytest.mark.slow
def test_verbose_shows_the_rest_a_line_for_each_downstream(verbose: Ran) -> None:
    text = "\n".join(verbose.lines)
    assert "____ test_taps[q_norm] ____" in text and "fault:    candidate" in text
    assert "[0.merged_attn.scores] DOWNSTREAM" in text and "____ test_taps[0.merged_attn.scores]" not in text
    (line,) = [line for line in verbose.section if line.startswith("test_theirs.py::test_taps[0.merged_attn.scores]: ")]
    assert line.endswith("though right on its own inputs: downstream of decoder.layers.0.self_attn.q_norm")


def test_junit_has_the_op_to_blame(verbose: Ran, project: Path) -> None:
    tests = ElementTree.parse(project / "junit.xml").iter("testcase")
    said = {
        test.get("name"): {entry.get("name"): entry.get("value") for entry in test.iter("property")} for test in tests
    }
    blamed = "decoder.layers.*.self_attn.q_norm"
    assert said["test_taps[q_norm]"] == {"blamed": blamed, "red": "itself"}
    assert said["test_taps[0.merged_attn.scores]"] == {"blamed": blamed, "red": "downstream"}
    assert said["test_taps[input_layernorm]"] == {}


def test_on_github_the_op_is_an_annotation_and_nowhere_else(verbose: Ran, quiet: Ran) -> None:
    (line,) = [line for line in verbose.lines if line.startswith("::error")]
    head, _, text = line.removeprefix("::error ").partition("::")
    assert head == "title=norm.eps at decoder.layers.*.self_attn.q_norm"
    assert "%0Afix: read rms_norm_eps%0A" in text and text.endswith(f"in {CASE}")
    assert not any(line.startswith("::error") for line in quiet.lines)


def test_red_tests_are_named_those_first_whose_op_is_wrong_and_the_rest_is_counted() -> None:
    assert list(red_tests(["a::b"], ["a::c"])) == ["FAILED a::b", "DOWNSTREAM a::c"]
    *named, more = red_tests([f"a::b[{number}]" for number in range(7)], ["a::c", "a::d", "a::e"])
    assert named[-1] == "DOWNSTREAM a::c" and len(named) == 8 and more == "and 2 more red tests (-v names them)"
    assert list(red_tests([], [])) == []


@pytest.mark.slow
def test_a_traceback_of_ones_own_choice_names_each_red_test_once(project: Path) -> None:
    text = "\n".join(run(project, "--tb=line").lines)
    assert text.count("FAILED test_theirs.py::test_taps[q_norm]") == 1
    assert text.count("DOWNSTREAM test_theirs.py::test_taps[0.merged_attn.scores]") == 1


def test_an_annotation_is_escaped_as_github_reads_it() -> None:
    mistake = Mistake("50 %", ("is\nthis\rone",), "a, b", ("x:y,z",), ("c",))
    (line,) = closing.github([mistake])
    assert line == "::error title=50 %25 at x%3Ay%2Cz::it is%0Athis\\rone%0Afix: a, b%0Aat x:y,z%0Ain c"


@pytest.mark.slow
def test_a_worker_sends_what_the_diagnosis_needs(project: Path, quiet: Ran) -> None:
    assert run(project, "-n", "1").section == quiet.section


SEEDED = """
from qwen3_encdec.attention import ProjectedAttention

right = ProjectedAttention.__init__

def wrong(self, *arguments, **options):
    right(self, *arguments, **options)
    if hasattr(self, "q_norm"):
        self.q_norm.variance_epsilon *= 10

ProjectedAttention.__init__ = wrong
"""


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param((), id="all"),
        pytest.param(("-k", "encoder/ragged or mask_given"), id="some"),
    ],
)
@pytest.mark.slow  # whole suites in processes of their own
def test_one_seeded_bug_of_our_implementation_does_not_drown(tests: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "seeded_eps.py").write_text(SEEDED, encoding="utf-8")
    files = (
        [f"tests/parity/test_parity_{name}.py" for name in ("components", "mask_given")] if tests else ["tests/parity"]
    )
    ran = run(GOLDEN_ROOT.parent, "-p", "seeded_eps", *files, *tests, PYTHONPATH=str(tmp_path))
    assert ran.code == 1 and len(ran.lines) <= 60, "\n".join(ran.lines)
    first, fix, *rest = ran.section
    assert first.startswith("norm.eps at ") and ".q_norm" in first and "it uses eps 1e-05 instead of 1e-06" in first
    assert fix.startswith("  fix: read rms_norm_eps; behind ")
    assert any(line.startswith("encoder/ragged: divergence, ") and "norm.eps" in line for line in rest) or not tests
    assert any(line.startswith("red as well, ") and "test_parity_mask_given.py 4" in line for line in rest)


def test_an_empty_project_has_the_fixtures_with_a_line_each_and_no_framework(tmp_path: Path) -> None:
    ran = run(tmp_path, "--fixtures", "-q")
    text = "\n".join(ran.lines)
    assert ran.code == 0
    for begin in ("assert_parity [session scope] -- ", "golden [session scope] -- ", "judge [session scope] -- "):
        assert begin in text
    heavy = ["numpy", "google.protobuf", "rich", "torch"]
    code = f"import pytest, sys; import qwen3_parity.plugin; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_fixtures_and_options_of_the_same_names_stay_the_projects(tmp_path: Path) -> None:
    conftest = "import pytest\n\n@pytest.fixture\ndef golden():\n    return 'theirs'\n\n"
    conftest += "def pytest_addoption(parser):\n    for one in ('--candidate', '--partial', '--backend'):\n"
    conftest += "        parser.addoption(one, default='theirs')\n"
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    test = "def test_it(golden, request):\n    assert golden == request.config.getoption('--backend') == 'theirs'\n"
    (tmp_path / "test_it.py").write_text(test, encoding="utf-8")
    ran = run(tmp_path)
    assert ran.code == 0 and not any("parity" in line.strip("= ") for line in ran.lines[-2:]), ran.lines
