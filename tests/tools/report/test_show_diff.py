"""`show GOLDEN CANDIDATE`: both sides of every tap; with --tap the first and the worst element.

It runs `judge.differences`, too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read
from qwen3_golden.writer import tensor, write
from qwen3_parity.cli import main
from qwen3_parity.report.show_case import checkpoint_path

CASE = "encoder/one_token"
GOLDEN = read(GOLDEN_ROOT / "cases" / f"{CASE}.pb")
NORM = "encoder.layers.0.self_attn.q_norm"
ACT = "encoder.layers.0.mlp.act"


@pytest.fixture(scope="module")
def candidate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One element of a norm is off by far, another by one ULP; a tap has another shape; one is not there."""
    norm = GOLDEN[NORM, 0].array.copy()
    norm.flat[3] = np.nextafter(norm.flat[3], np.float32(9))
    norm.flat[7] += 0.5
    act = GOLDEN[ACT, 0]

    def changed(item: Tensor) -> Tensor:
        if item.info.name == NORM:
            return Tensor(item.info, norm)
        return tensor(ACT, act.array[..., :-1].copy(), axes=act.info.axes, op="swiglu") if item is act else item

    run = pb.Run.FromString(GOLDEN.run.SerializeToString())
    run.materialised.remove("encoder.layers.{layer}.self_attn.scores")
    tensors = [changed(item) for item in GOLDEN if not item.info.name.endswith(".scores")]
    path = tmp_path_factory.mktemp("beside") / "candidate.pb"
    write(path, replace(GOLDEN, run=run, tensors=tensors))
    return path


def shown(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["show", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output


def taps(*arguments: object) -> dict[str, dict[str, Any]]:
    return {tap["name"]: tap for tap in json.loads(shown(*arguments, "--json"))["taps"]}


def test_both_sides_stand_in_a_row(candidate: Path) -> None:
    lines = shown(CASE, candidate).splitlines()
    assert "taps beside each other" in lines[0] and "qwen3-parity check" in lines[0]
    assert not {"divergence", "parity,"} & set(lines[0].split())  # a verdict is another's
    row = next(line.split() for line in lines if line.strip().startswith(f"{NORM} "))
    assert row[:4] == [NORM, "0", "f32", "3×1×6×10"] and row[5] == "|" and row[7] == "0.5" and "×" in row[8:]
    row = next(line for line in lines if line.strip().startswith(f"{ACT} "))
    assert " | " in row and row.count("3×1×") == 2
    row = next(line for line in lines if "self_attn.scores" in line)
    assert "not there | f32" in row


def test_a_tap_has_its_first_and_its_worst_element_with_both_values_and_ulps(candidate: Path) -> None:
    first, worst = (line.strip() for line in shown(CASE, candidate, "--tap", NORM).splitlines()[-2:])
    assert first.startswith("first: ") and first.endswith("at [0, 0, 0, 3], 1 ULP apart")
    values = [f"{float(item.flat[7]):.9g}" for item in (read(candidate)[NORM, 0].array, GOLDEN[NORM, 0].array)]
    assert worst.startswith(f"worst: {values[0]} for {values[1]} at [0, 0, 0, 7], ")


def test_the_numbers_are_there_as_json(candidate: Path) -> None:
    norm = taps(CASE, candidate, "--tap", NORM)[NORM]
    assert norm["actual"]["shape"] == norm["expected"]["shape"] == [3, 1, 6, 10]
    assert norm["max"] == pytest.approx(0.5, rel=1e-6) and norm["share"] > 1
    assert norm["elements"]["count"] == 2 and norm["elements"]["first"]["ulps"] == 1
    assert norm["elements"]["worst"]["index"] == [0, 0, 0, 7]
    every = taps(CASE, candidate)
    assert every["encoder.layers.0.self_attn.scores"]["actual"] is None
    assert every[ACT]["share"] is None and every["encoder.embed_tokens"]["share"] == 0


def test_a_nan_is_the_worst_element(tmp_path: Path) -> None:
    norm = GOLDEN[NORM, 0].array.copy()
    norm.flat[5] = np.nan
    path = tmp_path / "nan.pb"
    write(path, replace(GOLDEN, tensors=[Tensor(t.info, norm) if t.info.name == NORM else t for t in GOLDEN]))
    assert "worst: nan for" in shown(CASE, path, "--tap", NORM)
    assert taps(CASE, path, "--tap", NORM)[NORM]["share"] == "inf"


def test_a_glob_that_selects_nothing_is_an_error(candidate: Path) -> None:
    assert "no tap of either side is selected" in shown(CASE, candidate, "--tap", "nothing", code=2)


def test_another_case_is_an_error(candidate: Path) -> None:
    assert "did not run the golden's case" in shown("encoder/ragged", candidate, code=2)


def test_a_tokenizer_is_shown_stage_by_stage() -> None:
    words = GOLDEN_ROOT / "cases" / "tokenization" / "words.pb"
    assert "tokenizer.ids" in shown("tokenization/words", words)


def test_a_golden_is_shown_by_its_name_and_as_json() -> None:
    said = json.loads(shown(CASE, "--tap", NORM, "--json"))
    assert said["case"] == CASE and [tap["shape"] for tap in said["taps"]] == [[3, 1, 6, 10]] * len(said["taps"])
    assert json.loads(shown("MSK-21", "--json"))["id"] == "MSK-21"
    assert json.loads(shown("tokenization/words", "--json"))["tokenization"]


def test_a_checkpoint_is_looked_for_beside_its_golden_and_never_among_tokenizers(tmp_path: Path) -> None:
    name = next(path.name for path in (GOLDEN_ROOT / "tokenizers").iterdir() if path.is_dir())
    case = pb.Case.FromString(GOLDEN.case.SerializeToString())
    case.checkpoint[0].name = name
    golden = replace(GOLDEN, case=case, source=str(tmp_path / "mine.pb"))
    assert checkpoint_path(golden, case.checkpoint[0]) is None
    (tmp_path / name).mkdir()
    assert checkpoint_path(golden, case.checkpoint[0]) == tmp_path / name
