"""Mechanical mutants: the operators, the import of a changed module, what the cases say about a few and about all."""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from detection.mechanical.judged import cases
from detection.mechanical.operators import OPERATORS
from detection.mechanical.run import Unchanged, all_mutants, run, run_all, unchanged
from detection.mechanical.sources import Mutant, mutants
from detection.mechanical.survivors import judged, reason_of, stale
from detection.mechanical.table import LIVED, summary, verdict
from qwen3_golden import ParityError


def changed(operator: str, expression: str) -> list[str]:
    """The new texts of the outermost node of an expression or statement."""
    statement = ast.parse(expression).body[0]
    node = statement.value if isinstance(statement, ast.Expr) and operator != "statement" else statement
    return [ast.unparse(ast.fix_missing_locations(new)) for new in OPERATORS[operator](node)]


def test_every_case_that_mutants_are_asked_is_one_of_our_own_networks() -> None:
    names = cases()
    assert len(names) > 100 and names[0] == "encdec/ragged" and len(set(names)) == len(names)
    assert not [name for name in names if name.startswith(("llama/", "model/", "plumbing/", "tokenization/"))]


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        ("arithmetic", "a // b", ["a * b"]),
        ("arithmetic", "f'{a}' + b", []),
        ("operand", "a - b", ["a", "b"]),
        ("operand", "a and b and c", ["b and c", "a and c", "a and b"]),
        ("comparison", "a <= b", ["a < b"]),
        ("comparison", "a is None", ["a is not None"]),
        ("boolean", "a or b", ["a and b"]),
        ("branch", "a if c else b", ["a", "b"]),
        ("constant", "2", ["3"]),
        ("constant", "True", ["False"]),
        ("constant", "2.0", ["2.02"]),
        ("constant", "'text'", []),
        ("index", "x[n:]", ["x[:]", "x[n + 1:]"]),
        ("index", "x[:, :2]", ["x[:, :]"]),
        ("index", "x[0]", ["x"]),
        ("call", "x.float()", ["x"]),
        ("call", "torch.rsqrt(x)", ["x"]),
        ("call", "super().f(x)", []),
        ("argument", "f(a, b, c=d)", ["f(b, a, c=d)", "f(a, b)"]),
        ("argument", "x.transpose(1, 2)", []),
        ("sign", "-x", ["x"]),
        ("name", "k_proj", ["v_proj"]),
        ("statement", "x += 1", ["pass"]),
    ],
)
def test_an_operator_makes_these_changes(operator: str, before: str, after: list[str]) -> None:
    assert changed(operator, before) == after


SOURCE = '''
def f(x: int = 3) -> int:
    """Text 1."""
    if x < 0:
        raise ValueError(x + 1)
    y = x * 2
    logger.info(1)
    return cast(int, y)
'''


@pytest.fixture
def of_module(tmp_path: Path) -> list[Mutant]:
    (tmp_path / "module.py").write_text(SOURCE)
    return mutants(tmp_path / "module.py")


def test_types_texts_messages_guards_and_logging_are_left_alone(of_module: list[Mutant]) -> None:
    assert {(m.before, m.after) for m in of_module} == {
        ("3", "4"),
        ("x * 2", "x / 2"),
        ("x * 2", "x"),
        ("x * 2", "2"),
        ("2", "3"),
    }


def test_a_mutant_differs_from_its_source_in_one_place(of_module: list[Mutant]) -> None:
    original = ast.unparse(ast.parse(SOURCE)).splitlines()
    for mutant in of_module:
        lines = mutant.text.splitlines()
        assert sum(a != b for a, b in zip(lines, original, strict=True)) == 1


def test_keys_survive_a_shift_of_lines(tmp_path: Path, of_module: list[Mutant]) -> None:
    (tmp_path / "module.py").write_text("\n\n" + SOURCE)
    assert [m.key for m in mutants(tmp_path / "module.py")] == [m.key for m in of_module]


@pytest.fixture(scope="module")
def every() -> list[Mutant]:
    return all_mutants()


@pytest.fixture(scope="module")
def by_key(every: list[Mutant]) -> dict[str, Mutant]:
    return {mutant.key: mutant for mutant in every}


@pytest.mark.slow
def test_there_are_three_hundred_mutants_under_unique_keys(every: list[Mutant], by_key: dict[str, Mutant]) -> None:
    assert len(by_key) == len(every) >= 300


@pytest.fixture(scope="module")
def reference() -> Iterator[Unchanged]:
    """Of a few cases: `make slow` takes them all."""
    with unchanged(("encdec/ragged", "encdec/window", "training/causal")) as recorded:
        yield recorded


NORM = "Qwen3RMSNorm(config.hidden_size"
SCORES = "torch.matmul(query, repeat_kv(key, groups).transpose(2, 3))"
CAUGHT = {
    "rope rotate_half sign: -second → second": "decoder.layers.{layer}.merged_attn.q_rope",
    f"modeling_qwen3_encoder Qwen3EncoderLayer.__init__ argument: {NORM}, eps=config.rms_norm_eps) → {NORM})": (
        "encoder.layers.{layer}.input_layernorm"
    ),
    "masks own_mask comparison: distance >= 0 → distance > 0": "decoder.layers.{layer}.merged_attn.mask",
    f"attention scaled_scores operand: {SCORES} * scaling → {SCORES}": "encoder.layers.{layer}.self_attn.scores",
}


