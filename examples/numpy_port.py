"""A port to check: a causal Qwen3 or Llama in float32 NumPy, recorded tap by tap. Start your own from here.

    qwen3-parity parity --only 'decoder/*' --impl numpy_port:factory        (with PYTHONPATH=examples)

It knows nothing of the harness but the names of the taps and how its files are read: `factory(case, checkpoints)` loads
a checkpoint and returns a callable that runs the case and hands each tensor to `tap(name, step, value)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from qwen3_golden import pb, read

Array = np.ndarray[Any, np.dtype[Any]]
Tap = Callable[[str, int, Array], None]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    return weight * (x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)))


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """RoPE on `[batch, heads, query, head_dim]`: pairs are (i, i + head_dim / 2)."""
    first, second = np.split(x, 2, axis=-1)
    return x * cos[:, None] + np.concatenate((-second, first), axis=-1) * sin[:, None]


def frequencies(config: Any) -> tuple[Array, float]:
    """RoPE's angle per position of each pair `[head_dim / 2]`, and what YaRN multiplies cos and sin by (else 1)."""
    dim, theta, scaling = config.head_dim, config.rope_theta, config.rope_scaling
    plain = (1 / theta ** (np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim))).astype(np.float32)
    if not scaling.rope_type:
        return plain, 1.0
    length = scaling.original_max_position_embeddings / (2 * np.pi)
    if scaling.rope_type == "llama3":  # by how often a pair turns over the original length
        low, high = scaling.low_freq_factor, scaling.high_freq_factor
        divided = np.clip((high - length * plain) / (high - low), 0, 1).astype(np.float32)
    else:  # by the pairs that turn beta_fast and beta_slow times
        low, high = (
            dim * np.log(length / beta) / (2 * np.log(theta)) for beta in (scaling.beta_fast, scaling.beta_slow)
        )
        if scaling.truncate:
            low, high = np.floor(low), np.ceil(high)
        low, high = max(low, 0.0), min(high, dim - 1.0)
        divided = np.clip((np.arange(dim // 2) - low) / (high - low or 0.001), 0, 1).astype(np.float32)
    return plain * (1 - divided) + plain / np.float32(scaling.factor) * divided, scaling.attention_factor


def softmax(scores: Array, mask: Array) -> Array:
    """Hidden keys get exactly 0; a row without any visible key stays finite."""
    shifted = np.where(mask, scores - np.max(scores, axis=-1, keepdims=True, where=mask, initial=-1e30), -np.inf)
    weights = np.exp(shifted)
    return weights / np.maximum(weights.sum(axis=-1, keepdims=True), np.float32(1e-30))


def next_token_probs(logits: Array, ids: Array, real: Array, filters: Any) -> Array:
    """What the next token is drawn from, `[batch, vocab]`: the filters in HF's order, each on what is left."""
    logits, everything = logits.copy(), np.ones(logits.shape, bool)
    for row, had in enumerate(np.unique(one[kept]) for one, kept in zip(ids, real, strict=True)):
        x = logits[row, had]
        penalty = np.float32(filters.repetition_penalty)
        logits[row, had] = np.where(x < 0, x * penalty, x / penalty)
    logits = logits / np.float32(filters.temperature)
    if filters.top_k:
        least = np.sort(logits, axis=-1)[:, -min(filters.top_k, logits.shape[-1])]
        logits = np.where(logits < least[:, None], -np.inf, logits)
    order = np.argsort(-logits, axis=-1, kind="stable")
    if filters.top_p < 1:  # a token stays while those before it have not reached p
        probs = softmax(np.take_along_axis(logits, order, axis=-1), everything)
        before = np.cumsum(probs, axis=-1) - probs
        stays = before < filters.top_p
        stays[:, 0] = True
        np.put_along_axis(everything, order, stays, axis=-1)
        logits = np.where(everything, logits, -np.inf)
    probs = softmax(logits, np.isfinite(logits))
    if filters.min_p:
        kept = probs >= np.float32(filters.min_p) * probs.max(axis=-1, keepdims=True)
        probs = softmax(logits, kept & np.isfinite(logits))
    return probs


def stored(directory: Path) -> Iterator[tuple[str, Array]]:
    """The tensors of a checkpoint: Hugging Face's files, or what `qwen3-parity export --model` made of them."""
    for file in directory.glob("*.safetensors"):
        yield from load_file(file).items()
    for file in directory.glob("weights-*.pb"):
        yield from ((tensor.info.name, tensor.values()) for tensor in read(file))


class Qwen3:
    """The network in a float type, or, `alone`, its first layer; shapes are in the comments of `attention`."""

    def __init__(self, directory: Path, config: Any, dtype: Any = np.float32, alone: bool = False) -> None:
        self.config, self.alone = config, alone
        self.weights = {name: array.astype(dtype) for name, array in stored(directory)}
        self.inv_freq, self.attention_factor = frequencies(config)

    def linear(self, name: str, x: Array) -> Array:
        y = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, name: str, x: Array) -> Array:
        return rms_norm(x, self.weights[f"{name}.weight"], self.config.rms_norm_eps)

    def mask(self, layer: int, padding: Array, query: int) -> Array:
        """`[batch, query, key]`, True = visible: the past, the present, no padding, and no further than the window.

        A `padding` of three axes says itself which slot sees which.
        """
        total = padding.shape[1]
        if padding.ndim == 3:
            return padding[:, total - query :]
        distance = np.arange(total - query, total)[:, None] - np.arange(total)[None]
        visible = distance >= 0
        if self.config.layer_types[layer] == "sliding_attention":
            visible &= distance < self.config.sliding_window
        return visible & padding[:, None]

    def attention(
        self,
        layer: int,
        x: Array,
        tables: tuple[Array, Array],
        padding: Array,
        cache: dict[int, tuple[Array, Array]],
        tap: Callable[[str, Array], None],
    ) -> Array:
        batch, query, _ = x.shape
        name, site = f"model.layers.{layer}.self_attn", f"decoder.layers.{layer}.merged_attn"
        q, k, v = (self.linear(f"{name}.{one}_proj", x) for one in "qkv")  # [batch, query, channel]
        for one, value in (("q", q), ("k", k), ("v", v)):
            tap(f"{site}.{one}_proj", value)
        q, k, v = (one.reshape(batch, query, -1, self.config.head_dim) for one in (q, k, v))
        if self.config.use_qk_norm:
            q, k = self.norm(f"{name}.q_norm", q), self.norm(f"{name}.k_norm", k)
            tap(f"{site}.q_norm", q)
            tap(f"{site}.k_norm", k)
        q, k, v = (one.swapaxes(1, 2) for one in (q, k, v))  # [batch, heads, query, head_dim]
        q, k = rotate(q, *tables), rotate(k, *tables)
        tap(f"{site}.q_rope", q)
        tap(f"{site}.k_rope", k)
        if layer in cache:
            k, v = (np.concatenate(pair, axis=2) for pair in zip(cache[layer], (k, v), strict=True))
        cache[layer] = k, v
        tap(f"{site}.cache_keys", k)
        tap(f"{site}.cache_values", v)
        mask = self.mask(layer, padding, query)
        tap(f"{site}.mask", mask)
        groups = q.shape[1] // k.shape[1]
        k, v = (np.repeat(one, groups, axis=1) for one in (k, v))  # every KV head serves `groups` neighbours
        scores = (q @ k.swapaxes(2, 3)) * np.float32(self.config.head_dim**-0.5)
        tap(f"{site}.scores", scores)
        probs = softmax(scores, mask[:, None])
        tap(f"{site}.probs", probs)
        context = (probs @ v).swapaxes(1, 2)  # [batch, query, heads, head_dim]
        tap(f"{site}.context", context)
        output = self.linear(f"{name}.o_proj", context.reshape(batch, query, -1))
        tap(f"{site}.o_proj", output)
        return output

    def mlp(self, layer: int, x: Array, tap: Callable[[str, Array], None]) -> Array:
        name, site = f"model.layers.{layer}.mlp", f"decoder.layers.{layer}.mlp"
        gate, up = self.linear(f"{name}.gate_proj", x), self.linear(f"{name}.up_proj", x)
        act = gate / (1 + np.exp(-gate)) * up
        down = self.linear(f"{name}.down_proj", act)
        for one, value in (("gate_proj", gate), ("up_proj", up), ("act", act), ("down_proj", down)):
            tap(f"{site}.{one}", value)
        return down

    def tables(self, positions: Array) -> tuple[Array, Array]:
        """cos and sin `[batch, query, head_dim]`; both halves turn by the same angles."""
        angles = positions[..., None].astype(np.float32) * self.inv_freq
        factor = np.float32(self.attention_factor)
        cos, sin = (np.concatenate((one, one), axis=-1) * factor for one in (np.cos(angles), np.sin(angles)))
        return cos, sin

    def block(
        self, layer: int, x: Array, tables: tuple[Array, Array], padding: Array, cache: dict[int, Any], tap: Any
    ) -> Array:
        """One layer, hidden states `[batch, query, hidden]` in and out."""
        name, site = f"model.layers.{layer}", f"decoder.layers.{layer}"
        tap(f"{site}.input", x)
        normed = self.norm(f"{name}.input_layernorm", x)
        tap(f"{site}.input_layernorm", normed)
        x = x + self.attention(layer, normed, tables, padding, cache, tap)
        tap(f"{site}.attn_residual", x)
        normed = self.norm(f"{name}.post_attention_layernorm", x)
        tap(f"{site}.post_attention_layernorm", normed)
        x = x + self.mlp(layer, normed, tap)
        tap(f"{site}.output", x)
        return x

    def forward(
        self, ids: Array, positions: Array, padding: Array, tables: tuple[Array, Array], cache: dict[int, Any], tap: Any
    ) -> Array:
        """One step: ids and positions `[batch, query]`, padding `[batch, past + query]`, True = a real token.

        In the place of ids there may be hidden states `[batch, query, hidden]`. `tables` are what RoPE turns by; the
        ones that the port computes itself are recorded, and judged.
        """
        sources = (positions, self.inv_freq, *self.tables(positions))
        for name, value in zip(("position_ids", "inv_freq", "cos", "sin"), sources, strict=True):
            tap(f"decoder.{name}", value)
        x = ids
        if ids.ndim == 2:
            x = self.weights["model.embed_tokens.weight"][ids]
            tap("decoder.embed_tokens", x)
        if self.alone:
            return self.block(0, x, tables, padding, cache, tap)
        for layer in range(self.config.num_hidden_layers):
            x = self.block(layer, x, tables, padding, cache, tap)
        x = self.norm("model.norm", x)
        tap("decoder.norm", x)
        logits = self.linear("model.embed_tokens" if self.config.tie_word_embeddings else "lm_head", x)
        tap("logits", logits)
        return logits


def factory(case: Any, checkpoints: Mapping[str, Path], dtype: Any = np.float32) -> Callable[..., None]:
    """A runner of causal cases, and of one causal layer alone, on the decoder's checkpoint."""
    model = Qwen3(checkpoints["decoder"], case.config, dtype, alone=case.mode == pb.BLOCK)

    def decode(
        ids: Array, positions: Array, padding: Array, tables: tuple[Array, Array], steps: list[int], tap: Tap
    ) -> Array:
        cache: dict[int, Any] = {}
        start, logits = 0, np.empty(0)
        for step, length in enumerate(steps):
            now = slice(start, start + length)
            start += length
            turn = tables[0][:, now], tables[1][:, now]
            logits = model.forward(
                ids[:, now],
                positions[:, now],
                padding[:, :start, ...][..., :start],
                turn,
                cache,
                lambda n, v, s=step: tap(n, s, v),
            )
        return logits

    def run(case: Any, inputs: Mapping[str, Array], tap: Tap, wanted: Callable[[str], bool]) -> None:
        states = inputs.get("input.decoder_inputs_embeds")
        ids = inputs["input.decoder_input_ids"] if states is None else states
        padding = inputs.get("input.decoder_mask", inputs["input.decoder_attention_mask"])
        positions = inputs["input.decoder_position_ids"]
        # cos and sin differ by an ulp of the angle between libraries: what follows them reads the golden's, and says so
        golden = inputs["decoder.cos"], inputs["decoder.sin"]

        def record(name: str, step: int, value: Array) -> None:
            if wanted(name):
                tap(name, step, value)
            stop = sum(case.steps[: step + 1])
            if name == "logits" and case.generation.strategy == "sample" and stop >= case.generation.prompt_length:
                probs = next_token_probs(value[:, -1], ids[:, :stop], padding[:, :stop], case.generation)
                tap("next_token_probs", step, probs)

        decode(ids, positions, padding, golden, list(case.steps), record)
        if case.generation.strategy == "sample":
            return
        prompt = case.generation.prompt_length or case.steps[0]
        ids, padding, positions = ids[:, :prompt], padding[:, :prompt], positions[:, :prompt]
        ended = np.zeros(len(ids), bool)
        for _ in range(case.max_new_tokens):  # greedy, from the beginning each time: slow and plain
            tables = model.tables(positions)
            logits = decode(ids, positions, padding, tables, [ids.shape[1]], lambda n, s, v: None)
            best = np.where(ended, case.generation.pad_token_id, logits[:, -1].argmax(axis=-1))
            ended |= np.isin(best, list(case.generation.eos_token_id))
            ids = np.concatenate((ids, best[:, None]), axis=1)
            padding = np.concatenate((padding, np.ones((len(ids), 1), bool)), axis=1)
            positions = np.concatenate((positions, positions[:, -1:] + 1), axis=1)
        if case.max_new_tokens:
            tap("generated_ids", 0, ids[:, prompt:])

    arithmetic = pb.ARITHMETIC_F64 if dtype is np.float64 else pb.ARITHMETIC_F32
    run.run = pb.Run(arithmetic=arithmetic, backend=pb.FOREIGN, golden_tables=True)  # type: ignore[attr-defined]
    return run
