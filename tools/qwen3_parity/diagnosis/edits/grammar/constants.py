"""Another number in a line: an epsilon, a scale, a power, how many are chosen, where a part begins."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Free, Site, Written
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import line_of, number, short
from qwen3_parity.mistakes.ranks import PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import ROUNDED
from qwen3_parity.slices.source import text_of
from qwen3_spec.graph import Node, Ref

_OPS = frozenset(
    {
        *("add", "sub", "rsub", "mul", "div", "pow", "clamp", "clamp_min", "remainder", "floor_divide"),
        *("leaky_relu", "elu", "softplus", "gt", "ge", "lt", "le", "eq", "ne", "topk", "layer_norm", "rms_norm"),
        *("where", "masked_fill", "full", "new_full", "scalar_tensor", "fill", "full_like", "slice", "roll"),
    }
)
NEUTRAL: Mapping[str, float] = {"add": 0, "sub": 0, "mul": 1, "div": 1}
"""What an op with a number leaves as it is."""
_FACTORS = ("mul.", "div.")
_EPSILONS = (1e-6, 1e-5, 1e-12, 1e-8, 1e-7, 1e-4, 1e-3, 1e-2, 0.0)
"""The usual first: where few numbers are small, several fit."""
_WIDTHS = frozenset(
    {"hidden_size", "head_dim", "d_model", "n_embd", "kv_lora_rank", "q_lora_rank", "intermediate_size"}
)
"""Numbers of channels: a kernel that sums squares adds epsilon to the sum, or divides it as well."""
_HIDING = (1e4, 65504.0, 1e9, 100.0)
"""Numbers that are added to hide a key, some of them too small."""
_TOO_SMALL = (-5.0, -20.0)
"""Numbers that hide a key in part."""
_ENDLESS = 10**6
"""A length beyond any case's: no window."""
_EXPONENTS = (-2, -1, -0.5, 0.5, 1, 2, 3, 4)
"""What people raise to."""
_SMALL, _LARGER = 0.01, 0.1
"""A number that is added and below the first is an epsilon: no number from the second on is meant for it."""
_LEAST, _MOST = "min", "max"
"""What the keys of a config's bounds have in them."""
_RESTARTED = "has positions from 0 again, without the past's length, in every step but the first"
_LARGEST = 1e30
"""Numbers from here on are infinities."""


def constants(region: Region) -> Iterator[Edit | Free]:
    """Every number of every line: the likely ones first, then whichever fits."""
    config = config_numbers(region.network.config)
    yield from _everywhere(region, config)
    yield from _bounds(region)
    yield from _counted(region)
    yield from _narrower(region, config)
    for site, places in reversed(region.sites.items()):
        node, line = region.node(places[0]), line_of(region, places[0])
        if node is None or short(node.op) not in _OPS:
            continue
        op, text = short(node.op), "" if line is None else text_of(line.line, region.network.golden)
        for slot, value in _numbers(region, node):
            key = _key(value, config, text)
            tried = {NEUTRAL[op]} if op in NEUTRAL else set[float]()
            if tried and value not in tried:
                yield _left_out(region, site, slot, value, key)
            for constant, words, rank in _likely(value, config):
                if constant in tried or type(constant) is not type(value):
                    continue
                if constant != value and _is_meant(region, node, value, constant):
                    tried.add(constant)
                    says = f"{_verb(node)} {number(constant)}{words} for {number(value)}{key}"
                    yield Edit("edit.constant", says, rank, {site: _put(slot, constant)}, line)
            if isinstance(value, float) and abs(value) < _LARGEST:
                for narrow, constant in _narrow(value):
                    says = f"rounds {number(value)}{key} to {narrow}: {number(constant)}"
                    yield Edit("edit.rounded", says, PLAIN + 1, {site: _put(slot, constant)}, line)
                words = f"{_verb(node)} {{}} for {number(value)}{key}"
                yield Free(_fitted(site, slot, words, line), (1.1 * value or 1e-6,), value)
            elif isinstance(value, float) and value < 0:
                yield Free(_fitted(site, slot, f"hides by {{}}, not by {number(value)}", line), _TOO_SMALL, None)


def _left_out(region: Region, site: Site, slot: int | str, value: float, key: str) -> Edit:
    """A number that is not added, or no factor; the length of the past, which is another in every step."""
    (place, *_), line = region.sites[site], line_of(region, region.sites[site][0])
    node = region.node(place)
    if node is not None and _grows(region, node, slot):
        return Edit("edit.input", _RESTARTED, PLAIN + 1, {site: _put(slot, 0)}, line)
    op = "" if node is None else short(node.op)
    says = f"leaves out {op} {'by' if op in ('mul', 'div') else 'of'} {number(value)}{key}"
    return Edit("edit.left_out", says, PLAIN + 1, {site: _put(slot, type(value)(NEUTRAL[op]))}, line)


