"""A port as a process: what it is asked, what its answers come to, and that nothing it does stops the run."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_golden.contract import released_cases
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.conformance.known import Known, expected, surprises
from qwen3_parity.conformance.port import Limits
from qwen3_parity.conformance.requests import request_for
from qwen3_parity.conformance.run import Conformance, conformance
from qwen3_parity.judge.candidates import golden_names

GOLDENS = golden_names()
CASES = ("op/linear", "op/rope", "op/swiglu")
PORT = f"""
import importlib.util, os, pathlib, sys, time

spec = importlib.util.spec_from_file_location("golden_pb2", {str(GOLDEN_ROOT / "qwen3_golden" / "golden_pb2.py")!r})
pb = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pb)
cases, how, at = pathlib.Path({str(GOLDEN_ROOT / "cases")!r}), sys.argv[1], sys.argv[2]


def say(answer):
    sys.stdout.buffer.write(len(answer).to_bytes(4, "little") + answer)
    sys.stdout.buffer.flush()


while size := sys.stdin.buffer.read(4):
    request = pb.ConformanceRequest.FromString(sys.stdin.buffer.read(int.from_bytes(size, "little")))
    name = pb.Recording.FromString(request.recording).case.name
    answer = pb.ConformanceAnswer(id=request.id, recording=(cases / (name + ".pb")).read_bytes())
    if name == at or at == "always":
        HOSTILE
    say(answer.SerializeToString())
while how == "stays":
    time.sleep(60)
"""
HOSTILE = {
    "exits": ("sys.exit(3)", "exits with code 3 without an answer"),
    "hangs": ("time.sleep(60)", ""),
    "another_request": ("answer.id += 1", "answers request"),
    "another_case": ("answer.recording = (cases / 'op' / 'scores.pb').read_bytes()", "a recording of 'op/scores'"),
    "error": ("answer.error = 'no\\n  kernel'", "error: no kernel"),
    "twice": ("say(answer.SerializeToString())", ""),
    "wrong_inputs": (
        "golden = pb.Recording.FromString(answer.recording); answer.recording = request.recording",
        "divergence: ",
    ),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A port that answers with the goldens, and at a case does what is asked of it."""
    path = tmp_path_factory.mktemp("port") / "port.py"
    choices = [
        f"{'if' if not n else 'elif'} how == {name!r}: {code}" for n, (name, (code, _)) in enumerate(HOSTILE.items())
    ]
    path.write_text(PORT.replace("HOSTILE", "\n        ".join(choices)), encoding="utf-8")
    return path


def asked(port: Path, out: Path, how: str = "honest", at: str = "", **options: object) -> Conformance:
    limits = options.pop("limits", Limits(20.0))
    return conformance([sys.executable, str(port), how, at], CASES, out, limits=limits, **options)  # type: ignore[arg-type]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["conformance", *map(str, arguments)])


def given(name: str) -> tuple[Recording, Recording]:
    """A golden, and what a port is given of it."""
    return read(GOLDENS[name]), parsed(request_for(name, GOLDENS).recording)


def parsed(content: bytes) -> Recording:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pb") as file:
        file.write(content)
        file.flush()
        return read(file.name, digests=True)


@pytest.mark.parametrize(
    "name", ["decoder/plain", "encdec/qwen2", "classic/bert", "training/tied", "generation/sample"]
)
def test_a_request_has_every_input_and_every_weight_and_nothing_else(name: str) -> None:
    golden, request = given(name)
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    names = {t.info.name for t in request}
    inputs = {t.info.name for t in golden if t.info.name.startswith("input.")}
    tables = {t.info.name for t in golden if t.info.op in ("cos", "sin")}
    assert names == inputs | tables | {f"parameter.{one}" for one in weights}
    assert all(np.array_equal(request[f"parameter.{one}", 0].array, weights[one]) for one in weights)
    assert all(
        np.array_equal(request[key].array, golden[key].array)
        for key in [t.key for t in golden if t.info.name in inputs]
    )
    assert request.case == golden.case and request.run == golden.run


def test_a_request_for_an_op_has_its_inputs_and_no_output() -> None:
    golden, request = given("op/linear_bias")
    assert [t.info.name for t in request] == [t.info.name for t in golden if not t.info.name.startswith("output.")]


def test_a_request_for_the_format_is_the_whole_file() -> None:
    assert request_for("plumbing/dtypes", GOLDENS).recording == GOLDENS["plumbing/dtypes"].read_bytes()


def test_a_request_for_a_tokenizer_has_the_texts_and_the_tokenizer_and_no_ids() -> None:
    message = request_for("tokenization/words", GOLDENS)
    texts = parsed(message.recording).tokenization.encoding
    assert texts and not any(one.id or one.segment or one.offset for one in texts)
    assert pb.Tokenizer.FromString(message.tokenizer).header.magic == "qwen3.tokenizer"


def test_a_request_brings_the_case_that_runs_before_it() -> None:
    message = request_for("encdec/second_request", GOLDENS)
    assert parsed(message.prior).case.name == "encdec/window"


