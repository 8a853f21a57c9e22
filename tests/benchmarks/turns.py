"""Several `generate()`s that take turns token by token, so that whatever the machine does meets all of them alike.

Each runs in a thread of its own, one at a time, with as many threads below it as the caller's. The memory's speed
drifts by a tenth within seconds here and there, which is as much as there is to be told apart: whole runs one after
another would measure that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter, thread_time

import torch

CORES = torch.get_num_threads()
"""As many threads as torch takes by itself."""


def now() -> float:
    """Seconds: of the processor where one thread works, which a busy machine stretches less; else on the wall."""
    return thread_time() if torch.get_num_threads() == 1 else perf_counter()


class Clock:
    """A streamer: notes the seconds from one token to the next, and lets the others make one each."""

    def __init__(self, baton: Baton, place: int) -> None:
        self.seconds: list[float] = []
        self._baton, self._place, self._since = baton, place, 0.0

    def start(self) -> None:
        """Wait for the first turn."""
        self._baton.wait(self._place)
        self._since = now()

    def put(self, value: object) -> None:
        """Note the time and take the next turn; `generate` says this of the prompt, then of each token."""
        self.seconds.append(now() - self._since)
        self._baton.hand_over(self._place)
        self.start()

    def end(self) -> None:
        """No turn is needed any more; all works end with the same one."""
        self._baton.hand_over(self._place)


class Baton:
    """Who may run, by place."""

    def __init__(self, count: int) -> None:
        self.error: BaseException | None = None
        self._turns = [threading.Semaphore(0) for _ in range(count)]
        self._turns[0].release()

    def wait(self, place: int) -> None:
        """Until it is the turn of `place`; `RuntimeError` when another one failed meanwhile."""
        self._turns[place].acquire()
        if self.error is not None:
            raise RuntimeError("another one failed") from self.error

    def hand_over(self, place: int) -> None:
        """To the next place."""
        self._turns[(place + 1) % len(self._turns)].release()

    def fail(self, error: BaseException) -> None:
        """Nobody goes on."""
        self.error = self.error or error
        for turn in self._turns:
            turn.release()


Generate = Callable[[Clock], object]


def token_by_token(works: dict[str, Generate]) -> dict[str, list[float]]:
    """Seconds of each token of each work, those of one place made one after another.

    Every work makes as many tokens, and ends; what it says of the prompt, of the prefill's token and of the first that
    is decoded are left out.
    """
    baton, threads_each = Baton(len(works)), torch.get_num_threads()
    clocks = {name: Clock(baton, place) for place, name in enumerate(works)}

    def run(name: str) -> None:
        torch.set_num_threads(threads_each)  # torch keeps it for each thread
        try:
            clocks[name].start()
            works[name](clocks[name])
        except BaseException as error:
            baton.fail(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if baton.error is not None:
        raise baton.error
    return {name: clock.seconds[3:] for name, clock in clocks.items()}