def _narrow(value: float) -> Iterator[tuple[str, float]]:
    """A number as narrower types hold it, by their names; not where it is the same, or nothing."""
    every = ((narrow, float(rounded(np.array([value]))[0])) for narrow, rounded in ROUNDED)
    yield from ((narrow, constant) for narrow, constant in every if constant not in (value, 0))


def _everywhere(region: Region, config: Mapping[str, float]) -> Iterator[Edit]:
    """A number of the config that several lines have, such as a cap: another key's in all of them."""
    sites = dict[float, dict[Site, int | str]]()
    for site, places in region.sites.items():
        node = region.node(places[0])
        for slot, value in _numbers(region, node) if node is not None and short(node.op) in _OPS else ():
            if isinstance(value, float) and value in config.values():
                sites.setdefault(value, {})[site] = slot
    for value, slots in sites.items():
        line = line_of(region, region.at(next(iter(slots)))[0])
        names = f"{number(value)}{_key(value, config)}, {len(slots)} times"
        if len(slots) > 1 and all(site.op.startswith(_FACTORS) for site in slots):
            ones: dict[Site, Change] = {site: _put(slot, 1.0) for site, slot in slots.items()}
            yield Edit("edit.left_out", f"leaves out the factor {names}", PLAIN, ones, line)
        for key, constant in config.items() if len(slots) > 1 else ():
            if constant != value and (value >= _SMALL or constant < _LARGER):
                says = f"has {number(constant)} ({key}) for {names}"
                changes = {site: _put(slot, float(constant)) for site, slot in slots.items()}
                yield Edit("edit.constant", says, PLAIN, changes, line)


def _bounds(region: Region) -> Iterator[Edit]:
    """A clamp with a bound less, or with the one that it lacks: the other's negative; one too many for a softplus."""
    for site, places in region.sites.items():
        node = region.node(places[0])
        if node is not None and short(node.op) == "softplus":
            yield from _clamped(region, site, line_of(region, places[0]))
        if node is None or short(node.op) != "clamp":
            continue
        line, low, high = line_of(region, places[0]), *(*node.operands[1:], None, None)[:2]
        for slot, side, bound, facing in ((1, "below", low, high), (2, "above", high, low)):
            if isinstance(bound, int | float):
                says = f"does not clamp {side}, at {number(bound)}"
                yield Edit("edit.left_out", says, PLAIN, {site: _bound(slot, None)}, line)
            elif bound is None and isinstance(facing, int | float) and facing:
                says = f"clamps {side} too, at {number(-facing)}"
                yield Edit("edit.constant", says, PLAIN, {site: _bound(slot, -facing)}, line)


def _clamped(region: Region, site: Site, line: Written | None) -> Iterator[Edit]:
    """A result between the numbers of the config that are called its least and its most, or on one side alone."""
    config = config_numbers(region.network.config)
    for key, least in config.items():
        most = config.get(key.replace(_LEAST, _MOST)) if _LEAST in key else None
        if most is not None and least < most:
            for low, high in ((least, most), (least, np.inf), (-np.inf, most)):
                keys = [f"{number(x)} ({name})" for x, name in ((low, key), (high, key.replace(_LEAST, _MOST)))
                        if np.isfinite(x)]  # fmt: skip
                says = f"clamps the result of {short(site.op)} at {' and '.join(keys)}"
                change = _between(low, high)
                yield Edit("edit.constant", says, PLAIN + 1, {site: change}, line)


def _between(low: float, high: float) -> Change:
    return lambda call: np.clip(call.plain(), low, high)


def _counted(region: Region) -> Iterator[Edit]:
    """Positions that begin at 0 again in every step, for one who reads them: a mask may count on."""
    for site, places in region.sites.items():
        node = region.node(places[-1])
        slot = {"embedding": 1, "add": 0}.get("" if node is None else short(node.op), -1)
        operand = node.operands[slot] if node is not None and slot >= 0 else None
        if isinstance(operand, Ref) and _is_counted(region, operand.value):
            line = line_of(region, places[-1])
            yield Edit("edit.input", _RESTARTED, PLAIN + 1.5, {site: _from_0(slot)}, line)


