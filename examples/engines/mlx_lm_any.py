"""Apple's mlx-lm on a golden with a graph: its own Qwen3-MoE or Gemma 3, unmodified, recorded by its modules' paths.

    qwen3-parity capture --model DIR --ids '5,17,23,42;7,8,44,2' --out g.pb
    python mlx_lm_any.py g.pb DIR mine.pb
    qwen3-parity diagnose g.pb mine.pb --model DIR

For one forward without padding, which mlx-lm does not have.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

import qwen3_parity

Taken = list[tuple[str, mx.array]]


class Watched:
    """A callable in the place of a module that keeps what comes out."""

    def __init__(self, inner: Any, name: str, taken: Taken) -> None:
        self.inner, self.name, self.taken = inner, name, taken

    def __call__(self, *operands: Any, **options: Any) -> Any:
        self.taken.append((self.name, result := self.inner(*operands, **options)))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def watch(owner: Any, path: str, names: Collection[str], taken: Taken) -> None:
    """Put a `Watched` in the place of each module below `owner` whose path is a tap."""
    children = owner.items() if isinstance(owner, dict) else enumerate(owner)
    for key, child in list(children):
        name = f"{path}{key}"
        if isinstance(child, dict | list):
            watch(child, f"{name}.", names, taken)
            if name in names:
                owner[key] = Watched(child, name, taken)


def completed(directory: Path) -> dict[str, Any]:
    """config.json with the keys that transformers 5 writes in another place than mlx-lm reads."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    rope = config["rope_parameters"]
    config.setdefault("num_experts", config.get("num_local_experts"))
    config.setdefault("head_dim", config["hidden_size"] // config["num_attention_heads"])
    config.setdefault("rope_theta", rope.get("full_attention", rope)["rope_theta"])
    if "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        config["sliding_window_pattern"] = config["layer_types"].index("full_attention") + 1
    return config


def main(golden: str, directory: str, out: str) -> None:
    """Run the golden's ids, and write what its modules gave."""
    case, taken = qwen3_parity.golden(golden), Taken()
    model, _ = load_model(Path(directory), model_config=completed(Path(directory)))
    watch(model, "", {tensor.info.name for tensor in case.golden}, taken)
    logits = model(mx.array(case.arrays["input_ids"]))
    with qwen3_parity.record(None, case, path=Path(out)) as recording:
        for name, value in [*taken, ("logits", logits)]:
            recording[name] = np.array(value.astype(mx.float32))


if __name__ == "__main__":
    main(*sys.argv[1:])
