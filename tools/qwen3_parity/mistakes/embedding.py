"""Wrong embeddings: a factor, other rows of the table, something added, another form of the table."""

# ruff: noqa: E501 - tables, a row to a line

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from qwen3_golden import Array, pb
from qwen3_parity.mistakes.factors import named
from qwen3_parity.mistakes.gradients import SUM, cut
from qwen3_parity.mistakes.hypothesis import Hypothesis, Mistakes
from qwen3_parity.mistakes.normed import normed
from qwen3_parity.mistakes.observed import Observed, encoder_slots, factor_between, likely, observe, real, unit_of
from qwen3_parity.mistakes.parameters import loaded_as_stored, other_tensors
from qwen3_parity.mistakes.ranks import COMBINED, FITTED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import NARROW, ROUNDED, bfloat16
from qwen3_spec import SpecConfig
from qwen3_spec.ops import OPS, linear
from qwen3_spec.ops.embedding import embedding_parts
from qwen3_spec.rounding import FLOAT32_ROUNDOFF
from qwen3_spec.site import Result, Site

FIX = "copy row id of the embedding table, unchanged"


def ids_of(site: Site) -> Array:
    """The ids of this step, `[batch, seq]`."""
    return site.this_step(site.inputs[0]).astype(np.int64)


def table_of(site: Site) -> Array:
    """The embedding table, `[vocab, hidden]`."""
    return site.parameters["weight"]


def rows_of(site: Site) -> Array:
    """The right rows in float64, `[batch, seq, hidden]`."""
    return np.asarray(table_of(site)[ids_of(site)], np.float64)


def rounded_unit(y: Array) -> Array:
    """The unit of numbers that were computed once, not copied."""
    return np.asarray(FLOAT32_ROUNDOFF * np.abs(y) + 2.0**-126)


def all_ids(site: Site) -> Array:
    """The ids of every step, `[batch, total]`."""
    return site.inputs[0].astype(np.int64)


def stop_of(site: Site) -> int:
    """Slots after this step."""
    return all_ids(site).shape[1] if encoder_slots(site) else site.stop


def _padding(site: Site) -> Array | None:
    """`[batch, seq]`, True = padding."""
    mask = site.values.recorded(site.names[0].replace("input_ids", "attention_mask"), 0)
    return None if mask is None else ~site.this_step(mask).astype(bool)


def _positions(site: Site, *, counted: bool) -> Array:
    """`[batch, seq]`: position ids, or slots whatever is padding."""
    ids = ids_of(site)
    if counted:
        position_ids = site.values.value(site.place.name.replace("embed_tokens", "position_ids"), site.step)
        if position_ids is not None and position_ids.shape == ids.shape:
            return position_ids.astype(np.int64)
    return np.broadcast_to(np.arange(stop_of(site) - ids.shape[1], stop_of(site)), ids.shape)


