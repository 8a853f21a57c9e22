"""A parameter or an input that is another one, for all who read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from qwen3_golden import Array
from qwen3_parity.diagnosis.edits.edit import Call, Change, Edit, Site, Written, numbers_of, opened
from qwen3_parity.diagnosis.edits.grammar.activations import Activation
from qwen3_parity.diagnosis.edits.grammar.added import FUNCTIONS, unweighted
from qwen3_parity.diagnosis.edits.grammar.constants import config_numbers
from qwen3_parity.diagnosis.edits.grammar.layouts import halved, interleaved
from qwen3_parity.diagnosis.edits.grammar.masks import CHUNKS
from qwen3_parity.diagnosis.edits.grammar.values import NARROW
from qwen3_parity.diagnosis.edits.modules import once_more, read_before
from qwen3_parity.diagnosis.edits.region import Region
from qwen3_parity.diagnosis.edits.words import caller_line, line_of, of_site, parameter_line, recorded_line, short
from qwen3_parity.mistakes.ranks import COMBINED, PLAIN, RARE, Rank
from qwen3_parity.mistakes.rounding import INTEGERS
from qwen3_spec.graph import Graph

_LARGEST = 1 << 22
"""Numbers of a parameter that is changed as a whole: a vocabulary's table takes a second each time."""
_HEADS = 64
"""The most heads that rows are cut into."""
_MOST_PARTS = 8
"""The most parts of a split whose rows are exchanged."""


def leaves(region: Region) -> Iterator[Edit]:
    """Every parameter as it could be loaded; every input and recorded value as it could be handed on."""
    yield from _parts_exchanged(region)
    for site, places in reversed(region.sites.items()):
        value = places[0]
        if site.file or region.node(value) is not None:
            continue
        base, name, line = np.asarray(region.base[value]), of_site(site), line_of(region, value)
        if base.dtype.kind != "f":
            yield from _integers(site, base, name, line)
            yield from _begun(region, site, name, line)
            yield from _wrapped(region, site, name, line)
        elif value in region.names:
            if base.size <= _LARGEST:
                yield from _parameter(site, base, name, line)
                if not _is_added_to_1(region, value):
                    yield Edit("edit.parameter", f"takes 1 off {name}", PLAIN, {site: _by(lambda w: w - 1)}, line)
            yield from _another(region, site, value)
            yield from _exchange(region, site)
        else:
            is_cache = site.op.startswith("cache.")  # which no module gives
            yield from _recorded(region, site, value, line if is_cache else recorded_line(region, value))


def _recorded(region: Region, site: Site, value: int, line: Written | None) -> Iterator[Edit]:
    base, name = np.asarray(region.base[value]), of_site(site)

    def edit(says: str, change: Change, rank: Rank = RARE) -> Edit:
        return Edit("edit.operand", says, rank, {site: change}, line)

    yield edit(f"negates {name}", _by(np.negative))
    yield edit(f"has zeros for {name}", _by(np.zeros_like), RARE + 1)
    before = read_before(region, value)
    if before is not None:
        says = f"reads what {before[0].removeprefix('model.')} reads, not what it gives"
        yield Edit("edit.operand", says, RARE, {site: _what_stands_before}, caller_line(region, value, before[0]))
        yield edit(f"runs {before[0].removeprefix('model.')} on its own result once more", _once_more)
        for source in region.sources_of(before[1].shape):
            if region.sources[source] != value:
                says = f"runs {before[0].removeprefix('model.')} on the sum of what it reads and {source}"
                line = caller_line(region, value, before[0])
                yield Edit("edit.reads", says, COMBINED, {site: _on_sum_with(source)}, line)
    for words, function in FUNCTIONS.items():
        yield edit(f"runs {words} on {name}", _run_on(function), RARE + 1)
    for words, norm in unweighted(region).items():
        yield edit(f"runs {words} without a weight on {name}", _by(norm), RARE + 1)
    for narrow, rounded in NARROW if name.startswith("cache.") else ():
        yield edit(f"holds {name} in {narrow}", _by(rounded))
    if base.ndim > 2 and base.shape[-1] == base.shape[-2]:
        yield edit(f"has {name} transposed", _by(lambda x: np.swapaxes(x, -1, -2)))
    for axis, size in enumerate(base.shape):
        if size > 1:
            for step in (1, -1):
                side = "before" if step > 0 else "behind"
                says = f"reads {name} of the index {side} along axis {axis}"
                yield edit(says, _by(lambda x, s=step, a=axis: np.roll(x, s, a)), COMBINED)
            if size % 2 == 0 and size > 2:
                says = f"has the halves of {name} exchanged along axis {axis}"
                yield edit(says, _by(lambda x, a=axis: _exchanged(x, a)), RARE)