def _narrower(region: Region, config: Mapping[str, float]) -> Iterator[Edit]:
    """A product that reads so many channels as another width of the config says: of a dense layer an expert's."""
    for site, places in region.sites.items():
        node = region.node(places[0])
        read = node.operands[0] if node is not None and short(node.op) == "linear" else None
        width = np.shape(region.base[read.value])[-1] if isinstance(read, Ref) else 0
        for key, count in config.items():
            if "size" in key and 1 < count < width:
                says = f"reads the first {count} ({key}) of {width} channels alone in linear"
                line = line_of(region, places[0])
                yield Edit("edit.axis", says, PLAIN + 1, {site: _first(int(count))}, line)


def _first(count: int) -> Change:
    def change(call: Call) -> Any:
        x = np.asarray(call.operands[0])
        return call.plain(np.where(np.arange(x.shape[-1]) < count, x, 0.0), *call.operands[1:])

    return change


def _is_counted(region: Region, value: int) -> bool:
    """Whether a value is a count of positions: numbers in order, brought into a shape, or with a number added."""
    node = region.node(value)
    while node is not None and short(node.op) in ("add", "unsqueeze", "expand", "view", "to_copy"):
        node = region.node(node.reads[0])
    return node is not None and short(node.op) == "arange"


def _from_0(slot: int) -> Change:
    def change(call: Call) -> Any:
        counts = np.asarray(call.operands[slot])
        return call.plain(*call.operands[:slot], counts - counts[..., :1], *call.operands[slot + 1 :])

    return change


def _bound(slot: int, value: float | None) -> Change:
    """A clamp's operands with another bound."""

    def change(call: Call) -> Any:
        operands = [*call.operands, None, None][:3]
        return call.plain(*operands[:slot], value, *operands[slot + 1 :])

    return change


def _fitted(site: Site, slot: int | str, words: str, line: Written | None) -> Callable[[float], Edit]:
    return lambda fit: Edit("edit.constant", words.format(number(fit)), RARE + 1, {site: _put(slot, fit)}, line)


def _key(value: float, config: Mapping[str, float], text: str = "") -> str:
    """The keys of the config that have a number, or that it is made of: a width rather than a count by chance.

    Of several those that the line's `text` has.
    """
    keys = [key for key, constant in config.items() if constant == value]
    keys = [key for key in keys if key.rpartition(".")[2] in text] or keys
    if not keys and isinstance(value, float) and 0 < value < _LARGEST:
        every = {"head_dim": _head_dim(config), **config}
        keys = [form.format(key) for form in (*_FORMS,)[1:] for key, constant in every.items()
                if constant > 1 and abs(_FORMS[form](constant) - value) <= _SAME * value]  # fmt: skip
        keys = [key for key in keys if _COUNTS not in key] or keys
    return f" ({', '.join(keys[:2])})" if keys else ""


def _verb(node: Node) -> str:
    return "chooses" if short(node.op) == "topk" else "has"


def _numbers(region: Region, node: Node) -> Iterator[tuple[int | str, float]]:
    """The numbers among an op's operands, by place or name, those of a module's own among them; axes are none."""
    axes = {"slice": (1,), "topk": (2,), "roll": (2,)}.get(short(node.op), ())
    for slot, operand in enumerate(node.operands):
        if isinstance(operand, int | float) and not isinstance(operand, bool) and slot not in axes:
            yield slot, operand
        elif isinstance(operand, Ref) and (stored := _stored(region, operand.value)) is not None:
            yield slot, stored
    for name, operand in node.named.items():
        if isinstance(operand, int | float) and not isinstance(operand, bool) and name not in ("dim", "axis"):
            yield name, operand


def _grows(region: Region, node: Node, slot: int | str) -> bool:
    """Whether a whole number that is added in a line is another in every step: the length of the past."""
    if short(node.op) != "add" or slot != 1 or not isinstance(node.operands[1], int):
        return False
    alike = (node.op, node.module, node.lines)
    summands = [each.operands[1] for each in region.network.graph.nodes if (each.op, each.module, each.lines) == alike]
    return len(set(map(str, summands))) == len(summands) > 1


def _stored(region: Region, value: int) -> float | None:
    """A number that a module has beside its parameters, in whatever type; None of any other value."""
    node, base = region.node(value), np.asarray(region.base.get(value))
    while node is not None and short(node.op) == "to_copy":
        value = node.reads[0]
        node = region.node(value)
    return float(base) if value in region.names and base.dtype.kind == "f" and not base.ndim else None


