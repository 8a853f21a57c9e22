"""Whether two recordings can be compared at all, and which of their taps meet which."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from google.protobuf.message import Message

from qwen3_golden import Array, ParityError, Recording, Tensor, pattern_of, pb
from qwen3_parity.judge.compare import exact
from qwen3_parity.judge.declared import known_patterns, nearest, patterns_of
from qwen3_parity.judge.next_command import command
from qwen3_parity.judge.unreached import in_words, unreached
from qwen3_parity.judge.verdict import Problem

_MESSAGES = ("config", "generation", "training")
_CASE_FIELDS = ("name", "mode", *_MESSAGES, "steps", "max_new_tokens", "after", "op", "attributes")
_NAMED = 8


class Match(NamedTuple):
    """`both`: the golden's taps, in execution order, that the candidate has too, inputs left out.

    `unreached` are the layers and steps that a port in progress has not built.
    """

    both: list[Tensor]
    problems: list[Problem]
    not_materialised: list[str]
    missing: int
    unreached: list[str]


PARAMETER = "parameter."
"""How the names of parameters' numbers begin: of an op's case, or as a model holds them where its bytes are others."""
GIVEN = ("input.", PARAMETER)
"""How the names of tensors begin that are given to a case: they identify it, and nobody has to declare them."""


OUTPUT: dict[int, tuple[str, ...]] = {
    pb.ENCODER: ("encoder.norm",),
    pb.CAUSAL: ("logits",),
    pb.ENCODER_DECODER: ("logits",),
}
"""The result of a run: a verdict without it is partial, parity of everything but the result is none."""
TRAINED = ("loss", "gradient.shared.weight")
"""Of a step of training also these: that of the embedding comes last, through everything."""


def results(golden: Recording) -> list[tuple[str, int]]:
    """The taps, with their steps, that make a verdict on this golden's case more than a partial one.

    Of an op alone they are all of its outputs. A golden that was captured with some of its taps may lack them.
    """
    case = golden.case
    keys = [item.key for item in golden if not is_input(item, case.mode)]
    if case.mode in (pb.OP, pb.PLUMBING):
        return keys
    names = _result_names(case) or tuple(name for name, _ in keys[-1:])
    return [key for name in names for key in ([tap for tap in keys if tap[0] == name] or [(name, 0)])]


def missing_results(golden: Recording) -> list[str]:
    """The results that a golden itself does not have, each once."""
    return list(dict.fromkeys(name for name, step in results(golden) if (name, step) not in golden))


def _result_names(case: pb.Case) -> tuple[str, ...]:
    if case.mode == pb.CLASSIC_ENCODER:
        norm_first = case.config.classic_encoder.norm_first
        return ("pre_norm.norm",) if norm_first else ("post_norm.last_hidden_state",)
    if case.mode == pb.BLOCK:
        return (f"{case.checkpoint[0].role}.layers.0.output",)
    network = OUTPUT.get(case.mode, ())
    if case.HasField("training"):
        return network + TRAINED
    if case.HasField("generation") and case.generation.strategy == "sample":
        return (*network, "next_token_probs")
    return (*network, "generated_ids") if case.max_new_tokens or case.HasField("generation") else network


def is_parameter(item: Tensor) -> bool:
    """Whether a tensor is the numbers of a parameter."""
    return item.info.name.startswith(PARAMETER)


def is_input(item: Tensor, mode: int) -> bool:
    """Whether a tensor was given to the run: it identifies the case and is no output to judge."""
    return mode != pb.PLUMBING and item.info.name.startswith(GIVEN)


def refuse_weights(*recordings: Recording) -> None:
    """Raise `ParityError` for a part of an exported checkpoint: nothing was run there, so there is nothing to judge."""
    for recording in recordings:
        if recording.case.mode == pb.WEIGHTS:
            raise ParityError(
                recording.source,
                "this is a part of an exported checkpoint, not a run",
                expected="a recording of a case",
                got=f"mode WEIGHTS, {recording.case.name}",
                next_step="qwen3-parity show prints it, weights import verifies it and makes its directory again",
            )


def refuse(actual: Recording, field: str, expected: object, got: object) -> ParityError:
    return ParityError(
        f"{actual.source}: {field}",
        "the candidate did not run the golden's case",
        expected=expected,
        got=got,
        next_step="record the candidate on this golden's case: qwen3-parity record",
    )


def _same_message(actual: Recording, field: str, actual_message: Message, expected_message: Message) -> None:
    for part in actual_message.DESCRIPTOR.fields:
        got, expected = getattr(actual_message, part.name), getattr(expected_message, part.name)
        if got != expected:
            raise refuse(actual, f"{field}.{part.name}", expected, got)


def same_case(actual: Recording, expected: Recording) -> None:
    """Raise `ParityError` naming the field in which the candidate's case, checkpoint or inputs are not the golden's."""
    ours, theirs = actual.case, expected.case
    for field in _CASE_FIELDS:
        got, golden = getattr(ours, field), getattr(theirs, field)
        if field == "name" and theirs.mode == pb.GRAPH:
            continue  # a file's label: checkpoint and inputs say which run it is
        if field in _MESSAGES:
            _same_message(actual, f"case.{field}", got, golden)
        elif got != golden:
            raise refuse(actual, f"case.{field}", _text(field, golden), _text(field, got))
    _same_checkpoints(actual, ours, theirs)
    for item in expected:
        candidate_tap = actual.get(*item.key) if is_input(item, theirs.mode) else None
        if candidate_tap is None:
            continue
        where = f"{item.info.name} (step {item.info.step})"
        if candidate_tap.array.shape != item.array.shape:
            raise refuse(actual, where, f"shape {item.array.shape}", f"shape {candidate_tap.array.shape}")
        differing = exact(candidate_tap.values(), item.values()).differing
        if differing:
            raise refuse(actual, where, "the golden's input, bit for bit", f"{differing} elements differ")


def _same_checkpoints(actual: Recording, ours: pb.Case, theirs: pb.Case) -> None:
    roles = [item.role for item in ours.checkpoint]
    double = sorted({role for role in roles if roles.count(role) > 1})
    if double:
        raise refuse(actual, "case.checkpoint", "each role once", f"more than one {', '.join(double)}")
    loaded = {item.role: item.sha256.hex() for item in ours.checkpoint}
    for checkpoint in theirs.checkpoint:
        if loaded.get(checkpoint.role) != checkpoint.sha256.hex():
            where = f"case.checkpoint {checkpoint.role!r}"
            names = {item.role: f"{item.name} {item.sha256.hex()}" for item in ours.checkpoint}
            got = f"{names.get(checkpoint.role, 'none')}, of the case {ours.name}"
            raise refuse(actual, where, f"{checkpoint.name} {checkpoint.sha256.hex()}", got)
    extra = set(loaded) - {checkpoint.role for checkpoint in theirs.checkpoint}
    if extra:
        raise refuse(actual, "case.checkpoint", "no other role", ", ".join(sorted(extra)))


def _text(field: str, value: object) -> object:
    if field == "mode":
        return pb.Mode.Name(value)  # type: ignore[arg-type]
    return value if isinstance(value, str | int) else [str(entry).strip().replace("\n", " ") for entry in value]  # type: ignore[attr-defined]


def other_bytes(actual: Recording, expected: Recording) -> list[str]:
    """The parameters that were loaded with other bytes, by their digests, in the golden's order."""
    ours = {item.name: item for item in actual.parameters if item.sha256}
    return [n.name for n in expected.parameters if n.name in ours and _loaded(ours[n.name]) != _loaded(n)]