def _run_on(function: Activation) -> Change:
    return lambda call: function(call.numbers, np.asarray(call.operands[0]))


def _is_added_to_1(region: Region, value: int) -> bool:
    """Whether a parameter is only read by a sum with 1: whoever leaves that out, as people do, has it less 1."""
    users = [(user, node) for user in region.users.get(value, ()) if (node := region.node(user)) is not None]
    return bool(users) and all(
        _is_added_to_1(region, user) if short(node.op) == "to_copy" else short(node.op) == "add" and 1 in node.operands
        for user, node in users
    )


def _parameter(site: Site, base: Array, name: str, line: Written | None) -> Iterator[Edit]:
    def edit(says: str, change: Change, rank: Rank = PLAIN) -> Edit:
        return Edit("edit.parameter", says, rank, {site: change}, line)

    yield edit(f"adds 1 to {name}", _by(lambda w: w + 1))
    yield edit(f"leaves {name} out (ones)", _by(np.ones_like), PLAIN + 1)
    # Frequencies of 0 turn nothing, as a line that is left out: that says it better.
    yield edit(f"leaves {name} out (zeros)", _by(np.zeros_like), RARE if name.endswith("inv_freq") else PLAIN + 1)
    yield edit(f"negates {name}", _by(np.negative), PLAIN + 1)
    yield edit(f"takes exp of {name}", _by(np.exp), PLAIN + 1)
    yield edit(f"takes -exp of {name}", _by(lambda w: -np.exp(w)), PLAIN + 1)
    for narrow, function in NARROW:
        yield edit(f"rounds {name} to {narrow}", _by(function), PLAIN + 1)
    for narrow, function in INTEGERS if base.ndim > 1 else ():
        yield edit(f"rounds {name} to {narrow}", _by(function), RARE)
    if base.ndim >= 2:
        yield edit(f"has {name} transposed", _by(lambda w: np.swapaxes(w, -1, -2)), RARE)
        if base.shape[-1] != base.shape[-2]:
            yield edit(f"has the numbers of {name} by columns, where they stand by rows", _by(_by_columns), RARE)
            yield edit(f"has the numbers of {name} by rows, where they stand by columns", _by(_by_rows), RARE)
    for axis in range(base.ndim):
        size = base.shape[axis]
        along = "rows" if axis == 0 and base.ndim > 1 else f"axis {axis}" if base.ndim > 1 else "numbers"
        if size < 2:
            continue
        yield edit(f"has the {along} of {name} reversed", _by(lambda w, a=axis: np.flip(w, a)), RARE)
        for step in (1, -1):
            side = "before" if step > 0 else "behind"
            how = f"has the {along} of {name} of the index {side}"
            yield edit(how, _by(lambda w, s=step, a=axis: np.roll(w, s, a)), RARE)
        for heads in _divisors(size):
            part = size // heads
            within = f" of each of {heads} parts" if heads > 1 else ""
            if part % 2 == 0 and part > 2:
                how = f"has the {along} of {name} in pairs, where halves{within} are meant"
                yield edit(how, _by(lambda w, a=axis, h=heads: _within(w, a, h, interleaved)), RARE)
                how = f"has the {along} of {name} in halves, where pairs{within} are meant"
                yield edit(how, _by(lambda w, a=axis, h=heads: _within(w, a, h, halved)), RARE)
            if part % 2 == 0:
                how = f"has the halves{within} of the {along} of {name} exchanged"
                yield edit(how, _by(lambda w, a=axis, h=heads: _within(w, a, h, _exchanged)), RARE)
            if 1 < heads < size:
                how = f"has the {along} of {name} by the other order of {heads} × {part}"
                yield edit(how, _by(lambda w, a=axis, h=heads: _regrouped(w, a, h)), RARE)


def _parts_exchanged(region: Region) -> Iterator[Edit]:
    """Rows of a module's parameters in each other's place, by the parts that a split has of as many numbers."""
    modules = dict[str, list[Site]]()
    for site, places in region.sites.items():
        if not site.file and places[0] in region.parameters:
            modules.setdefault(site.op.rpartition(".")[0], []).append(site)
    splits = _splits(region.network.graph)
    for sites in modules.values():
        for sizes in splits:
            loaded = [site for site in sites if len(region.base[region.at(site)[0]]) == sum(sizes)]
            for low, high in combinations(range(len(sizes)), 2) if loaded else ():
                if sizes[low] == sizes[high]:
                    names = " and ".join(of_site(site) for site in loaded)
                    says = f"has rows of parts {low} and {high} of {len(sizes)} of {names} in each other's place"
                    change, line = _by(_parts_of(sizes, low, high)), parameter_line(region, region.at(loaded[0])[0])
                    yield Edit("edit.parameter", says, RARE, dict.fromkeys(loaded, change), line)