def test_no_port_is_asked_unbidden_for_models_that_only_their_graph_describes(port: Path) -> None:
    command = ("--", sys.executable, port, "honest", "")
    alone = run("--only", "model/*", *command)
    assert alone.exit_code == 2 and "only by --case" in alone.stderr and "conformance --case" in alone.stderr
    both = run("--only", "model/*", "--only", "op/rope", "--json", *command)
    assert both.exit_code == 0 and '"op/rope"' in both.stdout and '"model/' not in both.stdout


def test_answers_are_judged_as_files_are(port: Path, tmp_path: Path) -> None:
    found = asked(port, tmp_path)
    assert found.folder is not None and not found.failed and not found.answers.remarks
    assert [(one.case.name, one.word) for one in found.folder.results] == [(name, "parity") for name in CASES]
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.pb")) == [
        f"{name}.pb" for name in CASES
    ]


@pytest.mark.parametrize("how", [how for how, (_, line) in HOSTILE.items() if line])
def test_whatever_a_port_does_at_a_case_is_one_line_and_the_run_goes_on(
    how: str, port: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen3_parity.conformance.port._ENDS", 0.5)
    found = asked(port, tmp_path, how, CASES[1])
    assert set(found.failed) == {CASES[1]}
    assert HOSTILE[how][1] in found.failed[CASES[1]] and "\n" not in found.failed[CASES[1]]
    assert len(found.failed[CASES[1]]) < 400
    assert found.folder is not None
    assert {one.case.name for one in found.folder.results if not one.exit_code} == {CASES[0], CASES[2]}


@pytest.mark.parametrize("at", CASES[1:])
def test_an_answer_that_nobody_asked_for_fails(at: str, port: Path, tmp_path: Path) -> None:
    found = asked(port, tmp_path, "twice", at)
    assert found.failed or found.answers.remarks


def test_a_port_that_gives_no_answer_again_and_again_is_asked_no_more(port: Path, tmp_path: Path) -> None:
    names = [name for name in GOLDENS if name.startswith("op/mask")]
    found = conformance([sys.executable, str(port), "hangs", "always"], names, tmp_path, limits=Limits(0.4))
    assert len(found.failed) == len(names) and found.folder is None
    assert sum(line.startswith("not asked") for line in found.failed.values()) == len(names) - 5


def test_a_port_that_does_not_end_is_ended(port: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qwen3_parity.conformance.port._ENDS", 0.3)
    assert asked(port, tmp_path, "stays").answers.remarks == [f"after {CASES[-1]}: does not end where its input does"]


def test_memory_is_limited(port: Path, tmp_path: Path) -> None:
    hungry = port.with_name("hungry.py")
    hungry.write_text(port.read_text().replace("while size", "held = bytearray(1 << 31)\nwhile size"))
    found = asked(hungry, tmp_path, limits=Limits(20.0, memory=1 << 30))
    assert len(found.failed) == len(CASES) and "MemoryError" in found.failed[CASES[0]]


def test_several_processes_answer_side_by_side(port: Path, tmp_path: Path) -> None:
    found = asked(port, tmp_path, jobs=3)
    assert found.folder is not None and len(found.folder.results) == 3 and not found.failed


def test_what_ends_one_of_several_ends_the_others(port: Path, tmp_path: Path) -> None:
    names, asked_for = [name for name in GOLDENS if name.startswith("op/")], []

    def interrupted(text: str) -> None:
        asked_for.append(text)
        if text == f"asking {names[1]}":
            raise KeyboardInterrupt

    command, limits = [sys.executable, str(port), "honest", ""], Limits(20.0)
    result = conformance(command, names, tmp_path, limits=limits, jobs=2, progress=interrupted)
    assert isinstance(result.stopped, KeyboardInterrupt)
    assert len(asked_for) < len(names) // 2 < len(result.not_judged)


def test_a_folder_with_recordings_is_no_place_for_answers(port: Path, tmp_path: Path) -> None:
    (tmp_path / "old.pb").write_bytes(b"")
    done = run("--only", "op/rope", "--out", tmp_path, "--", sys.executable, port, "honest", "")
    assert done.exit_code == 2 and "holds recordings" in done.output


def test_a_port_that_is_not_there_is_refused() -> None:
    done = run("--only", "op/rope", "--", "/no/such/port")
    assert done.exit_code == 2 and "cannot be started" in done.output


def test_the_command_judges_a_level(port: Path) -> None:
    done = run("--level", "reader", "--", sys.executable, port, "honest", "")
    assert done.exit_code == 0 and "parity in 5 of 5 cases" in done.stdout, done.output


def test_the_command_exits_with_1_for_a_failure_and_with_0_where_it_is_known(port: Path, tmp_path: Path) -> None:
    words = ("--level", "reader", "--", sys.executable, port, "error", "plumbing/dtypes")
    done = run(*words)
    assert done.exit_code == 1 and "plumbing/dtypes: error: no kernel" in done.stdout
    (tmp_path / "known.txt").write_text("# ours\nplumbing/dtypes  # error: no kernel\n")
    assert run("--known", tmp_path / "known.txt", *words).exit_code == 0


def test_a_case_that_is_not_supported_fails_only_where_a_level_asks_for_it(port: Path, tmp_path: Path) -> None:
    lacking = port.with_name("lacking.py")
    lacking.write_text(
        port.read_text().replace(
            "if name == at", "if name == 'plumbing/dtypes':\n        answer.unsupported = 'F64'\n    if name == at"
        )
    )
    words = ("--", sys.executable, lacking, "honest", "")
    done = run("--only", "plumbing/*", *words)
    assert done.exit_code == 0 and "not supported, 1: plumbing/dtypes (F64)" in done.stdout
    done = run("--level", "reader", *words)
    assert done.exit_code == 1 and "plumbing/dtypes: unsupported: F64" in done.stdout


def test_the_numpy_port_computes_what_it_is_asked_from_requests_alone(tmp_path: Path) -> None:
    names = ["block/causal", "decoder/plain", "decoder/yarn_stated", "generation/greedy", "op/rope", "training/causal"]
    names += [
        "plumbing/dtypes",
        "encdec/bfloat16",
        "encdec/qwen2",
        "encoder/ragged",
        "op/rms_norm_float16",
    ]
    process = GOLDEN_ROOT.parent / "examples" / "numpy_process.py"
    found = conformance([sys.executable, str(process)], names, tmp_path, limits=Limits(60.0))
    assert found.failed == {} and found.answers.unsupported == {"training/causal": "training"}
    assert found.folder is not None and [one.word for one in found.folder.results] == ["parity"] * 10
    networks = [one for one in found.folder.results if not one.case.name.startswith(("op/", "plumbing/"))]
    assert len(networks) == 7 and all(one.judged == "run and ops" for one in networks)


NAMES = [f"op/{n}" for n in range(30)]
LACKING, DIVERGES = Known(1, "op/1", "unsupported: training"), Known(1, "op/2", "divergence: x")
FAILED = {"op/1": "unsupported: training", "op/2": "divergence: x"}
LISTS = {
    "exactly what fails": ([LACKING, DIVERGES], []),
    "one that is not listed": ([LACKING], ["op/2: divergence: x"]),
    "one that passes": ([LACKING, DIVERGES, Known(2, "op/3", "x")], ["line 2, op/3: op/3 does not fail"]),
    "another message": (
        [Known(1, "op/1", "y"), DIVERGES],
        ["line 1, op/1: op/1 fails otherwise: unsupported: training"],
    ),
    "no such case": (
        [LACKING, DIVERGES, Known(2, "nothing", "x")],
        ["line 2, nothing: no case of this run is called so"],
    ),
    "twice": ([LACKING, DIVERGES, Known(2, "op/2", "divergence")], ["line 2, op/2: op/2 is in line 1, too"]),
}


@pytest.mark.parametrize("what", LISTS)
def test_the_list_of_known_failures_is_exactly_what_fails(what: str) -> None:
    known, lines = LISTS[what]
    assert list(surprises(known, FAILED, NAMES)) == lines


def test_a_line_of_the_list_stands_for_twenty_cases_at_most() -> None:
    failed = dict.fromkeys(NAMES, "x")
    released = sum(name.startswith("op/") for name in released_cases())
    assert list(surprises([Known(4, "op/*", "x")], failed, NAMES)) == [
        f"line 4, op/*: stands for {released + 30} cases, and 20 are allowed"
    ]


@pytest.mark.parametrize("glob", ["*", "op/*", "?p/*", "*/*"])
def test_a_line_stands_for_as_many_cases_however_few_are_run(glob: str) -> None:
    (line,) = surprises([Known(1, glob, "divergence")], {"op/rope": "divergence: x"}, ["op/rope"])
    assert "cases, and 20 are allowed" in line


@pytest.mark.parametrize("glob", ["fresh/*", "fresh/causal_????????", "*", "fresh/causal_[0-9a-f]*"])
def test_no_line_stands_for_whatever_is_drawn(glob: str) -> None:
    failed = {"fresh/causal_dab8ad52": "divergence: x"}
    assert "fresh/causal_dab8ad52: divergence: x" in surprises([Known(1, glob, "divergence")], failed, list(failed))
    assert not list(surprises([Known(1, *failed, "divergence")], failed, list(failed)))


def test_a_message_is_known_by_how_it_begins_in_whole_words() -> None:
    said = {"op/1": "divergence: output.y (step 0): too far"}
    for message in ("divergence", "divergence: output.y (step 0)", said["op/1"]):
        assert not list(surprises([Known(1, "op/1", message)], said, NAMES))
        assert expected([Known(1, "op/1", message)], said) == ["op/1"]
    for message in ("d", "divergence: out", "unsupported", "divergence: output.y (step 0): too far away"):
        assert list(surprises([Known(1, "op/1", message)], said, NAMES))
        assert not expected([Known(1, "op/1", message)], said)


def test_a_line_that_does_not_say_how_a_case_fails_is_refused(port: Path, tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_text("# ours\nplumbing/dtypes\n")
    words = ("--level", "reader", "--", sys.executable, port, "error", "plumbing/dtypes")
    done = run("--known", tmp_path / "known.txt", *words)
    assert done.exit_code == 2 and "known.txt, line 2" in done.output and "says how it fails" in done.output