def digest(values: Array) -> bytes:
    """SHA-256 of a parameter's values in float32."""
    return hashlib.sha256(np.ascontiguousarray(values, "<f4").tobytes()).digest()


OTHER_BYTES = "other bytes"
"""What is got, behind how many, where parameters hold other numbers than the golden's."""


def parameters_differ(actual: Recording, expected: Recording, excused: Collection[str] = ()) -> list[Problem]:
    """The parameters that were loaded with other bytes, when both recordings say what they loaded.

    One without a digest is a parameter that the recorder could not see. The bytes of `excused` ones may be others.
    """
    ours = {item.name: item for item in actual.parameters}
    theirs = {item.name: item for item in expected.parameters}
    if not ours or not theirs:
        return []
    count = Counter(item.name for item in actual.parameters)
    wrong = {
        "listed more than once": [n for n in count if count[n] > 1],
        OTHER_BYTES: [n for n in other_bytes(actual, expected) if n not in excused],
        "never loaded": [n for n in theirs if n not in ours],
        "not in the checkpoint": [n for n in ours if n not in theirs],
    }
    return [
        Problem(
            actual.source,
            f"checkpoint as loaded differs: {several(names)}",
            expected=f"the golden's {len(theirs)} parameters, by SHA-256, dtype and shape",
            got=f"{len(names)} × {difference}",
            next_step="compare the loader's weight mapping with the names of the checkpoint's tensors",
        )
        for difference, names in wrong.items()
        if names
    ]


