"""A handful of mistakes seed themselves: each is caught, blamed on its op alone, and answered by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from detection.derived import table
from detection.derived.derive import Seed, computed, hypotheses, seeds, shows
from detection.derived.names import written
from detection.derived.outcome import Outcome, judged
from detection.derived.seed import case_of, seeded
from qwen3_golden import ParityError
from qwen3_parity.check import check
from qwen3_spec.site import Site

PLACES = {
    ("classic/bert", "layer_norm", "norm.rms"),
    ("classic/bert", "activation", "mlp.activation"),
    ("classic/bert", "activation", "wiring.half_precision"),
    ("classic/pre_norm", "embedding", "weight.negated"),
    ("encoder/one_token", "swiglu", "mlp.no_up"),
    ("encoder/one_token", "rms_norm", "norm.one_plus_weight"),
    ("decoder/yarn_stated", "rope", "rope.interleaved"),
    ("decoder/yarn_stated", "softmax", "softmax.no_mask"),
    ("decoder/yarn_stated", "inv_freq", "yarn.ignored"),
    ("decoder/yarn_stated", "cache", "cache.not_written"),
    ("decoder/yarn_stated", "residual", "residual.missing"),
    ("training/causal", "norm_weight_gradient", "gradient.scaled"),
    ("training/causal", "loss", "loss.sum"),
}
"""A case, an op, a mistake."""


@pytest.fixture(scope="module")
def chosen() -> Mapping[tuple[str, str, str], Sequence[Seed]]:
    return {place: [s for s in seeds(place[0]) if (s.op, s.name) == place[1:]] for place in PLACES}


@pytest.fixture(scope="module")
def outcomes(chosen: Mapping[tuple[str, str, str], Sequence[Seed]]) -> Sequence[Outcome | None]:
    return [judged(next(seed for seed in alike if shows(seed))) for alike in chosen.values()]


@pytest.mark.slow
def test_a_mistake_that_seeds_itself_is_caught(outcomes: Sequence[Outcome | None]) -> None:
    assert len(outcomes) == len(PLACES) and all(outcome is not None and outcome.caught for outcome in outcomes)


@pytest.mark.slow
def test_a_mistake_that_seeds_itself_is_blamed_on_its_op_alone(outcomes: Sequence[Outcome | None]) -> None:
    assert not [outcome for outcome in outcomes if outcome is None or not outcome.exact]


@pytest.mark.slow
def test_a_mistake_that_seeds_itself_is_answered_by_its_name(outcomes: Sequence[Outcome | None]) -> None:
    assert not [(outcome.name, outcome.names) for outcome in outcomes if outcome is not None and not outcome.named]


@pytest.mark.slow
def test_the_library_fails_nowhere(outcomes: Sequence[Outcome | None]) -> None:
    assert not {text for outcome in outcomes if outcome is not None for text in outcome.failures}


def test_a_case_without_a_mistake_is_at_parity() -> None:
    case = case_of("decoder/yarn_stated")
    assert check(case.golden, seeded(case, {}), case.weights).exit_code == 0


def test_every_tap_is_computed_again() -> None:
    case = case_of("decoder/yarn_stated")
    same = [
        recorded.info.name for recorded, again in zip(case.golden, seeded(case, {}), strict=True) if recorded is again
    ]
    assert same and all(name.startswith(("input.", "parameter.")) or name == "next_token" for name in same), same


def test_a_place_that_would_read_what_comes_behind_it_is_refused() -> None:
    case, norm = case_of("encoder/one_token"), "encoder.layers.{layer}.input_layernorm"

    def reads_ahead(site: Site) -> None:
        site.values.value(site.sibling("mlp.act"), site.step)

    with pytest.raises(ParityError, match="cannot be computed again"):
        seeded(case, {norm: reads_ahead})


def test_what_a_tap_cannot_hold_is_no_seed() -> None:
    case = case_of("encoder/ragged")
    site = next(case.sites("encoder.position_ids"))
    halved = next(hypothesis for hypothesis in hypotheses(site) if hypothesis.says == "multiplies positions by 0.5")
    assert halved.compute(site) is not None and computed(halved, site) is None


def test_every_name_in_the_source_has_an_outcome_or_a_reason() -> None:
    names = {name for (_, name), answers in table.committed().items() if answers != {table.NOTHING}}
    explained = {answer.partition(" -> ")[0].rpartition("/")[2] for answer in table.why()}
    assert not written() - names - explained


def test_every_other_answer_has_a_reason() -> None:
    assert not table.without_reason(table.committed())


def test_no_reason_is_left_over() -> None:
    needed = {
        table.key(kind, answer)
        for kind, answers in table.committed().items()
        for answer in answers
        if answer != kind[1]
    }
    names = {name for _, name in table.committed()}
    unmade = {answer for answer in table.why() if "/" not in answer and " -> " not in answer}
    assert set(table.why()) - unmade <= needed
    assert not unmade & names
