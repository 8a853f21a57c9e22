"""The words of a diagnosis: what tells most comes first, a fit is no name, the reference's line is beside a name."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from seeded import Compute, changed, diagnosed
from wrong_numbers import golden

from qwen3_golden import GOLDEN_ROOT, Array, Recording, pattern_of
from qwen3_parity.blame.values import Values
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import Diagnosis
from qwen3_parity.diagnosis.every_tap import Way, once
from qwen3_parity.diagnosis.explained import Explained
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.diagnosis.faults import Fault
from qwen3_parity.diagnosis.reference_lines import reference_lines
from qwen3_parity.diagnosis.suspects import Suspect
from qwen3_parity.judge.indices import ranges
from qwen3_parity.mistakes.hypothesis import Hypothesis
from qwen3_parity.mistakes.ranks import COMBINED, COPIED, FITTED, PLAIN, RARE, SOLVED, Kind, Rank
from qwen3_parity.report.diagnoses import terminal, verdict
from qwen3_parity.slices.source import line_of
from qwen3_spec.ops import OPS
from qwen3_spec.site import Result, Site

CASE = "decoder/plain"
NORM = "decoder.layers.{layer}.input_layernorm"
SAID = Explanation("rope.twice", "rotates twice", "", "", share=0.5, whole=3, partly=0, of=3, contradicted=0)
NOBODY = Suspect(Hypothesis("", "", "", lambda _: None), {})


def text(diagnosis: Diagnosis) -> str:
    console = Console(width=300, file=StringIO(), record=True)
    console.print(terminal(diagnosis))
    return console.export_text()


def grows(y: Array, site: Site) -> Array:
    return np.asarray(y * (1.05 + 0.12 * site.step + 0.01 * (site.place.layer or 0)))


def first_rows(site: Site) -> Result:
    """Every row of a batch by the root of the first one."""
    x = np.asarray(site.inputs[0], np.float64)
    root = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + site.config.rms_norm_eps)
    return x / root[:1] * site.parameters["weight"], OPS["rms_norm"].truth(site)[1]


@pytest.mark.parametrize(
    ("rank", "kind", "order"),
    [(PLAIN + 0, Kind.PLAIN, 0), (PLAIN + 1, Kind.PLAIN, 1), (PLAIN + 1.5, Kind.RARE, -0.5), (PLAIN + 2, Kind.RARE, 0),
     (RARE + 1, Kind.RARE, 1), (PLAIN + 3.5, Kind.COMBINED, -0.5), (RARE + 2, Kind.COMBINED, 0),
     (COMBINED + 3, Kind.COMBINED, 3), (COMBINED + 4, Kind.FITTED, 0), (FITTED + 2, Kind.COPIED, 0),
     (COPIED + 2, Kind.COPIED, 2)],
)  # fmt: skip
def test_what_is_rarer_than_its_kind_is_of_the_next_one(rank: Rank, kind: Kind, order: float) -> None:
    assert (rank.kind, rank.order) == (kind, order)


def test_every_mistake_of_a_kind_comes_before_those_of_the_next() -> None:
    ranks = [PLAIN, PLAIN + 0.5, PLAIN + 1, RARE, RARE + 1, PLAIN + 3.5, COMBINED, SOLVED, COMBINED + 3, FITTED, COPIED]
    assert sorted({*ranks}) == ranks and [rank.kind for rank in ranks] == sorted(rank.kind for rank in ranks)


def test_indices_that_go_on_are_joined_and_a_long_list_is_cut() -> None:
    assert ranges([4, 5, 6, 0, 2]) == "4–6, 0, 2" and ranges([]) == "" and ranges(np.array([3])) == "3"
    assert ranges(range(0, 12, 2)) == "0, 2, 4, 6, 8, 10" and ranges(range(0, 14, 2)) == "0, 2, 4, 6, 8, 10 …"
    assert ranges(range(0, 16, 2), most=None).endswith("12, 14") and ranges([1, 2], " to ") == "1 to 2"


def test_a_factor_that_is_another_one_at_every_tap_is_told_as_such() -> None:
    said = text(diagnosed(CASE, {NORM: changed(grows)}))
    assert "no known mistake reproduces it; what the numbers say, at decoder.layers." in said
    (line,) = (line for line in said.splitlines() if "fit.factor" in line)
    assert "it is no such number: " in line and "1.05 (decoder.layers.0.input_layernorm, step 0)" in line


@pytest.mark.slow
def test_what_was_fitted_to_each_tap_is_no_name() -> None:
    diagnosis = diagnosed("encdec/ragged", {NORM: first_rows})
    (fault,) = diagnosis.faults
    assert not fault.is_known and fault.numbers[0].name == "from.other_row"  # the map says whose root it is
    assert "no known mistake, from.other_row" in verdict(diagnosis)
    assert "(norm.other_statistic)" in text(diagnosis)


def test_one_mistake_that_explains_as_much_needs_none_beside_it() -> None:
    both = replace(SAID, name="rope.twice+wiring.negated", rank=COMBINED)
    eps_pair = replace(SAID, name="norm.eps+wiring.negated", rank=COMBINED)
    names = [way.said.name for way in once([Way(explanation, NOBODY, []) for explanation in (SAID, both, eps_pair)])]
    assert names == ["rope.twice", "norm.eps+wiring.negated"]


ROPE: dict[str, Compute] = {"decoder.layers.{layer}.merged_attn.q_rope": changed(lambda y, _: np.asarray(2 * y))}


def of_another_version(recording: Recording) -> Recording:
    message = type(recording.provenance)()
    message.CopyFrom(recording.provenance)
    for pair in message.versions:
        pair.value = "0.1"
    return replace(recording, provenance=message)


def test_the_references_line_stands_beside_a_name() -> None:
    (fault,) = diagnosed(CASE, ROPE).faults
    (line,) = fault.source
    assert line.startswith("modeling_qwen3.py:") and "in apply_rotary_pos_emb: q_embed = (q * cos)" in line


LINES = {
    "decoder.layers.{layer}.merged_attn.k_rope": "in apply_rotary_pos_emb: k_embed = (k * cos)",
    "decoder.layers.{layer}.merged_attn.encoder_k_rope": "in apply_rotary_pos_emb: k_embed = (k * cos)",
    "encoder.layers.{layer}.self_attn.q_rope": "in apply_rotary_pos_emb: q_embed = (q * cos)",
    "encoder.layers.{layer}.output": "in forward: hidden_states = residual + hidden_states",
}


def lines(case: str) -> dict[str, str]:
    """The line of every place of a case."""
    recording = golden(case)
    values = Values(recording, weights_of(recording, GOLDEN_ROOT / "checkpoints"), recording)
    names = {pattern_of(item.info.name) for item in recording}
    faults = {name: Explained(Fault(name, (), (), ()), "") for name in names if values.place(name.format(layer=0))}
    return {
        name: "; ".join(line.says for line in reference_lines(of, values, recording)) for name, of in faults.items()
    }


def test_a_place_has_the_line_that_computes_it() -> None:
    said = lines("encdec/ragged")
    assert {name: code in said[name] for name, code in LINES.items()} == dict.fromkeys(LINES, True)
    assert not said["input.encoder_position_ids"]
    first, second = (said[f"decoder.layers.{{layer}}.{name}"] for name in ("attn_residual", "output"))
    assert first.partition(": ")[2] == second.partition(": ")[2] and first < second  # the same text, at another line


def test_stretched_frequencies_have_their_types_line() -> None:
    yarn, llama3 = (lines(case)["decoder.inv_freq"] for case in ("decoder/yarn_stated", "llama/beyond_original"))
    assert yarn.startswith("modeling_rope_utils.py:") and " in _compute_yarn_parameters: inv_freq_interp" in yarn
    assert llama3.startswith("modeling_rope_utils.py:") and " in _compute_llama3_parameters: inv_freq_llama" in llama3


def test_a_line_is_found_in_the_function_that_is_named_and_in_the_goldens_version_alone() -> None:
    recording, file = golden(CASE), "modeling_qwen3.py"
    line = line_of(file, "torch.matmul(", recording, "eager_attention_forward")
    assert line is not None and line.function == "eager_attention_forward"
    assert line_of(file, "torch.matmul(", recording, "rotate_half") is None
    assert line_of(file, "torch.matmul(", of_another_version(recording)) is None
    before, behind = (line_of(file, "residual + ", recording, after=after) for after in ("", "self.mlp("))
    assert before is not None and behind is not None and before.number < behind.number


@pytest.mark.parametrize("taps", ["*", "*.output"])
def test_queries_without_yarns_factor_have_its_name_by_few_taps_and_by_every_tap(taps: str) -> None:
    wrong = {place: changed(lambda y, site: y / site.config.attention_factor) for place in ROPE}
    diagnosis = diagnosed("decoder/yarn_stated", wrong, taps=taps)
    assert {fault.name for fault in diagnosis.faults} == {"yarn.attention_factor"}
    assert all("attention_factor, which is 1.07 here" in fault.explanations[0].fix for fault in diagnosis.faults)
