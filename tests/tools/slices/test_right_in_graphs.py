"""A run of a golden with a graph that is off though every slice is right: the diagnosis says what that means."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from rich.console import Console
from small import golden, recording, run, weights

from qwen3_golden import Recording, pb, tensor
from qwen3_parity.check import check
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.diagnosis.right_alone import meaning_of_graph
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Problem
from qwen3_parity.report.diagnoses import terminal
from qwen3_parity.report.next_step import after_diagnosis
from qwen3_parity.report.verdicts import in_the_run


def said(candidate: Recording) -> str:
    diagnosis = diagnose(golden(), candidate, weights())
    assert not diagnosis.faults and diagnosis.verdicts.word == "divergence"
    console = Console(width=300)
    with console.capture() as text:
        console.print(terminal(diagnosis))
    return text.get()


def test_nan_in_padding_is_said_where_it_begins_with_what_makes_it() -> None:
    values = run({})
    for name in ("layers.0.experts", "layers.0", "logits"):
        values[name][1, 0] = np.nan
    text = said(recording(values, "port"))
    assert "NaN or infinities stand first at layers.0.experts (step 0)" in text
    assert "a token that sees no key, as padding, divides 0 by 0" in text
    assert "qwen3-parity diagnose" not in text and "next:" not in text


def test_a_budget_of_nothing_is_no_number_of_times() -> None:
    problem = Problem("tap", "rule", "RMS error ≤ 0", "0.1", "", share=np.inf)
    assert (
        "budget:   none is large enough" in str(problem) and "inf" not in str(problem) and "next:" not in str(problem)
    )


def test_a_run_in_bfloat16_that_is_stored_as_float32_accuses_nobody() -> None:
    """An embedding is a copy of its table: rounded once, as all else."""
    rounded = {
        name: array if array.dtype.kind == "i" else (array.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        for name, array in run({}).items()
    }
    candidate = recording(rounded, "port")
    candidate.run.arithmetic = pb.ARITHMETIC_BF16
    text = said(candidate)
    assert "every op is right on its own inputs in bfloat16" in text
    assert "fault:" not in text and "more failure" not in text
    assert "taps leave the budgets of the golden's arithmetic, which follows from the above" in text


def test_a_run_in_bfloat16_that_is_declared_lossy_is_told_the_same() -> None:
    whole = recording(run({}), "port")
    rounded = [
        tensor(item.info.name, (item.array.view(np.uint32) >> 16).astype(np.uint16), dtype=pb.BF16)
        if item.is_float
        else item
        for item in whole
    ]
    candidate = replace(whole, tensors=rounded)
    candidate.run.arithmetic = pb.ARITHMETIC_OTHER
    assert "every op is right on its own inputs in bfloat16" in said(candidate)
    next_step = after_diagnosis(diagnose(golden(), candidate, weights()), golden=golden())
    assert next_step["do"] == "stop" and "measure the whole run by a golden in bfloat16" in str(next_step["says"])


def test_results_in_bfloat16_say_nothing_of_the_network_before_them() -> None:
    narrow = (run({})["logits"].view(np.uint32) >> 16).astype(np.uint16)
    alone = replace(recording(run({}), "port"), tensors=[tensor("logits", narrow, dtype=pb.BF16)])
    alone.run.MergeFrom(pb.Run(arithmetic=pb.ARITHMETIC_BF16, materialised=["logits"]))
    text = said(alone)
    assert "every op" not in text and "judged by the whole network: nothing inside of it was recorded" in text
    assert "Of an engine that computes in float32 record them before they are rounded" in text


def test_a_run_in_bfloat16_is_sent_to_a_golden_in_bfloat16() -> None:
    values = run({}) | {"logits": run({})["logits"] * np.float32(1.01)}
    verdicts = replace(check(golden(), recording(values, "port")), arithmetic=pb.ARITHMETIC_BF16)
    (says,) = meaning_of_graph(verdicts, [], pb.ARITHMETIC_F32)
    assert says.startswith("every op is right on its own inputs in bfloat16, and the golden's run was in float32")
    assert says.endswith("as `capture --model DIR --ids … --dtype bfloat16` makes one of the same ids")
    (says,) = meaning_of_graph(verdicts, [], pb.ARITHMETIC_BF16)
    assert says.startswith("the run leaves its budget first at logits (step 0)")
    lossy = replace(verdicts, arithmetic=pb.ARITHMETIC_OTHER)  # no type to capture a golden in
    assert meaning_of_graph(lossy, [], pb.ARITHMETIC_F32)[0].startswith("the run leaves its budget first at logits")
    hidden = OpVerdict("layers.0", 0, "add", reason="another shape, [1]")
    *_, says = meaning_of_graph(verdicts, [hidden], pb.ARITHMETIC_BF16)
    assert "the mistake may be there: layers.0 (another shape, [1]); record what it reads" in says


def test_a_tap_that_nothing_was_compared_of_in_the_run_has_a_dash() -> None:
    values = run({})
    values["layers.0.gate[2]"] = np.argsort(-values["layers.0.gate"], -1)[..., [0, 2]]  # other experts everywhere
    taps = {tap.name: tap for tap in check(golden(), recording(values, "port"), weights()).taps}
    assert (in_the_run(taps["logits"]), in_the_run(taps["embed"])) == ("–", "0")
    values["logits"] = values["logits"] + 1  # wrong alone, and still not compared in the run
    taps = {tap.name: tap for tap in check(golden(), recording(values, "port"), weights()).taps}
    assert not taps["logits"].passed and in_the_run(taps["logits"]) == "–"
