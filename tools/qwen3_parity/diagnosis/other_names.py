"""Taps that hold the numbers of another name's: a name map, or a number of a layer, that is not the reference's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from qwen3_golden import Array, Recording, Tensor, pb
from qwen3_parity.diagnosis.elsewhere import Elsewhere
from qwen3_parity.diagnosis.explanation import LAYER
from qwen3_parity.diagnosis.findings import Key
from qwen3_parity.judge.match import is_input
from qwen3_parity.judge.op_verdict import OpVerdict
from qwen3_parity.judge.verdict import WRONG_ALONE, Problem, Verdict, Verdicts

_LAYER = "{layer}"
FAR = 0.1
"""How far a tap is from the golden's, in its size, that may hold another's numbers."""
NEAR = 0.03
"""How near it then is to the other's: whether that is near enough, the budget of a run says."""


class Judgement(NamedTuple):
    """A candidate's verdicts, in the run and `alone`; `reads` gives the taps that are computed from those of names."""

    verdicts: Verdicts
    alone: Sequence[OpVerdict]
    reads: Callable[[set[str]], set[Key]]


def under_right_names(
    golden: Recording,
    candidate: Recording,
    counts: Callable[[Tensor], Array],
    before: Judgement,
    judge: Callable[[Recording], Judgement],
) -> tuple[Verdicts, list[Elsewhere]] | None:
    """The verdicts of a candidate with each tap under the name whose numbers it holds, and the places that were moved.

    None where nothing holds another name's numbers, or what reads those is wrong then: a model that goes on with the
    numbers of another tap has a bug, and no wrong name. `counts` are a golden's cells that are judged, bool of its
    shape; `judge` judges the candidate again, by its right names.
    """
    names, lost = _names(golden, candidate, counts)
    if not names:
        return None
    guessed = _guessed(golden, names, lost)
    again = judge(_renamed(candidate, golden, names | guessed))
    if (sure := _sure(again, guessed, names)) != guessed:
        guessed = sure
        again = judge(_renamed(candidate, golden, names | guessed))
    names |= guessed
    if not _is_right(before, again, names):
        return None
    verdicts = replace(
        before.verdicts,
        taps=as_declared(before.verdicts, again.verdicts, names),
        structural=again.verdicts.structural,
        notes=again.verdicts.notes,
    )
    return verdicts, _places(names)


def _names(
    golden: Recording, candidate: Recording, counts: Callable[[Tensor], Array]
) -> tuple[dict[str, str], set[str]]:
    """The names of taps that are far from the golden's, and near another one's at each step; and of those near none."""
    every, near = [*_counted(golden, counts)], dict[str, set[str]]()
    far = set[str]()
    for tap in every:
        if tap.key not in candidate:
            continue
        numbers = _numbers(candidate[tap.key], tap)
        if numbers is None or _distance(numbers, tap) <= FAR:
            near[tap.key[0]] = set()
            continue
        far.add(tap.key[0])
        size = float(np.linalg.norm(numbers))
        others = {
            counterpart.key[0]
            for counterpart in every
            # Heads may be joined in the one and apart in the other.
            if counterpart.key[1] == tap.key[1] and counterpart.counts.size == tap.counts.size
            if abs(counterpart.size - size) <= NEAR * size and _distance(numbers, counterpart) <= NEAR
        }
        near[tap.key[0]] = near.get(tap.key[0], others) & others
    names = {name: _likest(name, others) for name, others in near.items() if others}
    return names | dict(_choices(golden, candidate, names)), far - {*names}


def _guessed(golden: Recording, names: Mapping[str, str], lost: set[str]) -> dict[str, str]:
    """Names for taps that are near none, as a mistake before them leaves them: those that their like have elsewhere.

    Of a module whose name another's numbers have, that other's; of a place in further layers, what the first has. A tap
    whose name has the numbers of another tap by itself has none: "".
    """
    pairs = dict(_moved(names))
    vacated, displaced = [name for name in pairs if name not in pairs.values()], {*pairs.values()} - {*pairs}
    if len(vacated) == len(displaced) == 1:
        pairs[displaced.pop()] = vacated[0]
    patterns = {_open(name): _open(pairs[name]) for name in pairs if _layer(name) == _layer(pairs[name])}
    guessed = dict[str, str]()
    for name in sorted(lost):
        counterpart = _under(name, pairs)
        if counterpart == name:
            counterpart = patterns.get(_open(name), name).replace(_LAYER, _layer(name), 1)
        if counterpart != name and _fits(name, counterpart, golden):
            guessed[name] = counterpart
    return guessed | dict.fromkeys(lost & {*names.values()} - {*guessed}, "")


