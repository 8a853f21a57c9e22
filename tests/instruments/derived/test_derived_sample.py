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
    return {one: [s for s in seeds(one[0]) if (s.op, s.name) == one[1:]] for one in PLACES}


@pytest.fixture(scope="module")
def found(chosen: Mapping[tuple[str, str, str], Sequence[Seed]]) -> Sequence[Outcome | None]:
    return [judged(next(seed for seed in some if shows(seed))) for some in chosen.values()]


@pytest.mark.slow
def test_a_mistake_that_seeds_itself_is_caught(found: Sequence[Outcome | None]) -> None:
    assert len(found) == len(PLACES) and all(one is not None and one.caught for one in found)


def test_a_mistake_that_seeds_itself_is_blamed_on_its_op_alone(found: Sequence[Outcome | None]) -> None:
    assert not [one for one in found if one is None or not one.exact]


def test_a_mistake_that_seeds_itself_is_answered_by_its_name(found: Sequence[Outcome | None]) -> None:
    assert not [(one.name, one.names) for one in found if one is not None and not one.named]


def test_the_library_fails_nowhere(found: Sequence[Outcome | None]) -> None:
    assert not {text for one in found if one is not None for text in one.failures}


def test_a_case_without_a_mistake_is_at_parity() -> None:
    case = case_of("decoder/yarn_stated")
    assert check(case.golden, seeded(case, {}), case.weights).exit_code == 0


def test_every_tap_is_computed_again() -> None:
    case = case_of("decoder/yarn_stated")
    same = [one.info.name for one, other in zip(case.golden, seeded(case, {}), strict=True) if one is other]
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
    halved = next(one for one in hypotheses(site) if one.says == "multiplies positions by 0.5")
    assert halved.compute(site) is not None and computed(halved, site) is None


def test_every_name_in_the_source_has_an_outcome_or_a_reason() -> None:
    names = {name for (_, name), some in table.committed().items() if some != {table.NOTHING}}
    told = {one.partition(" -> ")[0].rpartition("/")[2] for one in table.why()}
    assert not written() - names - told


def test_every_other_answer_has_a_reason() -> None:
    assert not table.without_reason(table.committed())


def test_no_reason_is_left_over() -> None:
    wanted = {table.key(kind, one) for kind, some in table.committed().items() for one in some if one != kind[1]}
    names = {name for _, name in table.committed()}
    unmade = {one for one in table.why() if "/" not in one and " -> " not in one}
    assert set(table.why()) - unmade <= wanted
    assert not unmade & names