BY_ITEMS = "total / torch.as_tensor(num_items_in_batch, device=total.device).clamp(min=1)"
"""No case counts its labels over several micro-batches."""


@pytest.mark.slow
@pytest.mark.parametrize("key", CAUGHT)
def test_a_mutant_that_changes_a_number_is_caught_at_its_op(
    key: str, by_key: dict[str, Mutant], reference: Unchanged
) -> None:
    judgement = run(by_key[key], reference)
    assert judgement.outcome == "caught"
    assert CAUGHT[key] in judgement.accused


@pytest.mark.slow
def test_a_mutant_that_raises_is_refused(by_key: dict[str, Mutant], reference: Unchanged) -> None:
    judgement = run(by_key["rope rotate_half argument: x.chunk(2, dim=-1) → x.chunk(2)"], reference)
    assert judgement.outcome == "refused"
    assert "rope.py" in judgement.detail


@pytest.mark.slow
def test_an_equivalent_mutant_survives_with_every_bit(by_key: dict[str, Mutant], reference: Unchanged) -> None:
    judgement = run(by_key["rope Qwen3RotaryEmbedding._apply constant: True → False"], reference)
    assert judgement.outcome == "survived"
    assert judgement.identical


@pytest.mark.slow
def test_a_mutant_that_never_ends_is_stopped(
    by_key: dict[str, Mutant], reference: Unchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detection.mechanical.run.TIME_LIMIT", 0.5)
    endless = replace(by_key["rope rotate_half sign: -second → second"], text="while True:\n    pass")
    assert run(endless, reference).outcome == "timeout"


@pytest.mark.slow
def test_a_mutant_of_a_line_that_no_case_runs_is_not_run(by_key: dict[str, Mutant], reference: Unchanged) -> None:
    assert run(by_key[f"modeling_qwen3_encdec _loss operand: {BY_ITEMS} → total"], reference).outcome == "unreached"
    assert run(by_key["modeling_qwen3_encdec _loss constant: 0 → 1"], reference).outcome != "unreached"


@pytest.mark.slow
def test_the_change_of_one_process_stays_in_it(by_key: dict[str, Mutant], reference: Unchanged) -> None:
    import qwen3_encdec.rope as ours

    run(by_key["rope rotate_half sign: -second → second"], reference)
    assert ours.rotate_half(torch.tensor([1.0, 2.0])).tolist() == [-2.0, 1.0]


def test_every_reason_has_a_kind_and_a_text(tmp_path: Path) -> None:
    (tmp_path / "reasons.txt").write_text("perhaps: it is fine\n  some key\n")
    with pytest.raises(ParityError, match="a judgement that cannot be read"):
        judged(tmp_path / "reasons.txt")


def test_keys_whose_reason_was_lost_do_not_take_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "reasons.txt").write_text("equivalent: same numbers\n  a f op: x → y\n\n  b g op: x → y\n")
    with pytest.raises(ParityError, match=r"reasons\.txt:4: a judgement that cannot be read"):
        judged(tmp_path / "reasons.txt")


def test_a_reason_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reasons.txt").write_text("equivalent: a lost table\n\nequivalent: same numbers\n  a f op: x → y\n")
    with pytest.raises(ParityError, match=r"reasons\.txt:1: a judgement that cannot be read"):
        judged(tmp_path / "reasons.txt")


def test_a_judged_mutant_that_no_longer_survives_is_stale(tmp_path: Path) -> None:
    (tmp_path / "reasons.txt").write_text("equivalent: same numbers\n  a f op: x → y\n  a g *\n  b h *\n")
    known = judged(tmp_path / "reasons.txt")
    assert stale(known, ["a g op: 1 → 2"], ["b h op: 1 → 2"]) == ["a f op: x → y", "a g *"]


def test_a_function_is_judged_only_where_no_case_runs_it(tmp_path: Path) -> None:
    (tmp_path / "reasons.txt").write_text("missing case: nobody calls it\n  a g *\n")
    known = judged(tmp_path / "reasons.txt")
    assert reason_of("a g op: 1 → 2", known, reached=False) is not None
    assert reason_of("a g op: 1 → 2", known, reached=True) is None


@pytest.mark.slow
def test_every_mutant_is_caught_or_judged_and_no_judgement_is_stale(by_key: dict[str, Mutant]) -> None:
    with unchanged() as recorded:
        results = list(run_all(list(by_key.values()), recorded, workers=os.cpu_count() or 1))
    verdicts = {mutant.key: verdict(mutant, judgement) for mutant, judgement in results}
    print(f"\n{Counter(verdicts.values())}\n{summary(results)}")
    assert not [key for key, word in verdicts.items() if word in ("not judged", "harness")]
    keys = {word: [mutant.key for mutant, judgement in results if judgement.outcome == word] for word in LIVED}
    assert not stale(judged(), keys["survived"], keys["unreached"])
