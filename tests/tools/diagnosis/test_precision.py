"""The order in which faults are said, and what of a quantised engine is no weight."""

from __future__ import annotations

from dataclasses import replace

from qwen3_golden import pb
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.findings import Finding
from qwen3_parity.diagnosis.precision import also_rounded, ordered, others_first, summary
from qwen3_parity.judge.compare import Metrics
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import Verdict, Verdicts

VERDICTS = Verdicts(pb.Case(), "", "", pb.ARITHMETIC_OTHER, pb.FOREIGN, [])


def fault(place: str, *findings: Finding) -> Explained:
    return Explained(Fault(place, wrong=(OpVerdict(place, 0, "linear"),)), "", findings=findings)


def edited(place: str, name: str, says: str) -> Explained:
    taps = ((place, 0),)
    edit = Explanation(name, says, "its line", place, 0.1, 1, 0, 1, 0, taps=taps)
    return replace(fault(place), explanations=(edit,), tried=taps)


SCATTERS = fault("o_proj", Finding("fit.scattered", "its errors scatter", 0.9))
NAMED = edited("act", "edit.sibling", "has silu for gelu")
FOUR_BITS = fault("q_proj", Finding("structure.blocks", "its weight is in 4 bits, scales in float16", 1.0))
TABLE = edited("rotary_emb", "edit.parameter", "rounds rotary_emb.inv_freq to bfloat16")
NORM = fault("norm", Finding("fit.grid", "its numbers are those of bfloat16", 0.92))
HEAD = edited("lm_head", "edit.parameter", "rounds lm_head.weight to bfloat16")
CACHE = edited("cache.0.keys", "edit.rounded", "stores keys and values in the cache in bfloat16")


def test_what_only_scatters_comes_behind_what_has_a_name() -> None:
    assert ordered([SCATTERS, NAMED], VERDICTS) == [NAMED, SCATTERS]


def test_what_is_not_finite_comes_first() -> None:
    broken = Verdict("q_proj", 0, "linear", exact=False, metrics=Metrics(1, nonfinite_actual=1))
    assert ordered([NAMED, FOUR_BITS], replace(VERDICTS, taps=[broken])) == [FOUR_BITS, NAMED]


def test_a_table_and_a_norm_in_half_precision_are_no_weights_of_a_quantised_engine() -> None:
    every = [TABLE, FOUR_BITS, NORM, HEAD, CACHE]
    assert also_rounded(every) == [TABLE, NORM]
    assert others_first(every) == [TABLE, NORM, FOUR_BITS, HEAD, CACHE]
    assert summary(every) == (
        "3 of them hold numbers in few bits, as a lossy engine does; also rounded, which is seldom meant: "
        "rotary_emb, norm"
    )


def test_of_an_engine_in_half_precision_that_is_all_one_loss() -> None:
    assert not also_rounded([TABLE, NORM, HEAD])
    assert summary([NORM, HEAD]).endswith("nothing else is otherwise")
