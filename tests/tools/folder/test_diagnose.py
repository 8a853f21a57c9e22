"""A folder has one diagnosis: the mistake behind its red cases stands once, what is red for another reason apart."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.answer import Diagnosis
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.near_ties import Flip
from qwen3_parity.folder.check import check_folder
from qwen3_parity.folder.diagnose import FolderDiagnosis, Sign, _mistakes, _of_network, diagnose_folder
from qwen3_parity.mistakes.ranks import FITTED, PLAIN, Rank
from qwen3_parity.recording.record import record
from qwen3_parity.report.folder_diagnosis import to_json as diagnosis_json

CASES = GOLDEN_ROOT / "cases"
ROTATED = ("decoder/mask_4d", "decoder/yarn_stated", "op/rope")
OTHERWISE = "op/embedding"
RIGHT = "op/linear"
MISTAKE = "rope.mixed_layout"


def adjacent(x: Any, cos: Any, sin: Any) -> Any:
    """RoPE that pairs adjacent channels."""
    turned = np.empty_like(x)
    turned[..., 0::2], turned[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    return x * cos[:, None] + turned * sin[:, None]


def with_tap(golden: Recording, name: str, change: Any) -> Recording:
    tensors = [Tensor(t.info, change(t.array) if t.info.name == name else t.array) for t in golden]
    return Recording(golden.case, golden.provenance, golden.run, tensors, golden.parameters)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two networks and an op with one mistake, an op with another error, and an op that is right."""
    out = tmp_path_factory.mktemp("port")
    spec = importlib.util.spec_from_file_location("numpy_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    port = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(port)
    port.rotate = adjacent
    for name in ROTATED[:2]:
        record(read(CASES / f"{name}.pb"), out / f"{name}.pb", port.factory)
    golden = read(CASES / "op" / "rope.pb")
    inputs = {name: golden[f"input.{name}", 0].array for name in ("q", "k", "cos", "sin")}
    for name in ("q", "k"):
        turned = adjacent(inputs[name], inputs["cos"], inputs["sin"])
        golden = with_tap(golden, f"output.{name}", lambda _, turned=turned: turned)
    write(out / "op" / "rope.pb", golden)
    noise = np.random.Generator(np.random.PCG64(3))
    another = read(CASES / f"{OTHERWISE}.pb")
    spoilt = with_tap(another, "output.y", lambda y: y + noise.normal(size=y.shape).astype(np.float32))
    write(out / f"{OTHERWISE}.pb", spoilt)
    write(out / f"{RIGHT}.pb", read(CASES / f"{RIGHT}.pb"))
    return out


@pytest.fixture(scope="module")
def diagnosis(folder: Path) -> FolderDiagnosis:
    return diagnose_folder(check_folder(folder))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_mistake_in_many_cases_is_one_diagnosis(diagnosis: FolderDiagnosis) -> None:
    assert [mistake.name for mistake in diagnosis.mistakes] == [MISTAKE, ""]
    assert set(diagnosis.mistakes[0].cases) == set(ROTATED)


def test_a_mistake_has_every_place_where_it_is_made(diagnosis: FolderDiagnosis) -> None:
    places = {f"decoder.layers.*.merged_attn.{side}_rope" for side in ("q", "k")}
    assert places <= set(diagnosis.mistakes[0].places)


def test_a_case_that_is_red_for_another_reason_stands_apart(diagnosis: FolderDiagnosis) -> None:
    (nameless,) = (mistake for mistake in diagnosis.mistakes if not mistake.name)
    assert list(nameless.cases) == [OTHERWISE] and nameless.sentence.endswith("numbers of output.y")
    assert diagnosis.mistakes[-1] is nameless and not nameless.places


@pytest.fixture
def said(folder: Path, diagnosis: FolderDiagnosis, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """What `diagnose` prints of the folder, which is diagnosed once."""
    monkeypatch.setattr("qwen3_parity.folder.diagnose.diagnose_folder", lambda *_, **__: diagnosis)
    return partial(run, "diagnose", folder)


def test_the_terminal_says_how_many_cases_the_mistake_is_behind(said: Callable[..., Result]) -> None:
    done = said()
    assert done.exit_code == 1, done.output
    assert "one mistake is behind 3 of 4 red cases; in 1 it is something else" in done.stdout
    assert done.stdout.count(MISTAKE) == 1


def test_json_has_mistakes_with_cases_and_what_stands_apart(said: Callable[..., Result]) -> None:
    report = json.loads(said("--json").stdout)
    assert [set(mistake["cases"]) for mistake in report["mistakes"]] == [set(ROTATED)]
    assert report["apart"][0]["cases"] == [OTHERWISE]
    assert report["verdicts"][RIGHT] == "parity" and report["exit_code"] == 1


def test_a_folder_without_a_red_case_has_nothing_to_explain(tmp_path: Path) -> None:
    write(tmp_path / "a.pb", read(CASES / f"{RIGHT}.pb"))
    done = run("diagnose", tmp_path)
    assert done.exit_code == 0 and "no case is red" in done.stdout


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert run("diagnose", tmp_path).exit_code == 2


def test_a_tokenizers_mistake_stands_once_for_all_its_cases(tmp_path: Path) -> None:
    for name in ("tokenization/words", "tokenization/unicode"):
        golden = read(CASES / f"{name}.pb")
        for encoding in golden.tokenization.encoding:
            for segment in encoding.segment:
                if not segment.HasField("added_token"):
                    segment.normalized = encoding.text[segment.begin : segment.end]
        write(tmp_path / f"{name}.pb", golden)
    diagnosis = diagnose_folder(check_folder(tmp_path))
    assert [mistake.places for mistake in diagnosis.mistakes if mistake.name] == [("tokenizer.normalized",)]


def way(name: str, rank: Rank = PLAIN) -> Explanation:
    return Explanation(name, "x", "y", "here", share=0.5, whole=1, partly=0, of=1, contradicted=0, rank=rank)


def test_a_name_that_explains_more_cases_wins_over_one_that_the_numbers_of_one_case_fit_as_well() -> None:
    plain, rare = way("a.plain"), way("b.rare")
    signs = [Sign("one", "here", [rare, plain]), Sign("two", "here", [plain]), Sign("three", "there", [plain, rare])]
    (only,) = _mistakes(signs)
    assert (only.name, list(only.cases), list(only.otherwise)) == ("a.plain", ["one", "two", "three"], [])


def test_what_was_fitted_to_numbers_comes_after_a_mistake_that_was_not() -> None:
    plain, fitted = way("norm.eps"), way("weight.unknown", FITTED)
    mistakes = list(_mistakes([Sign("one", "here", [plain, fitted]), Sign("two", "there", [fitted])]))
    assert [(mistake.name, list(mistake.cases)) for mistake in mistakes] == [
        ("norm.eps", ["one"]),
        ("weight.unknown", ["two"]),
    ]


def test_mistakes_that_no_case_tells_apart_are_both_told() -> None:
    ways = [way("a.one"), way("a.other")]
    (only,) = _mistakes([Sign("case", "here", ways)])
    assert (only.name, list(only.otherwise)) == ("a.one", ["a.other"])


def test_a_known_name_that_does_not_explain_a_case_keeps_no_other_from_being_named(folder: Path) -> None:
    golden, candidate = (read(path / "decoder" / "mask_4d.pb") for path in (CASES, folder))
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    diagnosis = diagnose(golden, candidate, weights, known=["rope.not_applied", "norm.eps"])
    assert [fault.name for fault in diagnosis.faults] == [MISTAKE, MISTAKE]


def test_a_wrong_rotation_by_the_goldens_angles_is_named_before_two_mistakes_are_thought_of(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thought_of: list[object] = []
    monkeypatch.setattr("qwen3_parity.diagnosis.explain.pairs_in_op", lambda *_: thought_of.append(_) or ())
    golden, candidate = (read(path / "decoder" / "yarn_stated.pb") for path in (CASES, folder))
    diagnosis = diagnose(golden, candidate, weights_of(golden, GOLDEN_ROOT / "checkpoints"))
    assert [fault.name for fault in diagnosis.faults] == [MISTAKE, MISTAKE] and not thought_of


@pytest.fixture(scope="module")
def hinted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Padding ignored in two networks of which little was recorded, and two ops that no mistake reproduces."""
    out = tmp_path_factory.mktemp("hinted")
    spec = importlib.util.spec_from_file_location("numpy_port", GOLDEN_ROOT.parent / "examples" / "numpy_port.py")
    assert spec is not None and spec.loader is not None
    port = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(port)
    sound_mask = port.Qwen3.mask
    port.Qwen3.mask = lambda self, layer, padding, query: sound_mask(self, layer, np.ones_like(padding), query)
    for name in ("decoder/ragged_decode", "encoder/ragged"):
        record(read(CASES / f"{name}.pb"), out / f"{name}.pb", port.factory, taps=("logits", "encoder.norm"))
    for name, tap, value in (("op/softmax_many_keys", "output.probs", np.nan), ("op/swiglu", "output.act", 3.5)):

        def spoilt(array: Any, value: float = value) -> Any:
            array = array.copy()
            array[0, -1] = value
            return array

        write(out / f"{name}.pb", with_tap(read(CASES / f"{name}.pb"), tap, spoilt))
    return out


@pytest.fixture(scope="module")
def hints(hinted: Path) -> FolderDiagnosis:
    return diagnose_folder(check_folder(hinted))


@pytest.mark.slow  # every case of a folder is diagnosed twice
def test_a_folder_says_of_each_case_what_its_own_diagnosis_says(hinted: Path, hints: FolderDiagnosis) -> None:
    report = diagnosis_json(hints)
    alone: dict[str, set[tuple[str, str]]] = {"names": set(), "findings": set(), "record_next": set()}
    for path in sorted(hinted.rglob("*.pb")):
        case = path.relative_to(hinted).with_suffix("").as_posix()
        golden = read(CASES / f"{case}.pb")
        for fault in diagnose(golden, read(path), weights_of(golden, GOLDEN_ROOT / "checkpoints")).faults:
            alone["names"] |= {(explanation.name, case) for explanation in fault.explanations}
            alone["findings"] |= {(f"{finding.name}: {finding.says}", case) for finding in fault.findings}
            alone["record_next"] |= {(fault.record, case)} if fault.record else set()
    causes = [*report["mistakes"], *report["apart"]]
    names = {(mistake["name"], case) for mistake in report["mistakes"] for case in mistake["cases"]}
    names |= {
        (name, case) for mistake in report["mistakes"] for name in mistake["otherwise"] for case in mistake["cases"]
    }
    names |= pairs(note for mistake in report["mistakes"] for note in mistake["otherwise_in"])
    assert names == alone["names"] and ("softmax.no_mask", "encoder/ragged") in names
    assert pairs(note for cause in causes for note in cause["findings"]) == alone["findings"]
    assert pairs(note for cause in causes for note in cause["record_next"]) == alone["record_next"]
    assert any(says.startswith("softmax.not_finite: ") for says, _ in alone["findings"]) and alone["record_next"]


def pairs(notes: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(note["says"], case) for note in notes for case in note["cases"]}


@pytest.mark.slow
def test_the_terminal_has_hints_ties_and_the_next_tap(
    hinted: Path, hints: FolderDiagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qwen3_parity.folder.diagnose.diagnose_folder", lambda *_, **__: hints)
    words = " ".join(run("diagnose", hinted).stdout.split())
    assert "what the numbers say: softmax.not_finite: " in words
    assert "in encoder/ragged also: softmax.no_mask" in words
    assert "record encoder.layers.0.self_attn.mask next: it tells" in words


def test_positions_that_noise_decides_are_told_of_a_folder_too() -> None:
    flip = Flip("logits (step 1) [0, 0]", 3, 5, 1e-6, 0.5, near_tie=True)
    verdicts = check(CASES / "op" / "rope.pb", CASES / "op" / "rope.pb")
    signs = _of_network(Diagnosis(verdicts, [], [], [], [], [flip]), "decoder/plain")
    assert [sign.note for sign in signs if sign.note] == [str(flip)]


def test_what_a_case_is_called_first_by_its_own_diagnosis_is_first_in_the_folder() -> None:
    plain, second = way("b.plain"), way("a.other")
    (only,) = _mistakes([Sign("one", "here", [plain, second]), Sign("two", "here", [second, plain])])
    assert only.name == "a.other"  # each is first once: the name decides
    (only,) = _mistakes([Sign(case, "here", [plain, second]) for case in ("one", "two")])
    assert only.name == "b.plain"