def _splits(graph: Graph) -> list[tuple[int, ...]]:
    """The sizes that values are cut into; a part that is cut again by those of its parts."""
    cuts = (node.operands[1] for node in graph.nodes if node.op.startswith("split_with_sizes"))
    sizes = {cut for cut in cuts if isinstance(cut, tuple) and all(isinstance(size, int) for size in cut)}
    finer = {
        (*cut[:place], *inner, *cut[place + 1 :])
        for cut in sizes
        for place, size in enumerate(cut)
        for inner in sizes
        if sum(inner) == size
    }
    return sorted(cut for cut in sizes | finer if 1 < len(cut) <= _MOST_PARTS)


def _parts_of(sizes: Sequence[int], low: int, high: int) -> Callable[[Array], Array]:
    order = [*range(len(sizes))]
    order[low], order[high] = high, low
    ends = np.cumsum(sizes)[:-1]

    def exchanged(x: Array) -> Array:
        parts = np.split(x, ends)
        return np.concatenate([parts[part] for part in order])

    return exchanged


def _another(region: Region, site: Site, value: int) -> Iterator[Edit]:
    """Other parameters of the same shape: of the same layer, wherever, or of the same name in another layer.

    For a vector outside of the layers, as the last norm's, any.
    """
    graph, name, line = region.network.graph, region.names[value], parameter_line(region, value)
    for parameter in graph.parameters:
        same_layer = numbers_of(parameter) == numbers_of(name)
        alike = same_layer or opened(parameter) == opened(name)
        alike = alike or (not numbers_of(name) and region.base[value].ndim == 1)
        array = region.network.slices.leaves[graph.leaves[parameter]]
        if parameter == name or array.shape != region.base[value].shape or not alike:
            continue
        if same_layer:
            says = f"has {opened(parameter).removeprefix('model.')} for {of_site(site)}"
            change = _of_the_layer(opened(parameter))
        else:
            says = f"has {parameter.removeprefix('model.')} for {name.removeprefix('model.')}"
            change = _constant(np.asarray(array, np.float64))
        yield Edit("edit.other_parameter", says, RARE, {site: change}, line)


def _of_the_layer(kind: str) -> Change:
    """The parameter of a name with its numbers open that has the numbers of the one that is read."""

    def change(call: Call) -> Array:
        numbers = iter(numbers_of(call.region.names[call.value]))
        name = ".".join(str(next(numbers)) if part == "*" else part for part in kind.split("."))
        return np.asarray(call.region.parameter(name), np.float64)

    return change


def _exchange(region: Region, site: Site) -> Iterator[Edit]:
    """Two parameters of the region in each other's place."""
    parameters = [
        candidate for candidate in region.sites if not candidate.file and region.at(candidate)[0] in region.parameters
    ]
    for partner in parameters[parameters.index(site) + 1 :] if site in parameters else ():
        first, second = (np.asarray(region.base[region.at(each)[0]]) for each in (site, partner))
        if first.shape == second.shape and first.size > 1:
            says = f"has {of_site(site)} and {of_site(partner)} in each other's place"
            changes = {site: _of(partner), partner: _of(site)}
            yield Edit("edit.exchanged", says, RARE, changes, parameter_line(region, region.at(site)[0]))


def _of(site: Site) -> Change:
    """The parameter of another site, of the same layer where it has as many."""

    def change(call: Call) -> Array:
        places, here = call.region.at(site), call.region.at(call.site)
        place = places[min(here.index(call.value), len(places) - 1)]
        return np.asarray(call.before[place])

    return change


def _integers(site: Site, base: Array, name: str, line: Written | None) -> Iterator[Edit]:
    def edit(says: str, change: Change) -> Edit:
        return Edit("edit.input", says, PLAIN + 1, {site: change}, line)

    for step in (1, -1) if base.size and base.max() > 1 else ():  # of a mask none of these is a mistake
        yield edit(f"has {name} {step:+d}", _by(lambda x, s=step: x + s))
        yield edit(f"has {name} {step:+d}, the last first", _by(lambda x, s=step: (x + s) % (x.max() + 1)))
    if base.size and base.max() > 1:
        yield edit(f"doubles {name}", _by(lambda x: 2 * x))
    if base.ndim != 2:
        return
    length = base.shape[1]
    yield edit(f"ignores {name}: all ones", _by(np.ones_like))
    yield edit(f"counts {name} from 0 in every row", _by(lambda x: np.broadcast_to(np.arange(length), x.shape)))
    yield edit(f"has the {name} of row 0 in every row", _by(lambda x: np.broadcast_to(x[:1], x.shape)))
    for step in (1, -1):
        side = "before" if step > 0 else "behind"
        yield edit(f"has {name} of the position {side}", _by(lambda x, s=step: np.roll(x, s, 1)))
        yield edit(f"has {name} of the row {side}", _by(lambda x, s=step: np.roll(x, s, 0)))
    yield edit(f"has {name} reversed", _by(lambda x: np.flip(x, 1)))


