"""What a recording calls its taps and its run: layers and steps counted from 1, misspelt taps, inputs left out."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from qwen3_golden import Recording, Tensor, pattern_of, pb
from qwen3_parity.judge.declared import known_patterns, nearest
from qwen3_parity.judge.spoken import as_filed
from qwen3_parity.judge.verdict import Problem

_LAYER = re.compile(r"^(.*?)layers\.(\d+)\.")


def _layers(names: Iterable[str]) -> dict[str, set[int]]:
    """The numbers of the layers of each stack, by what stands before `layers`."""
    layers: dict[str, set[int]] = {}
    for name in names:
        if match := _LAYER.match(name):
            layers.setdefault(match[1], set()).add(int(match[2]))
    return layers


def _from_0(item: Tensor, from_1: Collection[str]) -> Tensor:
    match = _LAYER.match(item.info.name)
    if match is None or match[1] not in from_1:
        return item
    return renamed(item, f"{match[1]}layers.{int(match[2]) - 1}.{item.info.name[match.end() :]}", item.info.step)


def _is_beyond(name: str, last: Mapping[str, int]) -> bool:
    match = _LAYER.match(name)
    return match is not None and match[1] in last and int(match[2]) > last[match[1]]


def layers_from_0(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Layers that are counted from 1, and layers that the network does not have."""
    ours, theirs = (_layers(item.info.name for item in recording) for recording in (actual, expected))
    both = {stack: (ours[stack], theirs[stack]) for stack in ours if stack in theirs}
    from_1 = {stack for stack, (mine, golden) in both.items() if 0 in golden and mine == {n + 1 for n in golden}}
    beyond = _beyond({stack: both[stack] for stack in both.keys() - from_1}, expected.case.config.num_hidden_layers)
    tensors = [_from_0(item, from_1) for item in actual if not _is_beyond(item.info.name, beyond)]
    dropped = len(actual.tensors) - len(tensors)
    if not (from_1 or dropped):
        return actual, []
    problems = []
    if from_1:
        first, zeroth = (", ".join(f"{stack}layers.{number}" for stack in sorted(from_1)) for number in (1, 0))
        mend = "subtract 1 from the number of each layer where the names of taps are made"
        problems.append(problem(actual, "layers are counted from 1", f"{zeroth} is the first", f"{first} is", mend))
    if dropped:
        stack, last = next(iter(beyond.items()))
        problems.append(
            problem(
                actual,
                "it has a layer too many",
                f"{last + 1} layers, {stack}layers.0 to {stack}layers.{last}",
                f"{dropped} tensors of {stack}layers.{max(ours[stack])}",
                "leave them out; the case's config says num_hidden_layers",
            )
        )
    return replace(actual, tensors=tensors), problems


def _beyond(both: Mapping[str, tuple[set[int], set[int]]], count: int) -> dict[str, int]:
    """The last layer of each stack of which there are more; a golden may have taps of some of its layers alone."""
    lasts = {stack: max(count - 1, *golden) for stack, (_, golden) in both.items()}
    return {stack: last for stack, last in lasts.items() if max(both[stack][0]) > last}


