"""llama.cpp's Qwen3 and Llama as a candidate: its own converter and CPU kernels, by its eval callback.

Each row of a case is a sequence of its own, without the padding. Of Llama it keeps q and k in the order of interleaved
RoPE, as its converter permutes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from llama_cpp_program import PACKAGE, converted, recorder, run_quietly
from shared import LAYER, Array, Inputs, passes, run

from qwen3_golden import place

__all__ = ["HAS", "PACKAGE", "factory"]

HAS = {"qk_norm", "llama", "llama3", "yarn", "padding", "positions"}
LAYERS = {
    "attn_norm-{}": "input_layernorm",
    **{f"{one}cur-{{}}.mul_mat": f"merged_attn.{one.lower()}_proj" for one in "QKV"},
    **{f"{one}cur_normed-{{}}": f"merged_attn.{one.lower()}_norm" for one in "QK"},
    **{f"{one}cur-{{}}": f"merged_attn.{one.lower()}_rope" for one in "QK"},
    "cache_k_l{} (view)": "merged_attn.cache_keys",
    "cache_v_l{} (view)": "merged_attn.cache_values",
    "kq-{}": "merged_attn.scores",
    "kq_soft_max-{}": "merged_attn.probs",
    "kqv_out-{}": "merged_attn.context",
    "attn_out-{}": "merged_attn.o_proj",
    "ffn_inp-{}": "attn_residual",
    "ffn_norm-{}": "post_attention_layernorm",
    "ffn_gate-{}": "mlp.gate_proj",
    "ffn_up-{}": "mlp.up_proj",
    "ffn_swiglu-{}": "mlp.act",
    "ffn_out-{}": "mlp.down_proj",
    "l_out-{}": "output",
}
"""What llama.cpp calls the tensors of a layer, and the taps that they are."""
ENDS = {"embd": "decoder.embed_tokens", "result_norm": "decoder.norm", "result_output": "logits"}
UNNAMED = {True: ("o_proj",), False: ("q_norm", "k_norm")}
"""Taps that have no name in Qwen3, and those that Llama does not have."""
ORDERS = {"_rope": (1, 0, 2), "cache_keys": (1, 0, 2), "cache_values": (2, 0, 1)}
"""The order in which axes of a tap, without the batch, stand in llama.cpp, by the end of its name."""


def laid_out(array: Array, axes: tuple[str, ...], name: str, sizes: Mapping[str, int], keys: int) -> Array:
    """A tensor of one row in the tap's axes, without cells of the cache that hold nothing."""
    order = next((order for end, order in ORDERS.items() if name.endswith(end)), tuple(range(len(axes))))
    stands = array.reshape([sizes.get(axes[axis], -1) for axis in order]).transpose(np.argsort(order))
    kept = stands[tuple(slice(keys) if axis == "key" else slice(None) for axis in axes)]
    return kept * np.float32(sizes["head_dim"] ** -0.5) if name.endswith("scores") else kept  # its softmax scales


def factory(case: Any, checkpoints: Mapping[str, Path]) -> Callable[..., None]:
    """A runner on the decoder's checkpoint."""
    c, program = case.config, recorder()
    heads = {"heads": c.num_attention_heads, "kv_heads": c.num_key_value_heads, "head_dim": c.head_dim}
    layers = range(c.num_hidden_layers)
    names = ENDS | {one.format(i): f"decoder.layers.{i}.{tap}" for i in layers for one, tap in LAYERS.items()}

    def run_row(model: Path, lines: list[str]) -> list[dict[str, Array]]:
        """The tensors of each step of a row, by their taps."""
        with TemporaryDirectory() as out:
            run_quietly(str(program), str(model), out, text="\n".join([*lines, ""]))
            files = [sorted(Path(out, str(step)).glob("*.npy")) for step in range(len(lines))]
            return [{names[one.stem]: np.load(one) for one in some if one.stem in names} for some in files]

    def run_case(case: Any, inputs: Inputs, tap: Callable[..., None], records: Callable[[str], bool]) -> None:
        ids, real, positions = (inputs[f"input.decoder_{n}"] for n in ("input_ids", "attention_mask", "position_ids"))
        found = dict[tuple[str, int], Array]()
        with TemporaryDirectory() as folder:
            converted(checkpoints["decoder"], model := Path(folder) / "model.gguf")
            for row in range(len(ids)):
                tokens = [f"{i}:{p}" if r else "" for i, p, r in zip(ids[row], positions[row], real[row], strict=True)]
                steps = run_row(model, [" ".join(tokens[now]) for _, now in passes(case)])
                for step, now in passes(case):
                    at = {"query": np.flatnonzero(real[row, now]), "key": np.flatnonzero(real[row, : now.stop])}
                    for name, array in steps[step].items():
                        axes = place(name, c.num_hidden_layers).axes[1:]
                        part = laid_out(array, axes, name, {**heads, "query": len(at["query"])}, len(at["key"]))
                        full = {"query": now.stop - now.start, "key": now.stop}
                        shape = [full.get(axis, size) for axis, size in zip(axes, part.shape, strict=True)]
                        whole = found.setdefault((name, step), np.zeros((len(ids), *shape), np.float32))
                        slots = (at.get(axis, np.arange(n)) for axis, n in zip(axes, shape, strict=True))
                        whole[row][np.ix_(*slots)] = part
        for (name, step), array in found.items():
            if records(name):
                tap(name, step, array)

    shown = [f"{LAYER}{tap}" for tap in LAYERS.values() if not tap.endswith(UNNAMED[c.use_qk_norm])]
    run_case.run, run_case.producer = run([*ENDS.values(), *shown]), "llama.cpp"  # type: ignore[attr-defined]
    return run_case
