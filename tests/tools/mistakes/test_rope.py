"""Wrong rotations, tables and positions, computed by torch in float32, get the names of their mistakes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from wrong_numbers import Wrong, evidence, explanations, first_name, named

from qwen3_golden import Array
from qwen3_spec.site import Site

CASE, TAP, HALF, THETA = "encdec/ragged", "decoder.layers.1.merged_attn.q_rope", 5, 250000.0
Rope = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
Numbers = Callable[[torch.Tensor], torch.Tensor]


def turn(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((-x[..., HALF:], x[..., :HALF]), -1)


def turn_neighbours(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def woven(t: torch.Tensor) -> torch.Tensor:
    return t[..., :HALF].repeat_interleave(2, -1)


def rotated(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return x * c + turn(x) * s


def first_six(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    c, s = (torch.cat((t[..., :3], t[..., :3]), -1) for t in (c, s))
    head = x[..., :6] * c + torch.cat((-x[..., 3:6], x[..., :3]), -1) * s
    return torch.cat((head, x[..., 6:]), -1)


def of(rope: Rope) -> Callable[[Site], Array]:
    def wrong(site: Site) -> Array:
        x, c, s = (torch.tensor(operand) for operand in site.inputs)
        return rope(x.transpose(1, 2), c[:, None], s[:, None]).float().numpy()

    return wrong


ROPES: dict[str, tuple[str, Rope]] = {
    "interleaved": ("rope.interleaved", lambda x, c, s: x * woven(c) + turn_neighbours(x) * woven(s)),
    "neighbours, tables of halves": ("rope.mixed_layout", lambda x, c, s: x * c + turn_neighbours(x) * s),
    "halves, tables of neighbours": ("rope.mixed_layout", lambda x, c, s: x * woven(c) + turn(x) * woven(s)),
    "put back woven": ("rope.output_layout", lambda x, c, s: rotated(x, c, s).unflatten(-1, (2, HALF)).mT.flatten(-2)),
    "not at all": ("rope.not_applied", lambda x, c, s: x),
    "backwards": ("rope.negative_angle", lambda x, c, s: x * c - turn(x) * s),
    "twice": ("rope.twice", lambda x, c, s: rotated(rotated(x, c, s), c, s)),
    "no minus": ("rope.sign", lambda x, c, s: x * c + x.roll(HALF, -1) * s),
    "exchanged": ("rope.swapped_cos_sin", lambda x, c, s: x * s + turn(x) * c),
    "cos alone": ("rope.term_missing", lambda x, c, s: x * c),
    "last four left": ("rope.partial", lambda x, c, s: torch.cat((rotated(x, c, s)[..., :6], x[..., 6:]), -1)),
    "first six alone": ("rope.partial", first_six),
    "other row": ("rope.other_row", lambda x, c, s: rotated(x, c.roll(1, 0), s.roll(1, 0))),
    "the token before": ("rope.other_position", lambda x, c, s: rotated(x, c.roll(1, 2), s.roll(1, 2))),
    "an unheard-of factor": ("rope.scaled", lambda x, c, s: 1.17 * rotated(x, c, s)),
    "bfloat16": ("rope.half_precision", lambda x, c, s: rotated(x.bfloat16(), c.bfloat16(), s.bfloat16())),
    "bfloat16 tables": ("rope.half_precision", lambda x, c, s: rotated(x, c.bfloat16().float(), s.bfloat16().float())),
    "float32": ("right", rotated),
}  # fmt: skip
test_a_wrong_rotation_is_named = named({key: (name, CASE, TAP, of(rope)) for key, (name, rope) in ROPES.items()})


def by(positions: Numbers, frequencies: Numbers) -> Callable[[Site], Array]:
    def wrong(site: Site) -> Array:
        ids = site.values.value("decoder.position_ids", site.step)
        freq = site.values.value("decoder.inv_freq", 0)
        angle = positions(torch.tensor(ids).float())[..., None] * frequencies(torch.tensor(freq))
        angle = torch.cat((angle, angle), -1)[:, None]
        return of(lambda x, c, s: rotated(x, angle.cos(), angle.sin()))(site)

    return wrong


def same(x: torch.Tensor) -> torch.Tensor:
    return x


def arbitrary(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([[0.3], [0.9], [0.1]]) * torch.tensor([0.2, 1.0, 0.7, 0.4])


ANGLES: dict[str, tuple[str, Numbers, Numbers]] = {
    "one ahead": ("rope.other_position", lambda p: p + 1, same),
    "far ahead": ("rope.other_position", lambda p: p + 17, same),
    "rows apart": ("rope.other_position", lambda p: p + torch.tensor([[0], [3], [-2]]), same),
    "reversed": ("rope.other_position", lambda p: p.flip(1), same),
    "no positions": ("rope.not_applied", lambda p: p * 0, same),
    "theta 10000": ("rope.other_theta", same, lambda f: 1e4 ** -(torch.arange(HALF) / HALF)),
    "an unheard-of theta": ("rope.other_theta", same, lambda f: 54321.0 ** -(torch.arange(HALF) / HALF)),
    "bfloat16 frequencies": ("table.half_precision", same, lambda f: f.bfloat16().float()),
    "frequencies reversed": ("table.exponent", same, lambda f: f.flip(0)),
    "unheard-of frequencies": ("table.unknown", same, lambda f: f * torch.tensor([1.0, 1.1, 0.9, 1.3, 1.2])),
    "angles of no rule": ("rope.other_angle", arbitrary, same),
}  # fmt: skip
test_a_rotation_by_wrong_angles_is_named = named(
    {key: (row[0], CASE, TAP, by(*row[1:])) for key, row in ANGLES.items()}
)


def raw_projection(site: Site) -> torch.Tensor:
    raw = torch.tensor(site.values.value("decoder.layers.1.merged_attn.q_proj", 0)).unflatten(-1, (-1, 10))
    return raw.transpose(1, 2)


def test_a_rotation_of_the_raw_projection_is_named() -> None:
    def wrong(site: Site) -> Array:
        return of(lambda x, c, s: rotated(raw_projection(site), c, s))(site)

    assert first_name(CASE, TAP, wrong) == "rope.before_norm"


def test_a_norm_behind_the_rotation_is_named() -> None:
    def wrong(site: Site) -> Array:
        weight = torch.tensor(site.checkpoint["decoder.layers.1.merged_attn.q_norm.weight"])

        def rope(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
            y = rotated(raw_projection(site), c, s)
            return weight * y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)

        return of(rope)(site)

    tap_evidence = evidence(CASE, TAP, wrong)
    assert explanations(tap_evidence)[0].says == "normalises after the rotation, not before"


def test_a_norm_of_what_was_rotated_first_is_named_where_the_norm_was_recorded() -> None:
    def wrong(site: Site) -> Array:
        c, s = (torch.tensor(site.values.value(f"decoder.{table}", site.step))[:, :, None] for table in ("cos", "sin"))
        y = rotated(torch.tensor(site.inputs[0]).unflatten(-1, (-1, 10)), c, s)
        y = torch.tensor(site.parameters["weight"]) * y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-6)
        return y.float().numpy()

    tap_evidence = evidence(CASE, TAP.replace("q_rope", "q_norm"), wrong)
    (first, *_) = explanations(tap_evidence)
    assert (first.name, first.says[:30]) == ("rope.before_norm", "norms the rotated projection: ")


def test_heads_turned_as_positions_are_named_where_there_are_as_many() -> None:
    tap = "encoder.layers.0.self_attn.q_rope"

    def wrong(site: Site) -> Array:
        return of(lambda x, c, s: rotated(x, c.transpose(1, 2), s.transpose(1, 2)))(site)

    assert first_name("encdec/unrotated", tap, wrong) == "rope.heads_as_positions"


Table = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def doubled(angle: torch.Tensor) -> torch.Tensor:
    return torch.cat((angle, angle), -1)


def angle(p: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    return doubled(p[..., None] * f)


TABLES: dict[str, tuple[str, Table]] = {
    "the other function": ("table.swapped_cos_sin", lambda p, f: angle(p, f).sin()),
    "scaled": ("table.scaled", lambda p, f: 1.05 * angle(p, f).cos()),
    "divided positions": ("table.linear_scaling", lambda p, f: angle(p / 4, f).cos()),
    "degrees": ("table.linear_scaling", lambda p, f: angle(p, f * torch.pi / 180).cos()),
    "stored in bfloat16": ("table.half_precision", lambda p, f: angle(p, f).cos().bfloat16().float()),
    "bfloat16 frequencies": ("table.half_precision", lambda p, f: angle(p, f.bfloat16().float()).cos()),
    "woven": ("table.interleaved", lambda p, f: (p[..., None] * f).repeat_interleave(2, -1).cos()),
    "half empty": ("table.half_filled", lambda p, f: torch.cat(((p[..., None] * f).cos(), 0 * p[..., None] * f), -1)),
    "one ahead": ("positions.offset", lambda p, f: angle(p + 1, f).cos()),
    "clamped": ("table.clamped_positions", lambda p, f: angle(p.clamp(max=2), f).cos()),
    "wrapped": ("table.wrapped_positions", lambda p, f: angle(p % 16, f).cos()),
    "theta": ("table.theta", lambda p, f: angle(p, 1e4 ** -(torch.arange(len(f)) / len(f))).cos()),
    "backwards": ("table.negative_angle", lambda p, f: -angle(p, f).sin()),
}  # fmt: skip
PLACES = {"wrapped": ("encoder/window_even", "encoder.cos"), "backwards": (CASE, "decoder.sin")}


def tabled(table: Table) -> Wrong:
    return lambda site: table(torch.tensor(site.inputs[0]).float(), torch.tensor(site.inputs[1])).numpy()


test_a_wrong_table_is_named = named(
    {key: (name, *PLACES.get(key, (CASE, "decoder.cos")), tabled(table)) for key, (name, table) in TABLES.items()}
)


INDEX = np.arange(HALF)
FREQUENCIES: dict[str, tuple[str, Array]] = {
    "a common theta": ("table.theta", 1e4 ** -(INDEX / HALF)),
    "theta off by 0.01 %": ("table.theta", (THETA * 1.0001) ** -(INDEX / HALF)),
    "i / head_dim": ("table.exponent", THETA ** -(INDEX / 10)),
    "over hidden_size": ("table.exponent", THETA ** -(2 * INDEX / 40)),
    "over head_dim - 2": ("table.exponent", THETA ** -(2 * INDEX / 8)),
    "starts at 1": ("table.exponent", THETA ** -((INDEX + 1) / HALF)),
    "divided": ("table.linear_scaling", 0.25 * THETA ** -(INDEX / HALF)),
    "an unheard-of factor": ("table.linear_scaling", 1.7 * THETA ** -(INDEX / HALF)),
    "NTK": ("table.ntk_scaling", (THETA * 4 ** (10 / 8)) ** -(INDEX / HALF)),
    "bfloat16": ("table.half_precision", torch.tensor(THETA ** -(INDEX / HALF)).bfloat16().float().numpy()),
    "of the pair before": ("table.exponent", THETA ** -((INDEX - 1) / HALF)),
    "never made": ("table.empty", np.zeros(HALF)),
    "of no rule": ("table.unknown", THETA ** -(INDEX / HALF) * (1 + 0.1 * INDEX)),
}  # fmt: skip
test_wrong_frequencies_are_named = named(
    {key: (name, CASE, "decoder.inv_freq", lambda _, f=f: f) for key, (name, f) in FREQUENCIES.items()}
)


Positions = Callable[[Array], Array]
POSITIONS: dict[str, tuple[str, int, Positions]] = {
    "one ahead": ("positions.offset", 0, lambda p: p + 1),
    "far ahead": ("positions.offset", 0, lambda p: p + 37),
    "rows apart": ("positions.offset", 0, lambda p: p + np.array([[0], [1], [-1]])),
    "all 0": ("positions.constant", 0, lambda p: p * 0),
    "behind the prompt": ("positions.constant", 0, lambda p: np.full(p.shape, 4)),
    "the row before": ("positions.other_row", 0, lambda p: np.roll(p, 1, 0)),
    "doubled": ("positions.scaled", 0, lambda p: p * 2),
    "reversed": ("positions.reversed", 0, lambda p: p[:, ::-1]),
    "no 0": ("positions.first", 0, lambda p: np.maximum(p, 1)),
    "clamped": ("positions.clamped", 0, lambda p: np.minimum(p, 2)),
    "slots": ("positions.not_counting_padding", 0, lambda p: np.broadcast_to(np.arange(4), p.shape)),
    "slots of a step": ("positions.not_counting_padding", 2, lambda p: np.full(p.shape, 5)),
    "past twice": ("positions.past_counted_twice", 2, lambda p: p + 5),
    "a chunk from 0": ("positions.restarted", 1, lambda p: np.broadcast_to(np.arange(3), p.shape)),
}
POSITION_IDS = "decoder.position_ids"


def counted(positions: Positions) -> Wrong:
    return lambda site: positions(site.values.value(POSITION_IDS, site.step))


def taken_for_padding(token: int) -> Wrong:
    """As if the tokens of an id were padding, which is not counted."""

    def wrong(site: Site) -> Array:
        ids, mask = (site.values.value(f"input.decoder_{leaf}", 0) for leaf in ("input_ids", "attention_mask"))
        positions = site.values.value(POSITION_IDS, site.step)
        assert ids is not None and mask is not None and positions is not None
        return np.asarray(positions - np.cumsum((ids == token) & (mask == 1), 1)[:, : positions.shape[1]])

    return wrong


test_wrong_positions_are_named = named(
    {
        key: (name, "encdec/unrotated" if step == 1 else CASE, POSITION_IDS, counted(positions), step)
        for key, (name, step, positions) in POSITIONS.items()
    }
    | {"padding's id": ("positions.pad_id", "encdec/unpadded", POSITION_IDS, taken_for_padding(3), 0)}
)