def _loaded(item: pb.Parameter) -> tuple[int, tuple[int, ...], bytes]:
    return item.dtype, tuple(item.shape), item.sha256


def several(names: Sequence[str]) -> str:
    """Names in words, of many the first ones."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def delivered(actual: Recording, expected: Recording, *, partial: bool = False) -> Match:
    """Hold what the candidate declares, what it delivers, the table of taps and the golden against each other.

    `partial`: layers and steps that are not reached yet are no failure.
    """
    _refuse_double(expected)
    mode, known, show = expected.case.mode, known_patterns(expected), command("show", actual.source)
    patterns = {entry: patterns_of(entry, known) for entry in actual.run.materialised}
    declared = {*patterns, *chain.from_iterable(patterns.values())}
    problems = [*_not_as_declared(actual, expected, known, declared), *_never_delivered(actual, expected, patterns)]
    keys = {item.key for item in actual if not is_input(item, mode)}
    ahead = {} if mode in (pb.OP, pb.PLUMBING) else unreached(expected, keys)
    # An engine that generates has the logits of the last position alone.
    last = max((item.info.step for item in expected if item.info.name == "logits"), default=0)
    last_alone = [step for name, step in keys if name == "logits"] == [last]
    both, absent, missing, places = [], [], 0, []
    for item in expected:
        name, is_given = item.info.name, is_input(item, mode)
        if item.key in actual:
            both += [] if is_given else [item]
        elif is_given:
            problems.append(Problem(_where(item.key), "missing tap", "delivered, as declared", "nothing", show))
        elif (last_alone and name == "logits") or (pattern_of(name) not in declared and mode != pb.PLUMBING):
            absent.append(_where(item.key))
        else:
            missing += 1
            places += [ahead[item.key]] if item.key in ahead else []
            if not (partial and item.key in ahead):
                todo = "deliver it, or leave its pattern out of run.materialised"
                problems.append(Problem(_where(item.key), "missing tap", "delivered, as declared", "nothing", todo))
    return Match(both, problems, absent, missing, list(in_words(places)))


def _refuse_double(golden: Recording) -> None:
    double = [key for key, count in Counter(item.key for item in golden).items() if count > 1]
    if double:
        raise ParityError(
            f"{golden.source}: {_where(double[0])}",
            "the golden has a tap twice",
            expected="each tap once in a step",
            got=f"{len(double)} taps more than once",
            next_step="record the golden again: qwen3-parity regenerate",
            fault="harness bug",
        )


def _where(key: tuple[str, int]) -> str:
    return f"{key[0]} (step {key[1]})"


def _not_as_declared(
    actual: Recording, expected: Recording, known: Collection[str], declared: Collection[str]
) -> Iterator[Problem]:
    """What was delivered twice, without a place in the golden, or without being declared."""
    show, parameters = command("show", actual.source), {item.name for item in expected.parameters}
    for key, count in Counter(item.key for item in actual).items():
        name, where = key[0], _where(key)
        if count > 1:
            yield Problem(where, "duplicate tap", "once in a step", f"{count} times", show)
        if name.startswith(PARAMETER) and name.removeprefix(PARAMETER) in parameters:
            continue
        if pattern_of(name) not in known:
            yield Problem(where, "extra tap: no such name", "a name of taps.textproto", name, show)
        elif key not in expected:
            rule = "extra tap: the golden has none here"
            yield Problem(where, rule, f"the taps of {expected.case.name}", "one more", show)
        undeclared = pattern_of(name) not in declared and not name.startswith(GIVEN)
        if undeclared and expected.case.mode != pb.PLUMBING:
            rule = "delivered but not declared"
            yield Problem(where, rule, "its pattern in run.materialised", "not there", show)


def _never_delivered(
    actual: Recording, expected: Recording, patterns: Mapping[str, Collection[str]]
) -> Iterator[Problem]:
    """What was declared and has no such name, or no tensor; `patterns` are those that each entry stands for."""
    show, known = command("show", actual.source), known_patterns(expected)
    delivered = {pattern_of(item.info.name) for item in actual}
    anywhere = delivered | {pattern_of(item.info.name) for item in expected}
    for entry, meant in sorted(patterns.items()):
        if not meant and entry not in delivered:
            near = f"the nearest there is: {nearest(entry, known)}"
            yield Problem(entry, "declared, but no such name", near, entry, show)
        elif entry in known and entry not in anywhere:
            yield Problem(entry, "declared, but never delivered", "a tensor of this pattern", "none", show)
