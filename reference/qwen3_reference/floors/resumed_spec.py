"""A pass of the specification that goes on behind the layers that an interrupted one had finished."""

from __future__ import annotations

from collections.abc import Callable

from qwen3_golden import Array
from qwen3_reference.floors.resume import Pass
from qwen3_spec import Cache
from qwen3_spec.model import Layer


def resumed_spec(run: Pass) -> Callable[[Cache], Layer]:
    """The specification's layers, those that were finished taken from `run`."""

    def of(cache: Cache) -> Layer:
        def layer(name: str, compute: Callable[[], Array]) -> Array:
            index = int(name.rpartition(".")[2])
            state = run.kept()
            if state is None:
                remembered = len(cache.encoder_keys)
                output = compute()
                run.keep("output", output)
                if index < len(cache.keys):
                    new = slice(-output.shape[1], None)
                    run.keep("keys", cache.keys[index][:, :, new])
                    run.keep("values", cache.values[index][:, :, new])
                if len(cache.encoder_keys) > remembered:
                    run.keep("encoder_keys", cache.encoder_keys[index])
                    run.keep("encoder_values", cache.encoder_values[index])
            else:
                output = state["output"].array
                if "keys" in state:
                    cache.grow(index, state["keys"].array, state["values"].array)
                if "encoder_keys" in state:
                    cache.remember(state["encoder_keys"].array, state["encoder_values"].array)
            run.leave()
            return output

        return layer

    return of
