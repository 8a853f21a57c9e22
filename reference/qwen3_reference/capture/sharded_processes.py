"""The processes that share one model: a gloo group from torchrun's environment, one voice, and one end for all."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path
from types import FrameType

from torch import distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.rendezvous import rendezvous

from qwen3_golden import ParityError

TIMEOUT = timedelta(minutes=10)
"""How long a process waits for the others, at the start and at each tap: the time of one layer, or of a slow disk."""

_ENVIRONMENT = ("RANK", "LOCAL_RANK", "MASTER_PORT")
_FAILED = "qwen3_reference/failed"


def _refuse(rule: str, expected: object, got: object, next_step: str) -> ParityError:
    return ParityError("torch.distributed", rule, expected=expected, got=got, next_step=next_step)


def _number(name: str) -> int:
    """A number that torchrun puts into the environment."""
    text = os.environ.get(name, "")
    if text.isdecimal():
        return int(text)
    raise _refuse(
        "the environment of a run with several processes is incomplete",
        f"{name}, a number",
        repr(text) if text else "unset",
        "start it with: torchrun --standalone --nproc-per-node N -m …, or unset WORLD_SIZE",
    )


def processes() -> int:
    """How many processes run this command together: WORLD_SIZE as torchrun sets it, 1 where it is unset.

    Raises `ParityError` when torchrun's other variables are missing beside it, or are no numbers.
    """
    count = _number("WORLD_SIZE") if "WORLD_SIZE" in os.environ else 1
    if count == 1:
        return 1
    rank, _, _ = (_number(name) for name in _ENVIRONMENT)
    if not rank < count:
        raise _refuse("a rank is outside the group", f"RANK below {count}", rank, "start it with torchrun")
    if not os.environ.get("MASTER_ADDR"):
        raise _refuse("the environment has no meeting place", "MASTER_ADDR, a host", "unset", "start it with torchrun")
    return count


def is_main() -> bool:
    """Whether this process writes and speaks: the only one there is, or the one of rank 0."""
    return not dist.is_initialized() or dist.get_rank() == 0


def _stopped(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(2)


@contextmanager
def _ends_cleanly() -> Iterator[None]:
    """torchrun ends the others with SIGTERM when one has failed; they must still take their temporary files away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stopped)
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the end has begun: nothing may cut off the message
        raise
    signal.signal(signal.SIGTERM, before)


@contextmanager
def _silent() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _is_first(store: Store) -> bool:
    """Whether no other process has failed before this one; where nobody can be asked, yes: better twice than never."""
    try:
        return int(store.add(_FAILED, 1)) == 1
    except RuntimeError:
        return True


def _lost(error: BaseException) -> bool:
    """Whether an error says that the other processes cannot be reached any more."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def _reason(error: BaseException) -> str:
    """The first sentence of gloo's or the store's message, without the place in their source."""
    return re.sub(r"^\[[^]]*\] ", "", str(error).splitlines()[0]).partition(". ")[0]


@contextmanager
def _one_message(store: Store, timeout: timedelta) -> Iterator[None]:
    """The first process that fails says why; the others, which only miss it, end with exit code 2 and say nothing."""
    try:
        yield
    except BaseException as error:
        if not _is_first(store):
            raise SystemExit(2) from None
        if not _lost(error):
            raise
        raise _refuse(
            "another process is gone, or does not answer",
            f"an answer within {timeout}",
            _reason(error),
            "look for a process that was ended from outside, for want of memory for instance",
        ) from None


@contextmanager
def distributed(timeout: timedelta = TIMEOUT) -> Iterator[None]:
    """Inside, torchrun's processes are one gloo group; nothing happens for a process that is alone.

    Only rank 0 prints. When a process fails, all end: the first one with its own error, the others silently with
    exit code 2. Raises `ParityError` when the environment is incomplete, and when the others do not come or answer.
    """
    count = processes()
    if count == 1:
        yield
        return
    with ExitStack() as stack:
        try:
            store, rank, _ = next(iter(rendezvous("env://", timeout=timeout)))
            dist.init_process_group("gloo", store=store, rank=rank, world_size=count, timeout=timeout)
        except (RuntimeError, OSError) as error:
            raise _refuse(
                f"the {count} processes do not find each other",
                f"all of them at {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} within {timeout}",
                _reason(error),
                "start them all with torchrun, and look for one that ended early",
            ) from None
        stack.callback(dist.destroy_process_group)
        stack.enter_context(_ends_cleanly())
        stack.enter_context(_one_message(store, timeout))
        if rank:
            stack.enter_context(_silent())
        yield
