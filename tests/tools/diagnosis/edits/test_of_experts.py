"""Mistakes of single experts are told by the tokens that chose them: left out, not weighted, loaded otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from by_taps import first_of, firsts, golden, weights

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits import of_experts as of_experts_module

CASE, MLP = "model/qwen3_moe", "model.layers.0.mlp"
Loads = tuple[Array, Array]


def routed() -> tuple[Array, Array, Array]:
    """What goes into the experts `[token, hidden]`, whom each token chose and by which weight `[token, choice]`."""
    case = golden(CASE)
    x = case["model.layers.0.post_attention_layernorm", 0].values().astype(np.float64)
    return x.reshape(-1, x.shape[-1]), case[f"{MLP}.gate[2]", 0].values(), case[f"{MLP}.gate[1]", 0].values()


def experts(change: Callable[[Array, Array], Loads] = lambda up, down: (up, down), by: Array | None = None) -> Array:
    """What they give with their parameters changed, or by other weights."""
    x, chosen, weight = routed()
    names = (f"{MLP}.experts.gate_up_proj", f"{MLP}.experts.down_proj")
    up, down = change(*(np.array(weights(CASE)[name], np.float64) for name in names))
    gate, value = np.split(np.einsum("ecd,td->tec", up, x), 2, -1)
    of_each = np.einsum("edc,tec->ted", down, gate / (1 + np.exp(-gate)) * value)
    picked = np.take_along_axis(of_each, chosen[..., None], 1)
    return np.asarray((picked * (weight if by is None else by)[..., None]).sum(1))


def single() -> int:
    """An expert that two tokens chose, and no other expert the same two."""
    _, chosen, _ = routed()
    return int(next(expert for expert in range(chosen.max() + 1) if (chosen == expert).sum() == 2))


EXPERT = single()
LOST = sorted(((token, int(routed()[1][token, 1])) for token in (3, 9)), key=lambda lost: lost[1])
"""Tokens, and the experts in the middle of those that they chose."""


def words(token: int, expert: int) -> str:
    return f"expert {expert} out for token {token}"


def changed(parameter: int, function: Callable[[Array], Array], first: int = EXPERT) -> Array:
    def change(*parameters: Array) -> Loads:
        parameters[parameter][first] = function(parameters[parameter][first])
        return parameters[0], parameters[1]

    return experts(change)


def from_then_on(first: int) -> Array:
    def change(*parameters: Array) -> Loads:
        up, down = (np.concatenate([part[:first], np.roll(part[first:], 1, 0)]) for part in parameters)
        return up, down

    return experts(change)


def of_another(up: Array, down: Array) -> Loads:
    up[EXPERT], down[EXPERT] = up[EXPERT - 1], down[EXPERT - 1]
    return up, down


def without(*places: tuple[int, int]) -> Array:
    """The weights without those of some tokens' experts."""
    _, chosen, weight = routed()
    gone = [(chosen == expert) & (np.arange(len(chosen)) == token)[:, None] for token, expert in places]
    return np.where(np.any(gone, 0), 0, weight)


def first_of_each() -> Array:
    """The weights of a forward in which each expert has room for one token."""
    _, chosen, weight = routed()
    flat = chosen.ravel()
    full = [expert in flat[:place] for place, expert in enumerate(flat)]
    return np.where(np.reshape(full, chosen.shape), 0, weight)


MISTAKES: dict[str, tuple[Callable[[], Array], str]] = {
    "left out": (lambda: changed(1, np.zeros_like), f"leaves expert {EXPERT} out, at"),
    "gate and up exchanged": (
        lambda: changed(0, lambda w: np.roll(w, len(w) // 2, 0)),
        f"has the halves of the rows of layers.*.mlp.experts.gate_up_proj exchanged in expert {EXPERT}, at",
    ),
    "not weighted": (
        lambda: experts(by=np.where(routed()[1] == EXPERT, 1, routed()[2])),
        f"does not weight what expert {EXPERT} gives, at",
    ),
    "another": (lambda: experts(of_another), f"runs expert {EXPERT - 1} for expert {EXPERT}, at"),
    "a shard that is off": (
        lambda: from_then_on(5),
        "has the expert before in the place of each of the experts 5–10, in a circle, at",
    ),
    "room for few": (
        lambda: experts(by=first_of_each()),
        "leaves every expert out beyond a capacity of tokens / 11, rounded up, at",
    ),
    "some tokens": (lambda: experts(by=without(*LOST)), f"leaves {', '.join(words(*lost) for lost in LOST)}, at"),
}


def test_of_large_parameters_the_weights_of_what_experts_give_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_experts_module, "_LARGEST", 8)
    for mistake in ("left out", "not weighted"):
        test_what_an_expert_does_otherwise_is_told(mistake)


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_an_expert_does_otherwise_is_told(mistake: str) -> None:
    wrong, says = MISTAKES[mistake]
    assert np.allclose(experts(), golden(CASE)[f"{MLP}.experts", 0].values(), rtol=1e-3, atol=1e-4)
    first, *_ = firsts(CASE, {f"{MLP}.experts": wrong()})
    assert first.startswith(f"edit.expert: {says}")


def test_a_routers_weights_of_tokens_beyond_a_capacity_are_told() -> None:
    """Each expert has room for its part of the choices, rounded up; who comes later has a weight of 0."""
    _, chosen, weight = routed()
    flat, count = chosen.ravel(), weights(CASE)[f"{MLP}.gate.weight"].shape[0]
    capacity = -(-flat.size // count)
    full = np.array([(flat[:place] == expert).sum() >= capacity for place, expert in enumerate(flat)])
    first, *_ = firsts(
        CASE, {f"{MLP}.gate[1]": np.where(full.reshape(chosen.shape), 0, weight), f"{MLP}.gate[2]": chosen}
    )
    says = f"leaves every expert out beyond a capacity of tokens × {chosen.shape[1]} / {count}, rounded up, at "
    assert first.startswith(f"edit.expert: {says}")


def test_fewer_chosen_experts_are_told_once_where_no_choice_was_recorded() -> None:
    """The choice has another shape then, and no tap of it is the golden's."""
    _, _, weight = routed()
    scores = weight[:, :-1].astype(np.float64)
    chosen = experts(by=np.pad(scores / scores.sum(-1, keepdims=True), ((0, 0), (0, 1))))
    shown = ("layers.0.post_attention_layernorm", f"{MLP}.gate", f"{MLP}.experts")
    said = first_of(CASE, {(shown[-1], 0): chosen}, shown)
    assert said.startswith(f"edit.sibling: chooses {weight.shape[-1] - 1}, not {weight.shape[-1]}, at modeling_")
