"""Mistakes written into Hugging Face's source: the text stands there, the mistake is in the run, and goes with it."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from importlib import import_module
from textwrap import dedent

import pytest
import torch

from detection.families.subject import subject
from detection.ported.near import is_exact, is_near
from detection.ported.row import Row, rows
from detection.ported.run import LEVELS, anew, gap, judged
from detection.ported.substituted import substituted, text
from qwen3_golden import ParityError

LINE = "attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling"
FAR = 1e-4
"""Of the largest result; float noise is a hundredth of it."""


def row(name: str) -> Row:
    return next(row for row in rows() if row.name == name)


def test_every_row_stands_once_in_its_function_and_what_it_becomes_is_python() -> None:
    for mistake in rows():
        here = text(mistake)
        assert mistake.old != mistake.new and here.function.name == mistake.function.rpartition(".")[2]
        body = "\n".join(here.source.splitlines()[here.function.lineno - 1 : here.function.end_lineno])
        ast.parse(dedent(body.replace(mistake.old, mistake.new)))


def test_each_family_has_ten_rows_first_and_five_held() -> None:
    counts = Counter((mistake.family, mistake.part) for mistake in rows())
    assert all(counts[family, "first"] >= 10 and counts[family, "held"] >= 5 for family, _ in counts)


def test_a_mistake_moves_the_results_and_is_gone_with_the_run() -> None:
    mistake = row("llama-05")
    run = subject(mistake.family)
    assert gap(mistake) > FAR and torch.equal(run.run(anew(run)), run.clean)


def test_a_mistake_of_a_constructor_is_in_the_model_that_it_makes() -> None:
    run = subject("llama.Llama")
    with substituted(row("llama-03")):
        wrong = anew(run).model.rotary_emb.inv_freq
    assert not torch.equal(wrong, anew(run).model.rotary_emb.inv_freq)


def test_a_text_that_stands_nowhere_is_refused() -> None:
    with pytest.raises(ParityError, match="must stand once"):
        text(replace(row("llama-05"), old="no such text"))


def test_a_function_that_nobody_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = row("llama-04")
    monkeypatch.setattr(import_module(mistake.module), mistake.function, len)
    with pytest.raises(ParityError, match="nobody holds"), substituted(mistake):
        pass


def test_a_line_is_named_by_its_number_its_text_or_by_its_neighbours() -> None:
    here = text(row("llama-06"))
    assert is_exact(here, f"as in modeling_llama.py:{here.first} in eager_attention_forward")
    assert is_exact(here, f"as in: {LINE}")
    assert not is_exact(here, f"{LINE}, in modeling_llama.py:{here.first + 1} in forward")
    assert not is_exact(here, "key_states = repeat_kv(key, module.num_key_value_groups)")
    assert is_near(here, "key_states = repeat_kv(key, module.num_key_value_groups)")
    assert is_near(here, "attn_weights = attn_weights + attention_mask")
    assert not is_near(here, "value_states = repeat_kv(value, module.num_key_value_groups)")
    assert not is_near(here, "attn_output = torch.matmul(attn_weights, value_states)")


def test_a_number_in_an_answer_is_that_number_and_no_part_of_another() -> None:
    ahead = row("llama-10")
    assert ahead.is_told_by("positions + 1") and ahead.is_told_by("positions are one on")
    assert not ahead.is_told_by("positions times 1.5") and not ahead.is_told_by("positions of 10")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", rows(), ids=lambda mistake: mistake.name)
def test_every_row_moves_the_results(mistake: Row) -> None:
    assert gap(mistake) > FAR


@pytest.mark.slow
def test_a_mistake_of_no_row_is_caught_and_blamed_at_every_level() -> None:
    old = "q_embed = (q * cos) + (rotate_half(q) * sin)"
    other = replace(row("llama-05"), name="no row", old=old, new="q_embed = (q * cos) + 0.5 * (rotate_half(q) * sin)")
    for level in LEVELS:
        said = judged(other, level)
        assert said.caught and said.blamed and not said.failure
