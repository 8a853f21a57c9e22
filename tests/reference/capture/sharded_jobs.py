"""Run by torchrun: record the cases of goldens again, on a model that the processes share.

The one argument is a JSON file: a list of jobs `{"golden": file, "encoder": dir, "decoder": dir, "out": file,
"mistake": name}`. Beside each recording, `<out>.<rank>.json` gets what this process had of each tap at step 0.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import distributed as dist

from qwen3_golden import Array, ParityError, pb, read
from qwen3_reference.capture import sharded
from qwen3_reference.capture.make_golden import Way
from qwen3_reference.capture.record import record_request
from qwen3_reference.capture.run import StepSink
from qwen3_reference.capture.sharded import distributed, gathered, is_main, load_sharded
from qwen3_reference.checkpoints.stored import read_directory


def _put(projection: Any, rows: Array) -> None:
    projection.weight.data.to_local().copy_(torch.from_numpy(np.array(rows)))


def _cut_fused(model: Any, weight: Callable[[str], Array], rank: int, processes: int) -> None:
    """[gate; up] cut as one matrix: right shapes, wrong rows (WLD-17)."""
    for index, layer in enumerate(model.layers):
        names = [f"model.layers.{index}.mlp.{half}_proj.weight" for half in ("gate", "up")]
        gate, up = np.split(np.split(np.concatenate([weight(name) for name in names]), processes)[rank], 2)
        _put(layer.mlp.gate_proj, gate)
        _put(layer.mlp.up_proj, up)


def _heads_by_turns(model: Any, weight: Callable[[str], Array], rank: int, processes: int) -> None:
    """Every n-th query head in place of the rank's own row of heads."""
    for index, layer in enumerate(model.layers):
        whole = weight(f"model.layers.{index}.self_attn.q_proj.weight")
        heads = whole.reshape(-1, layer.self_attn.head_dim, whole.shape[1])
        _put(layer.self_attn.q_proj, heads[rank::processes].reshape(-1, whole.shape[1]))


_WRONG_WEIGHTS = {"fused": _cut_fused, "turns": _heads_by_turns}


def _other_order(value: torch.Tensor, axis: int, processes: int) -> torch.Tensor:
    parts = [torch.empty_like(value.contiguous()) for _ in range(processes)]
    dist.all_gather(parts, value.contiguous())
    return torch.cat(parts[::-1], dim=axis)


@contextmanager
def _mistaken(mistake: str, directory: Path) -> Iterator[Any]:
    """The loader to use; within, what is put together wrongly is."""

    def load(*given: Any) -> Any:
        model = load_sharded(*given)
        stored = read_directory(directory)
        if mistake in _WRONG_WEIGHTS:
            network = getattr(model, "model", model)
            _WRONG_WEIGHTS[mistake](
                network, lambda name: stored[name].float32(), dist.get_rank(), dist.get_world_size()
            )
        return model

    with mock.patch.object(sharded, "_gather", _other_order if mistake == "order" else sharded._gather):
        yield load


def _watched(config: pb.ModelConfig, shapes: dict[str, list[int]], mistake: str) -> Callable[[StepSink], StepSink]:
    """What each tap is like in this process, before it is gathered."""

    def around(sink: StepSink) -> StepSink:
        whole = gathered(config)(sink)

        def tap(step: int, name: str, value: torch.Tensor) -> None:
            shapes.setdefault(name, list(value.shape))
            if mistake == "one fails" and dist.get_rank() == 1 and name.endswith("scores"):
                raise ParityError(name, "rank 1 fails", expected="scores", got="an error", next_step="none")
            whole(step, name, value)

        return tap

    return around


def _record(job: dict[str, str]) -> None:
    golden, out, mistake = read(Path(job["golden"])), Path(job["out"]), job.get("mistake", "")
    encoder, decoder = (Path(job[role]) if role in job else None for role in ("encoder", "decoder"))
    shapes: dict[str, list[int]] = {}
    with _mistaken(mistake, decoder or encoder or Path()) as load:
        record_request(
            encoder,
            decoder,
            {item.info.name: item.array for item in golden if item.info.name.startswith("input.")},
            golden.case.steps,
            out,
            floors=not mistake,
            rotate_encoder_keys=golden.case.config.rotate_encoder_keys,
            max_new_tokens=golden.case.max_new_tokens,
            name=golden.case.name,
            labels=[one.name for one in golden.case.checkpoint],
            load=load,
            way=Way(around=_watched(golden.case.config, shapes, mistake), writes=is_main(), resume=False),
        )
    Path(f"{out}.{dist.get_rank()}.json").write_text(json.dumps(shapes))


if __name__ == "__main__":
    try:
        with distributed():
            for one in json.loads(Path(sys.argv[1]).read_text()):
                print("recording", one["out"])
                _record(one)
    except ParityError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