def names_as_said(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Taps that are called as people say them, self_attn in a decoder without an encoder, get the files' names.

    That is no fault.
    """
    known = {item.info.name for item in expected}
    names = {item.info.name: filed[-1] for item in actual if len(filed := as_filed([item.info.name])) > 1}
    names = {said: filed for said, filed in names.items() if said not in known and filed in known}
    if not names:
        return actual, []
    patterns = {pattern_of(said): pattern_of(filed) for said, filed in names.items()}
    run = pb.Run()
    run.CopyFrom(actual.run)
    run.materialised[:] = [patterns.get(pattern, pattern) for pattern in actual.run.materialised]
    tensors = [renamed(t, names[t.info.name], t.info.step) if t.info.name in names else t for t in actual]
    return replace(actual, tensors=tensors, run=run), []


def steps_from_0(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Steps that are counted from 1."""
    ours, theirs = _steps(actual), _steps(expected)
    shifted = {name for name, steps in ours.items() if name in theirs and steps == {s + 1 for s in theirs[name]}}
    if not shifted:
        return actual, []
    tensors = [renamed(t, t.info.name, t.info.step - 1) if t.info.name in shifted else t for t in actual]
    patterns = sorted({pattern_of(name) for name in shifted})
    finding = problem(
        actual,
        f"steps are counted from 1 in {listed(patterns)}",
        "step 0 for the prefill, 1 for the first step behind it",
        "step 1 for the prefill",
        "number the case's steps from 0",
    )
    return replace(actual, tensors=tensors), [finding]


def _steps(recording: Recording) -> dict[str, set[int]]:
    steps: dict[str, set[int]] = {}
    for item in recording:
        steps.setdefault(item.info.name, set()).add(item.info.step)
    return steps


def names_of_taps(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """Names that no tap has: the nearest one that the candidate does not deliver is meant, if its shapes fit."""
    known = known_patterns(expected)
    delivered = {pattern_of(item.info.name) for item in actual}
    golden_patterns = {pattern_of(item.info.name) for item in expected}
    meant, problems = dict[str, str](), list[Problem]()
    for pattern in sorted(delivered - set(known)):
        likely = nearest(pattern, golden_patterns - delivered - set(meant.values()))
        meant[pattern] = likely if likely in golden_patterns and _same_shapes(actual, expected, pattern, likely) else ""
        rule, expected_name = f"there is no tap {pattern}", meant[pattern] or nearest(pattern, known)
        mend = "write the names of golden/taps.textproto"
        problems.append(problem(actual, rule, f"the nearest there is: {expected_name}", pattern, mend))
    if not meant:
        return actual, []
    run = pb.Run()
    run.CopyFrom(actual.run)
    del run.materialised[:]
    declared = (meant.get(pattern, pattern) for pattern in actual.run.materialised)
    run.materialised.extend(dict.fromkeys(pattern for pattern in declared if pattern))
    tensors = []
    for item in actual:
        name = item.info.name
        to = meant.get(pattern_of(name), name)
        if to:
            match = _LAYER.match(name)
            tensors.append(
                item if to == name else renamed(item, to.replace("{layer}", match[2] if match else ""), item.info.step)
            )
    return replace(actual, tensors=tensors, run=run), problems


def _same_shapes(actual: Recording, expected: Recording, pattern: str, likely: str) -> bool:
    """Whether what a candidate has under `pattern` could be the golden's `likely`."""

    def shapes(recording: Recording, of: str) -> set[tuple[int, ...]]:
        return {item.array.shape for item in recording if pattern_of(item.info.name) == of}

    return shapes(actual, pattern) == shapes(expected, likely)


def inputs_are_copied(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """A recording without the inputs that it was run on: they are taken to be the golden's."""
    lacking = [item for item in expected if item.info.name.startswith("input.") and item.key not in actual]
    if not lacking or expected.case.mode == pb.PLUMBING:
        return actual, []
    names = list(dict.fromkeys(item.info.name for item in lacking))
    finding = problem(
        actual,
        "the case's inputs are not in it, so nobody can tell that it ran this case",
        listed(names),
        f"{len(names)} of them missing",
        "copy the golden's tensors whose names begin with input. into the recording",
    )
    return replace(actual, tensors=[*lacking, *actual.tensors]), [finding]


def unset_run(actual: Recording, expected: Recording) -> tuple[Recording, list[Problem]]:
    """A run that does not say its arithmetic or backend has the golden's arithmetic and a foreign backend: no fault."""
    if actual.run.arithmetic and actual.run.backend:
        return actual, []
    run = pb.Run()
    run.CopyFrom(actual.run)
    run.arithmetic = run.arithmetic or expected.run.arithmetic
    run.backend = run.backend or pb.FOREIGN
    return replace(actual, run=run), []


def renamed(item: Tensor, name: str, step: int) -> Tensor:
    """A tensor under another name, at another step."""
    info = pb.Tensor()
    info.CopyFrom(item.info)
    info.name, info.step = name, step
    return Tensor(info, item.array)


def problem(actual: Recording, rule: str, expected: str, got: str, mend: str) -> Problem:
    """A problem of the recording as a whole, and how to mend it."""
    return Problem(actual.source, rule, expected, got, mend)


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
