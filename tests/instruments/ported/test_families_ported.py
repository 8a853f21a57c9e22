"""Mistakes written into Hugging Face's source: the text stands there, the mistake is in the run, and goes with it."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest
import torch
from click.testing import CliRunner

from detection.families.subject import subject
from detection.ported import command
from detection.ported.near import is_exact, is_near
from detection.ported.row import SETS, Row, read, rows
from detection.ported.run import LEVELS, Judged, Said, anew, gap, judged
from detection.ported.substituted import substituted, text
from qwen3_golden import ParityError

LINE = "attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling"
FAR = 1e-4
"""Of the largest result; float noise is a hundredth of it."""


def row(name: str) -> Row:
    return next(row for row in rows() if row.name == name)


@pytest.mark.parametrize(
    ("tap", "is_there"),
    [
        ("model.layers.0", True),
        ("layers.1", True),
        ("model.encoder.text_model.layers.0", True),
        ("bert.encoder.layer.0", True),
        ("transformer.h.1", True),
        ("model.norm", True),
        ("logits", True),
        ("model.layers.0.input_layernorm", False),
        ("bert.encoder.layer.0.output", False),
        ("layers.0.self_attn.q_norm", False),
    ],
)
def test_of_layers_alone_their_results_are_recorded_wherever_they_stand(tap: str, is_there: bool) -> None:
    assert bool(LEVELS["layers"].match(tap)) == is_there


def test_every_row_stands_once_in_its_function_and_what_it_becomes_is_python() -> None:
    for mistake in rows():
        here = text(mistake)
        assert (
            mistake.alternatives
            and mistake.old != mistake.new
            and here.function.name == mistake.function.rpartition(".")[2]
        )
        body = "\n".join(here.source.splitlines()[here.function.lineno - 1 : here.function.end_lineno])
        ast.parse(dedent(body.replace(mistake.old, mistake.new)))


def test_each_family_has_ten_rows_first_and_five_held_or_five_of_another_set() -> None:
    counts = Counter((mistake.family, mistake.part) for mistake in rows())
    for family in {family for family, _ in counts}:
        first, held, *sets = (counts[family, part] for part in SETS)
        again = sets[SETS.index("seventh") - 2 :]  # later draws take families again
        once = [first + held, *sets[: -len(again)]]
        assert (first >= 10 and held >= 5) or max(sets) >= 5
        assert sum(map(bool, once)) == 1 or (any(again) and not any(once))


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
    assert ahead.fits("positions + 1") and ahead.fits("positions are one on")
    assert not ahead.fits("positions times 1.5") and not ahead.fits("positions of 10")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", rows(), ids=lambda mistake: mistake.name)
def test_every_row_moves_the_results(mistake: Row) -> None:
    assert gap(mistake) > FAR


@pytest.mark.slow
def test_a_mistake_of_no_row_is_caught_and_blamed_at_every_level() -> None:
    old = "q_embed = (q * cos) + (rotate_half(q) * sin)"
    unlisted = replace(
        row("llama-05"), name="no row", old=old, new="q_embed = (q * cos) + 0.5 * (rotate_half(q) * sin)"
    )
    for level in LEVELS:
        said = judged(unlisted, level)
        assert said.caught and said.blamed and not said.failure


def test_a_file_with_a_line_that_is_no_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "llama.txt"
    whole = "== first rotate_half @ model\n# a remark\n- a = 1\n+ a = 2\n~ two & number\n! b = a\n"
    path.write_text(whole)
    (good,) = read("llama.Llama", path)
    assert (good.name, good.old, good.new, good.also) == ("llama-01", "a = 1", "a = 2", ("b = a",))
    for misread in (f"- a = 1\n{whole}", f"{whole}a = 3\n", whole.replace("first", "no_such"), whole.replace("~", "#")):
        path.write_text(misread)
        with pytest.raises(ParityError, match="this is no row"):
            list(read("llama.Llama", path))


def test_the_command_prints_each_row_and_the_sums_and_goes_on_from_its_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran: list[str] = []

    def invented(_work: object, items: Iterable[tuple[Row, str]], *_: object) -> Iterator[Judged]:
        for row, level in items:
            ran.append(level)
            said = (Said("model.norm", "edit.x", "a sum", mechanism=True, exact=False, near=row.name == "llama-05"),)
            yield Judged(row.name, level, 0.5, caught=True, said=said)

    monkeypatch.setattr(command, "run_each", invented)
    out = tmp_path / "rows.json"
    arguments = ["--only", "llama-0[56]", "--json", str(out)]
    done = CliRunner().invoke(command.ported, [*arguments, "--level", "modules"])
    assert done.exit_code == 0, done.output
    assert "llama-05 modules (gap 0.5): blamed, line, right\n    + model.norm: edit.x: a sum" in done.output
    assert "llama-06 modules (gap 0.5): blamed, not line, not right\n    - " in done.output
    assert CliRunner().invoke(command.ported, arguments).exit_code == 0
    assert ran == ["modules", "modules", *2 * [level for level in LEVELS if level != "modules"]]
    out.write_text("[{}]")
    assert "these are no rows of ports' mistakes" in CliRunner().invoke(command.ported, arguments).output
    assert CliRunner().invoke(command.ported, ["--only", "x"]).exit_code == 2


@pytest.mark.slow
def test_the_command_judges_a_family_in_a_process(tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    done = CliRunner().invoke(command.ported, ["--only", "llama-06", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert [(row["level"], row["caught"], row["failure"]) for row in json.loads(out.read_text())] == [
        (level, True, "") for level in LEVELS
    ]
