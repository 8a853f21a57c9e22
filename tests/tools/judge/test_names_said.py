"""merged_attn is said self_attn where there is no encoder: in everything that is printed, and in what may be typed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import qwen3_parity
from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, pb, read, write
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.cli import main
from qwen3_parity.diagnosis.demonstrated import with_mistake
from qwen3_parity.judge.spoken import as_filed, by_cases, in_words, spoken

CASES = GOLDEN_ROOT / "cases"
CAUSAL, MERGED = "decoder/plain", "encdec/ragged"
FILED = "decoder.layers.1.merged_attn.q_norm"
SAID = "decoder.layers.1.self_attn.q_norm"
NEXT = "decoder.layers.1.self_attn.q_rope"


def wrong(name: str, folder: Path) -> Path:
    """A case with the norm of its queries wrong in one layer."""
    golden = read(CASES / f"{name}.pb")
    tensors = [Tensor(t.info, t.array * np.float32(1.5)) if t.info.name == FILED else t for t in golden]
    write(folder / f"{name}.pb", replace(golden, tensors=tensors))
    return folder / f"{name}.pb"


def said(*words: object, code: int = 1) -> str:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in words else done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both kinds of decoders, wrong at the same place."""
    root = tmp_path_factory.mktemp("said")
    for name in (CAUSAL, MERGED):
        wrong(name, root)
    return root


PRINTED = ["check {c}", "check {c} -v", "diagnose {c} -v", "report {c} --format markdown", "check {c} --junit {x}"]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("line", PRINTED)
def test_nothing_that_is_printed_of_a_causal_case_says_merged_attn(line: str, folder: Path, tmp_path: Path) -> None:
    words = line.format(c=folder / f"{CAUSAL}.pb", x=tmp_path / "x.xml").split()
    text = said(*words).replace("\\", "")
    assert "merged_attn" not in text and (SAID in text or "decoder.layers.*.self_attn.q_norm" in text)
    if "--junit" in words:
        assert "merged_attn" not in (tmp_path / "x.xml").read_text() and SAID in (tmp_path / "x.xml").read_text()


def test_a_decoder_with_an_encoder_keeps_its_name(folder: Path) -> None:
    for verb in ("check", "diagnose"):
        text = said(verb, folder / f"{MERGED}.pb")
        assert "decoder.layers.1.merged_attn.q_norm" in text and "decoder.layers.1.self_attn" not in text