def _open(name: str) -> str:
    """A name with the number of its layer left open."""
    return LAYER.sub(_LAYER, name, count=1)


def _layer(name: str) -> str:
    """The number of a name's layer; empty where it has none."""
    match = LAYER.search(name)
    return "" if match is None else match[0]


def _fits(name: str, counterpart: str, golden: Recording) -> bool:
    """Whether two names have one shape at each step."""
    shapes = [{item.info.step: item.array.shape for item in golden if item.info.name == x} for x in (name, counterpart)]
    return shapes[0] == shapes[1]


def _sure(again: Judgement, guessed: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The guesses of each pair of modules of which some tap is right by its new name; the rest have none."""
    passed = {verdict.name for verdict in again.alone if verdict.passed and not verdict.reason}
    modules = {name: pair for name, counterpart in guessed.items() for pair in _moved({name: counterpart})}
    sure = {*_moved(names), *(pair for name, pair in modules.items() if guessed[name] in passed)}
    return {name: counterpart if modules.get(name) in sure else "" for name, counterpart in guessed.items()}


class _Tap(NamedTuple):
    """A golden's tap of floats: its name and step, and what counts of it."""

    key: Key
    shape: tuple[int, ...]
    counts: Array
    numbers: Array
    size: float


def _counted(golden: Recording, counts: Callable[[Tensor], Array]) -> Iterator[_Tap]:
    """The taps of floats that the candidate may have under another name: whose numbers are finite and not all zero."""
    for item in golden:
        if not is_input(item, golden.case.mode) and item.is_float:
            numbers = item.values()[counts(item)].astype(np.float64)
            if (size := float(np.linalg.norm(numbers))) > 0 and np.isfinite(size):
                yield _Tap(item.key, item.array.shape, counts(item), numbers, size)


def _numbers(actual: Tensor, tap: _Tap) -> Array | None:
    """What counts of a candidate's tap; None where it is of another shape, no float, or not finite."""
    if actual.array.shape != tap.shape or not actual.is_float:
        return None
    numbers = actual.values()[tap.counts].astype(np.float64)
    return numbers if np.isfinite(numbers).all() else None


def _distance(numbers: Array, tap: _Tap) -> float:
    """How far numbers are from a golden's, in its size."""
    return float(np.linalg.norm(numbers - tap.numbers) / tap.size) if numbers.shape == tap.numbers.shape else np.inf


def _choices(golden: Recording, candidate: Recording, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is chosen in a module that was moved, which is near nothing: it goes with the rest of it."""
    modules = dict(_moved(names))
    for item in candidate:
        name = item.info.name
        mine, counterpart = golden.get(*item.key), golden.get(_under(name, modules), item.info.step)
        if item.is_float or mine is None or counterpart is None or counterpart is mine:
            continue
        if item.array.shape == counterpart.array.shape and not np.array_equal(item.array, mine.array):
            yield name, counterpart.info.name


def _likest(name: str, others: set[str]) -> str:
    """Of names of the same numbers, the one that has most of a name's parts, from the last one on."""
    return max(sorted(others), key=lambda counterpart: len(_tail(name, counterpart)))


def _tail(name: str, counterpart: str) -> list[str]:
    """The last parts that two names share."""
    tail = list[str]()
    for part, same in zip(reversed(name.split(".")), reversed(counterpart.split(".")), strict=False):
        if part != same:
            break
        tail.append(part)
    return tail


def _renamed(candidate: Recording, golden: Recording, names: Mapping[str, str]) -> Recording:
    """A candidate with taps and their modules' parameters under the right names; of two with one name the first."""
    staying = {item.info.name for item in candidate} - {*names}
    tensors = list[Tensor]()
    for item in candidate:
        name = names.get(item.info.name, item.info.name)
        if name == item.info.name:
            tensors.append(item)
        elif name and name not in staying:
            info, shape = pb.Tensor(), golden[name, item.info.step].array.shape
            info.CopyFrom(item.info)
            info.name = name
            tensors.append(Tensor(info, item.array.reshape(shape)))
    first = {item.key: item for item in reversed(tensors)}
    return replace(candidate, tensors=[*first.values()], parameters=[*_parameters(candidate, golden, names)])


def _parameters(candidate: Recording, golden: Recording, names: Mapping[str, str]) -> Iterator[pb.Parameter]:
    """The parameters as loaded, each that is not the checkpoint's of its name under the name of its moved module."""
    modules = dict(_moved(names))
    expected = {parameter.name: parameter.sha256 for parameter in golden.parameters}
    for loaded in candidate.parameters:
        module, _, leaf = loaded.name.rpartition(".")
        parameter = pb.Parameter()
        parameter.CopyFrom(loaded)
        if expected.get(loaded.name) != loaded.sha256:
            parameter.name = f"{names.get(module) or _under(module, modules)}.{leaf}"
        yield parameter


def _moved(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each pair of names without the last parts that they share: modules in each other's place."""
    for name, counterpart in names.items():
        if not counterpart:
            continue
        shared = "".join(f".{part}" for part in reversed(_tail(name, counterpart)))
        yield name.removesuffix(shared), counterpart.removesuffix(shared)


def _under(module: str, modules: Mapping[str, str]) -> str:
    """The name of a module that was moved, or of one inside it."""
    inside = next((name for name in modules if f"{module}.".startswith(f"{name}.")), None)
    return module if inside is None else modules[inside] + module[len(inside) :]


def _is_right(before: Judgement, again: Judgement, names: Mapping[str, str]) -> bool:
    """Whether the first moved tap is right, and nothing is wrong alone that was right under the names as declared.

    Something reads them that is none of them: of what nothing reads nobody can tell.
    """
    touched = {*names, *names.values()}
    moved = [tap for tap in again.verdicts.taps if tap.name in {*names.values()}]
    readers = before.reads(touched) | again.reads(touched)
    was_wrong = {(names.get(name, name), step) for name, step in wrong_alone(before)}
    return (
        bool(moved)
        and moved[0].passed
        and any(name not in touched for name, _ in readers)
        and wrong_alone(again) < was_wrong
    )


def wrong_alone(judgement: Judgement) -> set[Key]:
    """The taps that are wrong alone."""
    return {(verdict.name, verdict.step) for verdict in judgement.alone if not verdict.passed}


def as_declared(
    before: Verdicts, again: Verdicts, names: Mapping[str, str], every: Elsewhere | None = None
) -> list[Verdict]:
    """The verdicts on a run as it is declared, each tap alone as it is under its right name.

    What is wrong with a tap says whose numbers it has: those of one of `names`, or those that `every` tap has.
    """
    alone = {(tap.name, tap.step): tap.alone for tap in again.taps}
    taps = list[Verdict]()
    for tap in before.taps:
        verdict = alone.get((names.get(tap.name, tap.name), tap.step), tap.alone)
        place = every or (Elsewhere(tap.name, names[tap.name]) if names.get(tap.name) else None)
        taps.append(replace(tap, alone=verdict, problem=_problem(tap, verdict, place)))
    return taps


def _problem(tap: Verdict, alone: OpVerdict | None, place: Elsewhere | None) -> Problem | None:
    """What is wrong with a tap, and of one that was recorded elsewhere what to do."""
    problem = tap.problem
    if problem is None or (WRONG_ALONE in problem.rule and alone is not None and alone.passed):
        return None
    if place is None:
        return problem
    return replace(problem, rule=place.rule, expected=place.expected, got=place.got, next_step=place.fix)


def _places(names: Mapping[str, str]) -> list[Elsewhere]:
    """What was moved, in few words: modules with all that is in them, and layers that were moved alike together."""
    places = list[Elsewhere]()
    for name, counterpart in dict.fromkeys(_moved(names)):
        alike = _layer(name) == _layer(counterpart)
        places.append(Elsewhere(_open(name), _open(counterpart)) if alike else Elsewhere(name, counterpart))
    places += [Elsewhere(name) for name, counterpart in names.items() if not counterpart]
    return [*dict.fromkeys(places)]