def _begun(region: Region, site: Site, name: str, line: Written | None) -> Iterator[Edit]:
    """Ids that begin with another token of the config than the case's: the decoder's start."""
    tokens = dict[int, list[str]]()
    for key, value in region.network.config.items():
        if key.endswith("_token_id") and isinstance(value, int):
            tokens.setdefault(value, []).append(key)
    for token, keys in tokens.items() if name.endswith("input_ids") else ():
        says = f"begins {name} with {token} ({', '.join(keys)})"
        yield Edit("edit.input", says, PLAIN + 1, {site: _by(lambda x, t=token: _first_is(x, t))}, line)


def _first_is(x: Array, token: int) -> Array:
    return np.concatenate([np.full_like(x[:, :1], token), x[:, 1:]], 1)


def _wrapped(region: Region, site: Site, name: str, line: Written | None) -> Iterator[Edit]:
    """Positions that begin again at a number of the config, and experts one further in the circle of all."""
    base = np.asarray(region.base[region.at(site)[0]])
    for size in CHUNKS if base.ndim == 2 else ():
        if size <= base.max():
            says = f"counts {name} from 0 again behind every {size} tokens of a prompt"
            yield Edit("edit.input", says, RARE, {site: _in_chunks(size)}, line)
    for key, value in config_numbers(region.network.config).items():
        if base.ndim == 2 and value == int(value) and 1 < value <= base.max():
            says = f"takes {name} modulo {int(value)} ({key})"
            yield Edit("edit.input", says, RARE, {site: _by(lambda x, n=int(value): x % n)}, line)
        if "expert" in key and value == int(value) and value > base.max() > 1:  # indices of experts
            for step in (1, -1):
                says = f"has {name} {step:+d}, modulo {int(value)} ({key})"
                change = _by(lambda x, n=int(value), s=step: (x + s) % n)
                yield Edit("edit.input", says, PLAIN + 1, {site: change}, line)


def _in_chunks(size: int) -> Change:
    """Positions of a prompt, each chunk's from 0; decode steps count on."""

    def change(call: Call) -> Array:
        positions, prompt = np.asarray(call.operands[0]), call.region.network.golden.case.steps[0]
        if positions.shape[1] < prompt:
            raise ValueError("no prompt")
        return np.concatenate([positions[:, :prompt] % size, positions[:, prompt:]], 1)

    return change


def _by(function: Callable[..., Array]) -> Change:
    return lambda call: function(call.operands[0])


def _what_stands_before(call: Call) -> Array:
    before = read_before(call.region, call.value)
    if before is None:
        raise ValueError("no module reads and gives one shape here")
    return before[1]


def _once_more(call: Call) -> Array:
    return once_more(call.region, call.value)


def _on_sum_with(source: str) -> Change:
    def change(call: Call) -> Array:
        before = read_before(call.region, call.value)
        if before is None:
            raise ValueError("no module reads and gives one shape here")
        return once_more(call.region, call.value, before[1] + call.region.source(source, call.numbers, before[1].shape))

    return change


def _constant(array: Array) -> Change:
    return lambda call: array


def _by_columns(w: Array) -> Array:
    """A matrix whose bytes are read as if it stood transposed in memory."""
    return np.swapaxes(w.reshape(*w.shape[:-2], w.shape[-1], w.shape[-2]), -1, -2)


def _by_rows(w: Array) -> Array:
    """A matrix that stands transposed in memory and is read as if it did not."""
    return np.ascontiguousarray(np.swapaxes(w, -1, -2)).reshape(w.shape)


def _divisors(size: int) -> Iterator[int]:
    yield from (heads for heads in range(1, min(size // 2, _HEADS) + 1) if size % heads == 0)


def _within(w: Array, axis: int, heads: int, function: Callable[[Array, int], Array]) -> Array:
    cut = w.reshape(*w.shape[:axis], heads, -1, *w.shape[axis + 1 :])
    return np.asarray(function(cut, axis + 1)).reshape(w.shape)


def _exchanged(x: Array, axis: int) -> Array:
    return np.roll(x, x.shape[axis] // 2, axis)


def _regrouped(w: Array, axis: int, heads: int) -> Array:
    cut = w.reshape(*w.shape[:axis], heads, -1, *w.shape[axis + 1 :])
    return np.ascontiguousarray(np.swapaxes(cut, axis, axis + 1)).reshape(w.shape)
