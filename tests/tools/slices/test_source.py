"""Lines of the reference say their variables, where the installed transformers is the golden's; else they say none."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache

import pytest

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_parity.slices.source import assigned, call_of, called_beside, line_of, operand, text_of
from qwen3_spec.graph import Line

FILE, GPT2 = "modeling_qwen3_moe.py", "modeling_gpt2.py"


@cache
def golden() -> Recording:
    return read(GOLDEN_ROOT / "cases/model/qwen3_moe_dense_layers.pb")


def another() -> Recording:
    """The golden of another version of transformers."""
    provenance = pb.Provenance()
    provenance.CopyFrom(golden().provenance)
    for pair in provenance.versions:
        if pair.key == "transformers":
            pair.value = "0.1"
    return replace(golden(), provenance=provenance)


def line(code: str, function: str = "") -> Line:
    line = line_of(FILE, code, golden(), function)
    assert line is not None
    return line


def test_a_variable_that_a_function_assigns_once_is_its_name_alone() -> None:
    assert assigned(line("variance = "), golden()) == "variance"
    assert assigned(line("q_embed = "), golden()) == "q_embed"


def test_a_variable_that_a_function_assigns_more_often_has_its_line() -> None:
    here = line("hidden_states = residual + hidden_states")
    assert assigned(here, golden()) == f"hidden_states (line {here.number})"


def test_of_several_variables_each_is_called_by_its_place() -> None:
    assert [assigned(line("cos, sin = position_embeddings"), golden(), place) for place in (0, 1, 2)] == [
        "cos",
        "sin",
        "",
    ]


@pytest.mark.parametrize("code", ["return self.weight * hidden_states.to", "cos, sin = position_embeddings", "import "])
def test_what_assigns_no_variable_or_several_has_none(code: str) -> None:
    assert not assigned(line(code), golden())


def test_a_line_that_goes_on_is_its_statements() -> None:
    """The arguments of a call stand on lines of their own."""
    start = line("attn_weights = nn.functional.softmax", "eager_attention_forward")
    assert assigned(start, golden()) == f"attn_weights (line {start.number})"


def test_an_operand_is_the_variable_that_stands_there() -> None:
    here = line("hidden_states = residual + hidden_states")
    assert [operand(here, ast.Add, slot, golden()) for slot in (0, 1)] == ["residual", "hidden_states"]
    assert not operand(here, ast.Mult, 0, golden())


def test_an_operand_that_is_more_than_a_name_has_none() -> None:
    assert [operand(line("q_embed = "), ast.Add, slot, golden()) for slot in (0, 1)] == ["", ""]


def test_another_version_of_transformers_says_nothing() -> None:
    here = line("hidden_states = residual + hidden_states")
    assert text_of(here, golden()) and assigned(here, golden())
    assert not text_of(here, another()) and not assigned(here, another())
    assert not operand(here, ast.Add, 0, another())


@pytest.mark.parametrize("number", [0, -3, 10**9])
def test_a_line_beyond_the_file_says_nothing(number: int) -> None:
    assert not assigned(Line(FILE, number, "forward"), golden())
    assert not operand(Line(FILE, number, "forward"), ast.Add, 0, golden())


def in_stablelm(code: str) -> Line:
    here = line_of("modeling_stablelm.py", code, golden())
    assert here is not None
    return here


@pytest.mark.parametrize(
    ("ran", "call"),
    [
        ("residual + self_attn_output + mlp_output", "self.mlp(hidden_states)"),
        ("residual = residual + self_attn_output", "self.mlp(self.post_attention_layernorm(residual))"),
    ],
)
def test_of_two_calls_of_a_module_the_one_in_the_branch_that_ran_is_named(ran: str, call: str) -> None:
    assert call_of("mlp", [in_stablelm(ran)], golden()) == in_stablelm(call)


def test_where_no_line_tells_which_branch_ran_the_first_call_is_named() -> None:
    assert call_of("mlp", [in_stablelm("residual = hidden_states")], golden()) == in_stablelm("self.mlp(hidden_states)")


def test_a_module_of_whose_function_no_line_ran_is_called_where_those_beside_it_are() -> None:
    """GPT-2's MLP calls modules alone: their lines are other files'."""
    call = called_beside("act", ["c_fc", "c_proj"], [GPT2], golden())
    assert call is not None and text_of(call, golden()) == "hidden_states = self.act(hidden_states)"
    assert called_beside("act", [], [GPT2], golden()) is None  # one name alone may be any function's
    assert called_beside("act", ["c_attn"], [GPT2], golden()) is None
    assert called_beside("act", ["c_fc"], [GPT2], another()) is None