def _sinusoids(at: Array, hidden: int, *, woven: bool) -> Array:
    """The Transformer's positions `[batch, seq, hidden]`: sines and cosines by turns, or in halves."""
    angle = at[..., None] / 10000.0 ** (np.arange(-(-hidden // 2)) / (hidden / 2))
    parts = (np.sin(angle), np.cos(angle))
    joined = np.stack(parts, axis=-1).reshape(*at.shape, -1) if woven else np.concatenate(parts, axis=-1)
    return joined[..., :hidden]


def additions() -> Iterator[Hypothesis]:
    def plus(start: int, woven: bool, counted: bool, site: Site) -> Result:
        at = _positions(site, counted=counted) + start
        added = _sinusoids(at, table_of(site).shape[1], woven=woven)
        return rows_of(site) + added, rounded_unit(np.abs(rows_of(site)) + 1 + np.abs(added) + at[..., None])

    def normed_rows(site: Site) -> Result:
        return normed(site, rows_of(site))

    def unit_length(site: Site) -> Result:
        x = rows_of(site)
        bare = replace(site, config=replace(site.config, rms_norm_eps=0.0))
        y, unit = normed(bare, x)
        root = x.shape[-1] ** -0.5
        return y * root, unit_of((y, unit)) * root

    def masked(site: Site) -> Result | None:
        padding = _padding(site)
        return None if padding is None else (np.where(padding[..., None], 0.0, rows_of(site)), None)

    def sharded(count: int, whole: bool, site: Site) -> Result:
        table = table_of(site)
        starts = np.arange(count) * (len(table) // count + (whole and len(table) % count > 0))
        ends = [*starts[1:], len(table)]
        parts = [table[np.clip(ids_of(site), *shard)] for shard in zip(starts, np.array(ends) - 1, strict=True)]
        return np.add.reduce(parts, dtype=np.float64), rounded_unit(np.add.reduce(np.abs(parts), dtype=np.float64))

    for start, woven, counted in product((0, 1), (True, False), (True, False)):
        indices, how = "positions" if counted else "slots", "by turns" if woven else "in halves"
        says = f"adds sinusoids of {indices} from {start}, sines and cosines {how}"
        yield Hypothesis("embedding.positions_added", says, FIX, partial(plus, start, woven, counted), PLAIN + 1)
    yield Hypothesis("embedding.normed", "normalises its rows", FIX, normed_rows, PLAIN + 1)
    yield Hypothesis("embedding.normed", "scales its rows to length 1", FIX, unit_length, PLAIN + 1)
    yield Hypothesis("embedding.padding_zeroed", "gives padding rows of zeros", FIX, masked, PLAIN + 1)
    for count, whole in product((2, 4, 8), (True, False)):
        says = f"adds what {count} shards have: of an id that is not its own a shard gives its nearest row, not zeros"
        yield Hypothesis("embedding.shards", says, FIX, partial(sharded, count, whole), PLAIN + 1)


def shared_additions(site: Site) -> Iterator[Hypothesis]:
    """One vector for each position, or one on every token: for embeddings that nothing else explains."""
    for name, says, key, rank in (
        ("embedding.positions_added", "adds a vector of its own at each position", "position", COMBINED + 3),
        ("embedding.positions_added", "adds a vector of its own at each slot", "slot", COMBINED + 3),
        ("embedding.constant_added", "adds the same vector to every token", "", COMBINED + 2),
        (
            "weight.unknown",
            "has rows of no tensor of the checkpoint, the same whenever an id comes again",
            "id",
            FITTED + 1,
        ),
    ):
        if key == "id" and loaded_as_stored(site):
            continue
        yield Hypothesis(name, says, FIX, partial(_plus_fitted, key), rank)


def _keys(site: Site, key: str) -> Array:
    if key == "id":
        return ids_of(site)
    return _positions(site, counted=key == "position") if key else np.zeros(ids_of(site).shape, np.int64)


def _plus_fitted(key: str, site: Site) -> Result | None:
    """What tokens of one key have in common beside their rows; None where no two tokens share one."""
    observed = observe(site)
    if observed is None:
        return None
    keys = _keys(site, key)
    cells = real(site)
    good = observed.wrong.any(axis=-1) & (True if cells is None else cells[..., 0])
    difference, fitted, shared = observed.actual - observed.truth, np.zeros(observed.truth.shape), False
    for label in np.unique(keys[good]):
        same = good & (keys == label)
        # The token of the smallest sum was rounded least.
        least = np.argmin(np.abs(observed.actual[same]), axis=0)
        fitted[keys == label] = np.take_along_axis(difference[same], least[None], axis=0)[0]
        shared = shared or int(same.sum()) > 1
    return (observed.truth + fitted, rounded_unit(np.abs(observed.truth) + np.abs(fitted))) if shared else None


def embedding(site: Site) -> Iterator[Hypothesis]:
    """Wrong factors, rows and tables of an embedding."""
    observed = observe(site)
    with np.errstate(all="ignore"):
        yield from likely(site, observed, _factors(site, observed))
        yield from likely(site, observed, _other_ids())
        yield from likely(site, observed, _other_tables())
        yield from likely(site, observed, additions())
        if observed is not None:
            yield from likely(site, observed, _mapped(site, observed))


_SCALES: tuple[tuple[str, Callable[[SpecConfig], float]], ...] = (
    ("sqrt(hidden_size)", lambda c: c.hidden_size**0.5),
    ("sqrt(hidden_size) in bfloat16", lambda c: float(bfloat16(np.array([c.hidden_size**0.5]))[0])),
    ("1 / sqrt(hidden_size)", lambda c: c.hidden_size**-0.5),
    ("hidden_size", lambda c: float(c.hidden_size)),
    ("1 / hidden_size", lambda c: 1 / c.hidden_size),
    ("sqrt(head_dim)", lambda c: c.head_dim**0.5),
    ("0: it is never filled", lambda c: 0.0),
)


def _factors(site: Site, observed: Observed | None) -> Iterator[Hypothesis]:
    def times(factor: Callable[[SpecConfig], float], site: Site) -> Result:
        y = rows_of(site) * factor(site.config)
        return y, rounded_unit(y)

    for text, factor in _SCALES:
        yield Hypothesis("embedding.scaled", f"multiplies by {text}", FIX, partial(times, factor))
    if observed is None:
        return
    truth = np.where(observed.wrong, observed.truth, 0)
    scale = factor_between(truth, observed.actual)
    words = named(scale, site.config) or f"{scale:.7g}"
    yield Hypothesis("embedding.scaled", f"multiplies by {words}", FIX, partial(times, lambda _: scale), PLAIN + 1)


def _window(site: Site, start: int) -> Array | None:
    """The ids of as many slots as the step has, from another start; None outside of the text."""
    every, length = all_ids(site), ids_of(site).shape[1]
    return every[:, start : start + length] if 0 <= start <= every.shape[1] - length else None


def _behind(site: Site, by: int) -> Array | None:
    """The ids of the slot before (by = 1) or behind (-1), the edge repeated."""
    every, length = all_ids(site), ids_of(site).shape[1]
    at = np.clip(np.arange(stop_of(site) - length, stop_of(site)) - by, 0, every.shape[1] - 1)
    return every[:, at]


def _in_type(rounded: Callable[[Array], Array], _: Site, ids: Array) -> Array:
    return np.nan_to_num(rounded(ids.astype(np.float32)), posinf=0).astype(np.int64)


_OTHER_IDS: tuple[tuple[str, str, Callable[[Site, Array], Array | None], Rank], ...] = (
    *(("embedding.other_row", f"keeps ids in {kind}", partial(_in_type, r), PLAIN + 1) for kind, r in ROUNDED),
    ("embedding.other_row", "looks up id + 1", lambda s, i: i + 1, PLAIN),
    ("embedding.other_row", "looks up id - 1", lambda s, i: i - 1, PLAIN),
    ("embedding.other_row", "looks up ids from the other end of the table", lambda s, i: len(table_of(s)) - 1 - i, PLAIN + 1),
    ("embedding.clamped", "clamps ids to the table's last row but one", lambda s, i: np.minimum(i, len(table_of(s)) - 2), PLAIN + 1),
    ("embedding.clamped", "gives id 0 the row of id 1", lambda s, i: np.maximum(i, 1), PLAIN + 1),
    *(("embedding.wrapped", f"takes ids modulo {n}", lambda s, i, n=n: i % n, PLAIN + 1) for n in (2, 8, 10, 16, 32, 64, 100, 128, 256, 32768, 65536)),
    *(("embedding.clamped", f"clamps ids to {n}", lambda s, i, n=n: np.minimum(i, n), PLAIN + 1) for n in (31, 63, 127, 255, 32767, 65535, 151642, 151668)),
    ("embedding.other_slot", "looks up the token before (shifted right)", lambda s, i: _behind(s, 1), PLAIN),
    ("embedding.other_slot", "looks up the token behind (shifted left)", lambda s, i: _behind(s, -1), PLAIN),
    ("embedding.other_slot", "looks up the first tokens of the text at every step", lambda s, i: _window(s, 0), PLAIN),
    ("embedding.other_slot", "looks up the last tokens of the text", lambda s, i: _window(s, all_ids(s).shape[1] - i.shape[1]), PLAIN + 1),
    ("embedding.other_slot", "has the tokens in reverse order", lambda s, i: i[:, ::-1], PLAIN + 1),
    ("embedding.other_slot", "repeats the step's first token", lambda s, i: np.broadcast_to(i[:, :1], i.shape), PLAIN + 1),
    ("embedding.other_slot", "repeats the step's last token", lambda s, i: np.broadcast_to(i[:, -1:], i.shape), PLAIN + 1),
    ("embedding.other_batch_row", "looks up the batch row before", lambda s, i: np.roll(i, 1, 0), PLAIN + 1),
    ("embedding.other_batch_row", "looks up the batch row behind", lambda s, i: np.roll(i, -1, 0), PLAIN + 1),
    ("embedding.other_batch_row", "looks up the first batch row for every row", lambda s, i: np.broadcast_to(i[:1], i.shape), PLAIN + 1),
)  # fmt: skip


def _other_ids() -> Iterator[Hypothesis]:
    def compute(change: Callable[[Site, Array], Array | None], site: Site) -> Result | None:
        ids = change(site, ids_of(site))
        if ids is None or ids.shape != ids_of(site).shape:
            return None
        return np.asarray(table_of(site)[ids % len(table_of(site))], np.float64), None

    for name, says, change, rank in _OTHER_IDS:
        yield Hypothesis(name, says, FIX, partial(compute, change), rank)


def _mapped(site: Site, observed: Observed) -> Iterator[Hypothesis]:
    """The rows that recorded embeddings are, where every wrong one is a row of the table; or the ids that are zero."""
    ids, table = ids_of(site), table_of(site)
    moved: dict[int, int] = {}
    for cell in np.argwhere(observed.wrong.any(axis=-1)):
        at = tuple(cell)
        rows = np.flatnonzero(table[:, 0] == observed.actual[at][0])
        same = rows[(table[rows] == observed.actual[at]).all(axis=-1)]
        if not len(same) or moved.setdefault(int(ids[at]), int(same[0])) != int(same[0]):
            break
    else:
        shown = ", ".join(f"{token} → {row}" for token, row in list(moved.items())[:6])

        def renamed(site: Site) -> Result:
            other_ids = ids_of(site)
            for token, row in moved.items():
                other_ids = np.where(ids_of(site) == token, row, other_ids)
            return np.asarray(table_of(site)[other_ids], np.float64), None

        yield Hypothesis("embedding.other_row", f"looks up other rows: {shown}", FIX, renamed, RARE + 1)
    lost = {int(ids[tuple(c)]) for c in np.argwhere(observed.wrong.any(axis=-1)) if not observed.actual[tuple(c)].any()}
    if lost:
        shown = ", ".join(map(str, sorted(lost)[:6]))
        gone = np.array(sorted(lost))

        def zeroed(site: Site) -> Result:
            return np.where(np.isin(ids_of(site), gone)[..., None], 0.0, rows_of(site)), None

        yield Hypothesis(
            "embedding.zero_row", f"gives ids {shown} rows of zeros (a padding index)", FIX, zeroed, PLAIN + 1
        )


_OTHER_TABLES: tuple[tuple[str, str, Callable[[Array, Array], Array | None], Rank], ...] = (
    ("weight.transposed", "reads the table as if it were stored transposed", lambda t, i: t.reshape(t.shape[::-1]).T[i], PLAIN),
    ("weight.reshaped", "reads the transposed table's bytes row by row",
     lambda t, i: np.ascontiguousarray(t.T).reshape(t.shape)[i] if t.size <= _LARGE else None, PLAIN + 1),
    ("weight.reversed", "has the channels in reverse order", lambda t, i: t[i][..., ::-1], RARE),
    ("weight.shifted", "has the channels one to the right", lambda t, i: np.roll(t[i], 1, -1), RARE),
    ("weight.negated", "has its rows negated", lambda t, i: -t[i], RARE),
)  # fmt: skip
_LARGE = 1 << 24
"""Elements of a table that is not copied for a guess: that of a real vocabulary."""


def _other_tables() -> Iterator[Hypothesis]:
    def compute(change: Callable[[Array, Array], Array | None], site: Site) -> Result | None:
        looked_up = change(table_of(site), ids_of(site))
        return None if looked_up is None else (np.asarray(looked_up, np.float64), None)

    def rounded(r: Callable[[Array], Array], site: Site) -> Result:
        return np.asarray(r(table_of(site)[ids_of(site)]), np.float64), None

    for name, says, change, rank in _OTHER_TABLES:
        yield Hypothesis(name, says, FIX, partial(compute, change), rank)
    for kind, r in NARROW:
        yield Hypothesis("weight.rounded", f"has its rows rounded to {kind}", FIX, partial(rounded, r))


_POSITIONS = "row i of the position table for slot i, padding or not"


def learned_positions(site: Site) -> Iterator[Hypothesis]:
    """Other rows of a table of learned positions; nothing for an embedding of tokens."""
    if not site.place.name.endswith(".embed_positions"):
        return
    real = site.values.recorded("input.encoder_attention_mask", 0)
    mask = np.ones(site.inputs[0].shape, bool) if real is None else real.astype(bool)
    counted = np.cumsum(mask, axis=1)
    table: tuple[tuple[str, str, Callable[[Array], Array], Rank], ...] = (
        *(
            ("positions.offset", f"starts from row {by}{of}", partial(np.add, by), PLAIN + (by > 2))
            for by, of in ((1, ""), (2, ", as RoBERTa"), (3, ""), (4, ""))
        ),
        ("positions.offset", "starts one row too early", lambda at: at - 1, PLAIN + 1),
        ("positions.counts_real", "counts real tokens alone", lambda at: np.maximum(counted - 1, 0), PLAIN),
        ("positions.counts_real", "counts real tokens alone, padding at the last row", lambda at: counted - 1, PLAIN + 1),
        ("positions.counts_real", "counts real tokens from 2 on, padding at row 1 (RoBERTa)",
         lambda at: counted * mask + 1, PLAIN),
        ("positions.counts_real", "counts real tokens from 1 on, padding at row 0", lambda at: counted * mask, PLAIN),
        ("positions.constant", "gives every slot row 0", np.zeros_like, PLAIN),
        ("positions.reversed", "counts from the end", lambda at: at[:, ::-1], PLAIN + 1),
        ("positions.reversed", "counts back from 0", np.negative, RARE),
    )  # fmt: skip
    guesses = (
        Hypothesis(name, says, _POSITIONS, partial(_looked_up, change), rank) for name, says, change, rank in table
    )
    yield from likely(site, observe(site), guesses)


def _looked_up(change: Callable[[Array], Array], site: Site) -> Result:
    table = table_of(site)
    return np.asarray(table[change(ids_of(site)) % len(table)], np.float64), None


def gradient(site: Site) -> Iterator[Hypothesis]:
    """The matrix of several uses without one of them, and the padding token's row."""
    places = {"encoder": "encoder's look-up", "decoder": "decoder's look-up", "head": "head, to which it is tied"}
    for part in embedding_parts(site):

        def compute(site: Site, without: str = part) -> Result | None:
            rest = [value for name, value in embedding_parts(site).items() if name != without]
            return linear.added(rest) if rest else None

        yield Hypothesis("gradient.tied_part", f"lacks what the {places[part]} passes back", SUM, compute)
    has = site.case.training.HasField("padding_idx")
    says = "trains the padding token's row, too" if has else "does not train the padding token's row"
    fix = "looking up pad_token_id trains nothing, a tied head trains its row all the same"
    candidates = (None,) if has else (0, 1, 2, 3)
    for pad in candidates:
        yield Hypothesis("gradient.padding_idx", says, fix, partial(_padded, pad))
    if has:
        says = "keeps the padding token's row from being trained by the head as well"
        yield Hypothesis("gradient.padding_idx", says, fix, _row_zeroed, PLAIN + 1)


def _padded(pad: int | None, site: Site) -> Result:
    assert isinstance(site.case, pb.Case)
    case = pb.Case()
    case.CopyFrom(site.case)
    case.training.ClearField("padding_idx")
    if pad is not None:
        case.training.padding_idx = pad
    return OPS[site.place.op].truth(replace(site, case=case))


def _row_zeroed(site: Site) -> Result:
    y, noise = OPS[site.place.op].truth(site)
    y = y.copy()
    y[site.case.training.padding_idx] = 0
    return y, unit_of((y, noise))


MISTAKES: Mapping[str, Mistakes] = {
    "embedding": Mistakes((learned_positions, embedding, other_tensors), (shared_additions,)),
    "embedding_gradient": Mistakes((gradient, cut)),
}
