"""The tap to record next: it tells apart what explains a group equally well."""

from __future__ import annotations

from qwen3_golden import GOLDEN_ROOT, read
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.next_tap import next_tap
from qwen3_parity.judge.op_verdict import OpVerdict

ATTENTION = "decoder.layers.0.merged_attn"
HIDDEN = tuple(f"{ATTENTION}.{leaf}" for leaf in ("scores", "probs", "q_rope", "q_norm", "q_proj"))
GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
VALUES = Values(GOLDEN, weights_of(GOLDEN, GOLDEN_ROOT / "checkpoints"), GOLDEN)
FAULT = Fault(f"{ATTENTION}.context", HIDDEN, (OpVerdict(f"{ATTENTION}.context", 0, "context", others=HIDDEN),))


def explanation(name: str, leaf: str, contradicted: int = 0) -> Explanation:
    place = f"decoder.layers.{{layer}}.merged_attn.{leaf}"
    return Explanation(name, "", "", place, share=0.1, whole=3, partly=0, of=3, contradicted=contradicted)


def test_a_tap_between_two_mistakes_tells_them_apart() -> None:
    equal = [explanation("rope.interleaved", "q_rope"), explanation("weight.permuted", "q_proj")]
    assert next_tap(FAULT, equal, VALUES) in {
        f"record {ATTENTION}.{leaf} next: it tells rope.interleaved from weight.permuted"
        for leaf in ("q_norm", "q_proj")
    }


def test_two_mistakes_of_one_op_need_that_op_and_what_it_reads() -> None:
    equal = [explanation("rope.interleaved", "q_rope"), explanation("rope.negated", "q_rope")]
    said = next_tap(FAULT, equal, VALUES)
    assert "and what it reads: rope.interleaved and rope.negated are the same from here" in said


def test_one_best_explanation_needs_no_other_tap() -> None:
    best = [explanation("rope.interleaved", "q_rope"), explanation("weight.permuted", "q_proj", contradicted=1)]
    assert next_tap(FAULT, best, VALUES) == ""


def test_without_a_known_mistake_the_tap_halves_the_group() -> None:
    assert next_tap(FAULT, [], VALUES) == (
        f"record {ATTENTION}.q_norm next: it says whether the mistake is in the 2 of 5 hidden ops up to it"
    )


def test_a_copy_of_what_is_recorded_is_not_asked_for() -> None:
    layer = "decoder.layers.1"
    hidden = (f"{layer}.input", f"{layer}.input_layernorm", f"{layer}.merged_attn.v_proj")
    name = f"{layer}.merged_attn.cache_values"
    fault = Fault(name, hidden, (OpVerdict(name, 0, "cache", others=hidden),))
    said = f"record {layer}.input_layernorm next: it says whether the mistake is in the 1 of 2 hidden ops up to it"
    assert next_tap(fault, [], VALUES) == said


def test_without_a_hidden_tap_there_is_nothing_to_record() -> None:
    fault = Fault(f"{ATTENTION}.context", (), (OpVerdict(f"{ATTENTION}.context", 0, "context"),))
    assert next_tap(fault, [], VALUES) == ""