def _put(slot: int | str, value: float) -> Change:
    def change(call: Call) -> Any:
        if isinstance(slot, str):
            return call.plain(**{slot: value})
        return call.plain(*call.operands[:slot], value, *call.operands[slot + 1 :])

    return change


def _likely(value: float, config: Mapping[str, float]) -> Iterator[tuple[float, str, Rank]]:
    """Numbers that are written for another one by mistake, in words where they are made of it."""
    yield from ((constant, words, PLAIN) for constant, words in _plain(value, config))
    if isinstance(value, float) and abs(value) < _LARGEST:
        yield from _of_config(value, config)


def _plain(value: float, config: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    if isinstance(value, int):
        yield from ((value + step, "") for step in (1, -1, 2, -2))
        yield from ((constant, ", without an end,") for constant in (_ENDLESS, -_ENDLESS))
        yield from ((constant, "") for constant in (-value, 2 * value, value // 2, 0, 1))
        yield from ((int(constant), f" ({key})") for key, constant in config.items() if constant == int(constant))
        return
    if abs(value) >= _LARGEST:
        yield from ((math.copysign(constant, value), "") for constant in _HIDING)
        return
    if 0 <= value < _SMALL:
        yield from ((epsilon, "") for epsilon in _EPSILONS)
        for key, width in {"head_dim": _head_dim(config), **config}.items() if value else ():
            if key.rpartition(".")[2] in _WIDTHS and width > 1:
                yield value / width, f", it divided by {key},"
                yield value * width, f", it times {key},"
    if value:
        yield 1.0, ""
        yield 0.0, ""
        if value != 1:  # a factor that does nothing is not written with a minus
            yield -value, ""
        yield value * value, ", its square"
        if value > 0:
            yield math.sqrt(value), ", its root"
        yield 1 / value, ", its inverse"
        yield 2 * value, ", twice it"
        yield value / 2, ", half of it"


def _is_meant(region: Region, node: Node, value: float, constant: float) -> bool:
    """Whether a number may be written for another one in an op, and is none that does the same as a plainer one."""
    op = short(node.op)
    if op == "pow":
        return constant in _EXPONENTS
    if op == "slice":
        return abs(constant) <= max(np.shape(region.base[node.reads[0]])) or abs(constant) == _ENDLESS
    return op != "add" or not 0 < value < _SMALL or constant < _LARGER


_ITSELF = "{}"
_FORMS: Mapping[str, Callable[[float], float]] = {
    _ITSELF: lambda x: x,
    "{} ** -0.5": lambda x: x**-0.5,
    "{} ** 0.5": lambda x: x**0.5,
    "1 / {}": lambda x: 1 / x,
}
_COUNTS = "num_"
"""What keys of counts begin with, or have behind what they are of."""
_SHOWN = 3
"""Keys of one number that are said."""
_SAME = 1e-6
"""How near a number is that is made of a key, of its size."""


def _head_dim(config: Mapping[str, float]) -> float:
    return config.get("hidden_size", 0) // (config.get("num_attention_heads", 0) or 1)


def _of_config(value: float, config: Mapping[str, float]) -> Iterator[tuple[float, str, Rank]]:
    """Numbers that are made of a key, those first that are made as the right one is: another ** -0.5 for a ** -0.5.

    A root or an inverse in the place of a number that is none is rarer.
    """
    heads = _head_dim(config)
    keys = dict[float, list[str]]()
    for key, constant in {"(hidden_size // num_attention_heads)": heads, **config}.items():
        keys.setdefault(float(constant), []).append(key)
    every = [constant for constant in keys if constant > 1]
    like = [form for form, power in _FORMS.items()
            if any(abs(power(constant) - value) <= _SAME * abs(value) for constant in every)]  # fmt: skip
    for form in sorted(_FORMS, key=lambda form: form not in like):
        rank = PLAIN if form in like or form == _ITSELF else PLAIN + 1.5
        for constant in every:
            names = " or ".join(form.format(key) for key in keys[constant][:_SHOWN])
            yield _FORMS[form](constant), f" ({names})", rank
    smaller = ((constant, names) for constant, names in keys.items() if constant <= 1)
    yield from ((constant, f" ({' or '.join(names[:_SHOWN])})", PLAIN) for constant, names in smaller)


def config_numbers(config: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a config.json by key, those that a float holds."""
    numbers = dict[str, float]()
    for key, value in config.items():
        if isinstance(value, Mapping):
            numbers |= config_numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and value not in (0, 1) and "token_id" not in key and abs(value) < _LARGEST:
            numbers[f"{prefix}{key}"] = value
    return numbers