def test_the_page_says_it_too(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    said("report", folder / f"{CAUSAL}.pb", "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "merged_attn" not in page and SAID in page


def test_json_has_the_files_name_beside(folder: Path) -> None:
    report = json.loads(said("diagnose", folder / f"{CAUSAL}.pb", "--json"))
    taps = {tap["name"]: tap["place"] for tap in report["taps"]}
    assert taps[FILED] == SAID and taps["decoder.norm"] == "decoder.norm"
    assert report["misplaced"] == ["decoder.layers.{layer}.self_attn.q_norm"] and report["wrong_alone"] == [SAID, NEXT]
    assert "merged_attn" not in json.dumps([report["problems"], report["worst"], report["notes"]])


def test_a_fault_has_its_place_as_it_is_said_and_its_taps_as_the_files_have_them(tmp_path: Path) -> None:
    golden = read(CASES / f"{CAUSAL}.pb")
    weights = weights_of(golden, GOLDEN_ROOT / "checkpoints")
    write(tmp_path / "c.pb", with_mistake(golden, weights, "rope.interleaved", ["q_rope"]))
    report = json.loads(said("diagnose", tmp_path / "c.pb", "--json"))
    (fault,) = report["faults"]
    assert fault["place"] == "decoder.layers.{layer}.self_attn.q_rope"
    assert {tap[0] for tap in fault["taps"]} == {f"decoder.layers.{n}.merged_attn.q_rope" for n in range(3)}
    assert "merged_attn" not in json.dumps([fault["explanations"], fault["others"], fault["record_next"]])


@pytest.mark.slow
def test_a_folder_says_it_by_the_cases_that_a_mistake_is_in(folder: Path) -> None:
    both = json.loads(said("diagnose", folder, "--json"))
    entries = [*both["mistakes"], *both["apart"]]
    for entry in entries:
        names = re.findall(r"(merged_attn|self_attn)\.", json.dumps(entry.get("places", [])))
        assert set(names) <= ({"merged_attn"} if MERGED in entry["cases"] else {"self_attn"}), entry
    assert any(entry["cases"] == [CAUSAL] or MERGED in entry["cases"] for entry in entries)


def test_either_name_may_be_typed(tmp_path: Path) -> None:
    for word in (FILED, SAID):
        shown = json.loads(said("show", CAUSAL, "--tap", word, "--json", code=0))["taps"]
        assert shown and {(tap["name"], tap["place"]) for tap in shown} == {(FILED, SAID)}
    for glob in ("*.self_attn.q_norm", "*.merged_attn.q_norm"):
        said("record", CAUSAL, "--taps", glob, "--out", tmp_path / "few.pb", code=0)
        names = {t.info.name for t in read(tmp_path / "few.pb") if not t.info.name.startswith("input.")}
        assert names == {f"decoder.layers.{n}.merged_attn.q_norm" for n in range(3)}
    case = qwen3_parity.golden(CAUSAL)
    qwen3_parity.assert_parity(case.golden[FILED, 0].array, case, SAID)
    with pytest.raises(qwen3_parity.NotParityError, match="self_attn") as caught:
        qwen3_parity.assert_parity(case.golden[FILED, 0].array * 2, case, SAID)
    assert "merged_attn" not in str(caught.value)


def test_a_port_may_write_either_name(tmp_path: Path) -> None:
    golden = read(CASES / f"{CAUSAL}.pb")
    run = pb.Run.FromString(golden.run.SerializeToString())
    run.materialised[:] = [in_words(pattern) for pattern in golden.run.materialised]

    def renamed(tensor: Tensor) -> Tensor:
        info = pb.Tensor.FromString(tensor.info.SerializeToString())
        info.name = in_words(info.name)
        return Tensor(info, tensor.array)

    with pytest.MonkeyPatch.context() as foreign:  # another library's writer knows no table
        foreign.setattr("qwen3_golden.writer.check_metadata", lambda *_: None)
        write(tmp_path / "said.pb", replace(golden, run=run, tensors=list(map(renamed, golden))))
    assert SAID in {t.info.name for t in read(tmp_path / "said.pb")}
    assert "parity, run and ops, 380 of 380" in said("check", tmp_path / "said.pb", code=0)


def test_a_path_is_left_as_it_is() -> None:
    causal, merged = pb.Case(mode=pb.CAUSAL), pb.Case(mode=pb.ENCODER_DECODER)
    for path in ("/models/merged_attn/c.pb", "merged_attn.pb", "my_merged_attn.py"):
        assert spoken(path, causal) == path
    assert spoken(f"gradient.{FILED}", causal) == f"gradient.{SAID}" and spoken(FILED, merged) == FILED
    assert as_filed([SAID, "logits", "!*.self_attn.*"]) == (SAID, "logits", "!*.self_attn.*", FILED, "!*.merged_attn.*")


def test_records_of_several_cases_are_said_by_their_cases() -> None:
    from qwen3_parity.folder.diagnose import Mistake, Note

    def mistake(cases: list[str]) -> Mistake:
        return Mistake("x", [FILED], "fix", [FILED], cases, findings=[Note(FILED, ["a"]), Note(FILED, ["b"])])

    alone, both = by_cases([mistake(["a"]), mistake(["a", "b"])], {"b"})
    assert alone.places == [SAID] and both.places == [FILED]
    assert [note.says for note in both.findings] == [SAID, FILED]


def test_what_has_no_such_name_is_the_same_object() -> None:
    golden: Recording = read(CASES / f"{CAUSAL}.pb")
    verdicts: Any = qwen3_parity.check(golden, golden)
    merged = replace(verdicts, taps=[tap for tap in verdicts.taps if "merged_attn" not in tap.name])
    assert in_words(merged).taps[0] is merged.taps[0]
