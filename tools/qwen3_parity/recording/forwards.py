"""Which slots of a case each forward of a model covers, found in the ids that the model is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from qwen3_golden import ParityError
from qwen3_parity.recording.case import Case
from qwen3_parity.recording.compiled import refuse_compiled_around
from qwen3_parity.recording.packed import real_tokens
from qwen3_parity.recording.slots import Forward

_CALLS = "run model(**case.inputs) once, or with a cache: for inputs in case.steps: model(**inputs, …)"
_BY_HAND = (
    "a run of another shape (a prefill in chunks, rows one by one, padding on the other side) is handed over by "
    "yourself, laid out as the golden's taps: with record(None, case) as recording: recording[name, step] = array; "
    "[tokens, channels] of the case's real tokens alone is laid by a graph golden's mask, in other cases "
    "by yourself: slots[mask] = packed"
)


@dataclass
class Forwards:
    """The forwards of a model so far: `done` slots in `count` calls, and the one that runs `now`.

    `bounds` are the slots at which each step of the case begins and ends.
    """

    case: Case
    bounds: Sequence[tuple[int, int]]
    done: int = 0
    count: int = 0
    now: Forward | None = None

    def begin(self, module: nn.Module, args: Any, named: Any) -> None:
        """Find out which slots a forward is run on; raises `ParityError` for other ids than the case's."""
        if torch.compiler.is_compiling():
            refuse_compiled_around(module)
        self.now = self._slots([*_tensors(args), *_tensors(named)])
        self.count += 1

    def end(self, *_: Any) -> None:
        """A forward has come to its end, or to an exception."""
        self.done, self.now = self.now.stop if self.now else self.done, None

    def _slots(self, arguments: Sequence[torch.Tensor]) -> Forward:
        kind, ends = self.case.ids, [stop for _, stop in self.bounds]
        tokens = torch.from_numpy(self.case.arrays[kind])
        for stop in sorted((end for end in ends if end > self.done), reverse=True):
            for first in {self.done, 0}:
                forward = Forward(first, self.done, stop)
                forms = [tokens[:, first:stop], *self._packed(tokens, forward)]
                if any(_same(argument, form) for argument in arguments for form in forms):
                    return forward
        again = bool(self.done == ends[-1])
        raise ParityError(
            f"{self.case.name}: forward {self.count + 1}",
            "the case is at its end, and the model runs once more" if again else f"these are not the case's {kind}",
            expected=f"{len(ends)} forwards or fewer" if again else f"{kind} of slots {self.done} to one of {ends}",
            got=f"forward {self.count + 1}" if again else _differing(arguments, tokens, self.bounds, self.done),
            next_step=_CALLS if again else f"{_CALLS}; {_BY_HAND}",
        )

    def _packed(self, tokens: torch.Tensor, forward: Forward) -> Iterator[torch.Tensor]:
        """The real tokens alone of a forward's slots, row behind row; none where they cannot be laid into slots."""
        real = real_tokens(self.case, forward) if self.case.is_graph else None
        if real is not None:
            yield tokens[:, forward.first : forward.stop][torch.from_numpy(real)][None]

    def running(self, where: str) -> Forward:
        """The forward that runs now; raises `ParityError` outside of any."""
        if self.now is None:
            raise ParityError(
                where,
                "a module ran outside a forward of the model that is recorded",
                expected="model(**case.inputs), of the model that was given to record",
                got="a call of one of its parts, or of model.forward",
                next_step="give record the module that you call",
            )
        return self.now

    def refuse_unfinished(self) -> None:
        """Raise `ParityError` when the case was not run, or not to its end."""
        total = self.bounds[-1][1]
        if self.done == total:
            return
        lengths = [stop - start for start, stop in self.bounds if start >= self.done]
        more = (
            f"{len(lengths)} more forward{'s' * (len(lengths) > 1)}, of {' and '.join(map(str, lengths))} tokens a row"
        )
        raise ParityError(
            self.case.name,
            "the case was not run to its end" if self.done else "the model did not run",
            expected=f"model(**case.inputs), or forwards over all {total} slots, inside the with",
            got=f"{self.done} slots in {self.count} forwards",
            next_step=f"run the steps that are missing, too: {more}"
            if self.done
            else "call the model that you gave to record, as model(…) and not model.forward(…)",
        )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor among a forward's arguments."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)


def _same(argument: torch.Tensor, tokens: torch.Tensor) -> bool:
    """Whether an argument is these ids or embeddings, as they are, positions first, or without a batch axis."""
    if argument.numel() != tokens.numel() or argument.is_floating_point() != tokens.is_floating_point():
        return False
    plain = argument.detach().cpu().to(tokens.dtype)
    return bool((plain.reshape(tokens.shape) == tokens).all()) or bool(
        argument.ndim > 1 and (plain.reshape(tokens.transpose(0, 1).shape) == tokens.transpose(0, 1)).all()
    )


def _differing(
    arguments: Sequence[torch.Tensor], tokens: torch.Tensor, bounds: Sequence[tuple[int, int]], done: int
) -> str:
    """What a forward is called with, and how the first ids in it that are as long as the case's are not these."""
    matrices = [item.detach().cpu() for item in arguments if item.ndim == tokens.ndim == 2]
    for ids in (item for item in matrices if not item.is_floating_point()):
        for first in (done, 0):
            if first + ids.shape[1] in [stop for _, stop in bounds if stop > done]:
                part = tokens[:, first : first + ids.shape[1]]
                if torch.equal(ids.to(part.dtype), part):
                    continue
                return f"{_described(arguments)}: {_first_difference(ids.to(part.dtype), part, first)}"
    return _described(arguments)


def _first_difference(ids: torch.Tensor, part: torch.Tensor, first: int) -> str:
    if len(ids) != len(part):
        return f"another number of rows, {len(ids)} and not {len(part)}"
    order = [next((place for place, row in enumerate(part) if torch.equal(row, mine)), -1) for mine in ids]
    if sorted(order) == list(range(len(part))):
        return f"the rows are in another order, {tuple(order)}"
    row, slot = (int(number) for number in (ids != part).nonzero()[0])
    return f"row {row} has {int(ids[row, slot])} for {int(part[row, slot])} in slot {first + slot}"


def _described(arguments: Sequence[torch.Tensor]) -> str:
    texts = [f"{str(argument.dtype).removeprefix('torch.')} {list(argument.shape)}" for argument in arguments]
    return f"arguments {', '.join(texts[:4])}" if texts else "no tensors"
