"""A pass of the specification that goes on behind the layers that an interrupted one had finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qwen3_reference.floors.resume import Pass
from qwen3_spec.sweep import Layer, Specification, walked


def resumed_spec(passed: Pass) -> Callable[[Specification], Layer]:
    """The specification's layers, those that were finished taken from `passed`; in training, which is one pass, none.

    (The way back reads all of every layer.)
    """

    def of(run: Specification) -> Layer:
        if run.case.HasField("training"):
            return walked

        def layer(prefix: str, step: int, walk: Callable[[], None]) -> None:
            state = passed.stored_state()
            if state is None:
                walk()
                for name in _read_later(run, prefix, step):
                    if (value := run.value(name, step)) is not None:  # a decoder alone has no encoder's keys
                        passed.keep(_key(prefix, name), value)
            else:
                for name in _read_later(run, prefix, step):
                    if (item := state.get(_key(prefix, name))) is not None:
                        run.computed[name, step] = item.array
                for name in _caches(run, prefix):
                    run.value(name, step)
            passed.leave()

        return layer

    return of


def _key(prefix: str, name: str) -> str:
    return name.removeprefix(f"{prefix}.").replace(".", "/")


def _caches(run: Specification, prefix: str) -> Iterator[str]:
    for block, names in run.network.blocks():
        if block == prefix:
            yield from (name for name in names if run.place(name).op.startswith("cache"))


def _read_later(run: Specification, prefix: str, step: int) -> Iterator[str]:
    """What other layers and steps need of a layer: its output, and what it gives its caches at this step."""
    yield f"{prefix}.output"
    for name in _caches(run, prefix):
        place = run.place(name)
        if step == 0 or place.op == "cache":
            yield from run.reads(place)
