"""A port to check: Qwen3 in float32 NumPy, causal or encoder-decoder, recorded tap by tap. Start your own from here.

    qwen3-parity parity --only 'decoder/*' --impl numpy_port:factory        (with PYTHONPATH=examples)

It knows nothing of the harness but the names of the taps and how its files are read: `factory(case, checkpoints)` loads
the checkpoints and returns a callable that runs the case and hands each tensor to `tap(name, step, value)`. `operation`
is one op alone. Training is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from qwen3_golden import pb, read

Array = np.ndarray[Any, np.dtype[Any]]
Tap = Callable[[str, int, Array], None]


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y: Array = x @ weight.T
    return y if bias is None else y + bias


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


def rope_tables(positions: Array, inv_freq: Array, factor: float) -> tuple[Array, Array]:
    """cos and sin `[batch, slot, head_dim]`; both halves turn by the same angles."""
    angles = positions[..., None].astype(np.float32) * inv_freq
    cos, sin = (np.concatenate((half, half), axis=-1) for half in (np.cos(angles), np.sin(angles)))
    return cos * np.float32(factor), sin * np.float32(factor)


def visible(padding: Array, query: int, window: int, bidirectional: bool = False) -> Array:
    """`[batch, query, key]`, True = visible, of the last `query` slots. A window (0: none) counts padding, too."""
    total = padding.shape[1]
    distance = np.arange(total - query, total)[:, None] - np.arange(total)[None]
    near = np.abs(distance) <= (window or total) if bidirectional else (distance >= 0) & (distance < (window or total))
    mask: Array = near & padding[:, None]
    return mask


def repeat_kv(x: Array, groups: int) -> Array:
    """`[batch, kv_heads, key, head_dim]` to `[batch, heads, …]`: every KV head serves `groups` neighbours."""
    return np.asarray(np.repeat(x, groups, axis=1))


def scores(q: Array, k: Array, scaling: float) -> Array:
    """`[batch, heads, query, key]`, before the mask."""
    return np.asarray(q @ repeat_kv(k, q.shape[1] // k.shape[1]).swapaxes(2, 3) * np.float32(scaling))


def context(probs: Array, v: Array) -> Array:
    """`[batch, query, heads, head_dim]`."""
    return np.asarray(probs @ repeat_kv(v, probs.shape[1] // v.shape[1])).swapaxes(1, 2)


def swiglu(gate: Array, up: Array) -> Array:
    return np.asarray(gate / (1 + np.exp(-gate)) * up)


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


def operation(op: str, numbers: Mapping[str, float], x: Mapping[str, Array]) -> dict[str, Array]:
    """One op alone: its outputs, from its numbers, its inputs and its parameters, each by the name that a case has."""
    a = SimpleNamespace(**numbers)
    if op == "embedding":
        return {"y": x["weight"][x["ids"]]}
    if op == "linear":
        return {"y": linear(x["x"], x["weight"], x.get("bias"))}
    if op in ("rms_norm", "head_norm"):
        return {"y": rms_norm(x["x"], x["weight"], a.eps)}
    if op == "repeat_kv":
        return {"y": repeat_kv(x["x"], int(a.groups))}
    if op == "swiglu":
        return {"act": swiglu(x["gate"], x["up"])}
    if op == "inv_freq":
        a.rope_type, a.attention_factor = "yarn" if "factor" in numbers else "", 1.0
        config = SimpleNamespace(head_dim=int(a.head_dim), rope_theta=a.theta, rope_scaling=a)
        return {"inv_freq": frequencies(config)[0]}
    if op == "rope_table":
        tables = rope_tables(x["position_ids"], x["inv_freq"], numbers.get("attention_factor", 1))
        return dict(zip(("cos", "sin"), tables, strict=True))
    if op == "rope":
        return {name: rotate(x[name], x["cos"], x["sin"]) for name in "qk"}
    if op == "mask":
        memory, own, window = "encoder_attention_mask", "decoder_attention_mask", int(a.window)
        if own not in x:
            return {"mask": visible(x[memory], x[memory].shape[1], window, bidirectional=True)}
        mask = visible(x[own], int(a.query), window)
        rest = [np.repeat(x[memory][:, None], mask.shape[1], axis=1)] if memory in x else []
        return {"mask": np.concatenate((mask, *rest), axis=2)}
    if op == "scores":
        return {"scores": scores(x["q"], x["k"], a.scaling)}
    if op == "softmax":
        return {"probs": softmax(x["scores"], x["mask"][:, None])}
    if op == "context":
        return {"context": context(x["probs"], x["v"])}
    if op == "next_token_probs":
        off = {"repetition_penalty": 1.0, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        filters = SimpleNamespace(**{**off, **numbers})
        filters.top_k = int(filters.top_k)
        return {"probs": next_token_probs(x["logits"], x["ids"], np.ones(x["ids"].shape, bool), filters)}
    raise NotImplementedError(op)


def stored(directory: Path) -> Iterator[tuple[str, Array]]:
    """The tensors of a checkpoint: Hugging Face's files, or what `qwen3-parity weights export --model` made of them."""
    for file in directory.glob("*.safetensors"):
        content = file.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__":
                begin, end = (start + offset for offset in entry["data_offsets"])
                if entry["dtype"] == "BF16":  # the upper halves of float32
                    data = (np.frombuffer(content[begin:end], "<u2").astype("<u4") << 16).view("<f4")
                else:
                    data = np.frombuffer(content[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
                yield name, data.reshape(entry["shape"])
    for file in directory.glob("weights-*.pb"):
        yield from ((tensor.info.name, tensor.values()) for tensor in read(file))


class Cache:
    """What a decoder keeps between steps: keys and values by layer, `[batch, kv_heads, key, head_dim]` each.

    `memory` is the encoder's output `[batch, key, hidden]`, which of it is no padding, and the cos and sin that turn it
    (None where its keys are not rotated).
    """

    def __init__(self, memory: tuple[Array, Array, Any] | None = None) -> None:
        self.memory = memory
        self.own: dict[int, tuple[Array, Array]] = {}
        self.encoder: dict[int, tuple[Array, Array]] = {}


class Qwen3:
    """A stack in a float type: the decoder, or the encoder, which sees everything. `alone`: its first layer."""

    def __init__(
        self, directory: Path, config: Any, dtype: Any = np.float32, alone: bool = False, stack: str = "decoder"
    ) -> None:
        self.config, self.alone, self.stack = config, alone, stack
        self.weights = {name: array.astype(dtype) for name, array in stored(directory)}
        self.inv_freq, self.attention_factor = frequencies(config)

    def linear(self, name: str, x: Array) -> Array:
        return linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def norm(self, name: str, x: Array) -> Array:
        return rms_norm(x, self.weights[f"{name}.weight"], self.config.rms_norm_eps)

    def mask(self, layer: int, padding: Array, query: int) -> Array:
        """`[batch, query, key]`; a `padding` of three axes says itself which slot sees which."""
        if padding.ndim == 3:
            return padding[:, -query:]
        sliding = self.config.layer_types[layer] == "sliding_attention"
        return visible(padding, query, self.config.sliding_window if sliding else 0, self.stack == "encoder")

    def heads(
        self, name: str, weights: str, site: str, x: Array, tables: Any, tap: Callable[[str, Array], None]
    ) -> Array:
        """Queries, keys or values, `[batch, heads, slot, head_dim]`, of hidden states `[batch, slot, hidden]`."""
        y = self.linear(f"{weights}.{name}_proj", x)
        tap(f"{site}{name}_proj", y)
        y = y.reshape(*x.shape[:2], -1, self.config.head_dim)
        if self.config.use_qk_norm and name != "v":
            y = self.norm(f"{weights}.{name}_norm", y)
            tap(f"{site}{name}_norm", y)
        y = y.swapaxes(1, 2)
        if tables is not None and name != "v":
            y = rotate(y, *tables)
            tap(f"{site}{name}_rope", y)
        return y

    def attention(
        self, layer: int, x: Array, tables: Any, padding: Array, cache: Cache, tap: Callable[[str, Array], None]
    ) -> Array:
        name = f"model.layers.{layer}.self_attn"
        site = f"{self.stack}.layers.{layer}.{'self' if self.stack == 'encoder' else 'merged'}_attn."
        q, k, v = (self.heads(one, name, site, x, tables, tap) for one in "qkv")
        mask = self.mask(layer, padding, x.shape[1])
        if self.stack == "decoder":
            if layer in cache.own:
                k, v = (np.concatenate(pair, axis=2) for pair in zip(cache.own[layer], (k, v), strict=True))
            cache.own[layer] = k, v
            tap(f"{site}cache_keys", k)
            tap(f"{site}cache_values", v)
        if cache.memory is not None:  # merged attention: the encoder's keys stand behind the decoder's, in one softmax
            states, real, turn = cache.memory
            if layer not in cache.encoder:
                theirs = (self.heads(one, name, f"{site}encoder_", states, turn, tap) for one in "kv")
                cache.encoder[layer] = next(theirs), next(theirs)
            for one, kept in zip(("keys", "values"), cache.encoder[layer], strict=True):
                tap(f"{site}cache_encoder_{one}", kept)
            k, v = (np.concatenate(pair, axis=2) for pair in zip((k, v), cache.encoder[layer], strict=True))
            mask = np.concatenate((mask, np.repeat(real[:, None], x.shape[1], axis=1)), axis=2)
        tap(f"{site}mask", mask)
        weighed = scores(q, k, self.config.head_dim**-0.5)
        tap(f"{site}scores", weighed)
        probs = softmax(weighed, mask[:, None])
        tap(f"{site}probs", probs)
        read = context(probs, v)
        tap(f"{site}context", read)
        output = self.linear(f"{name}.o_proj", read.reshape(*x.shape[:2], -1))
        tap(f"{site}o_proj", output)
        return output

    def mlp(self, layer: int, x: Array, tap: Callable[[str, Array], None]) -> Array:
        name = f"model.layers.{layer}.mlp"
        gate, up = self.linear(f"{name}.gate_proj", x), self.linear(f"{name}.up_proj", x)
        act = swiglu(gate, up)
        down = self.linear(f"{name}.down_proj", act)
        for one, value in (("gate_proj", gate), ("up_proj", up), ("act", act), ("down_proj", down)):
            tap(f"{self.stack}.layers.{layer}.mlp.{one}", value)
        return down

    def tables(self, positions: Array) -> tuple[Array, Array]:
        return rope_tables(positions, self.inv_freq, self.attention_factor)

    def block(self, layer: int, x: Array, tables: Any, padding: Array, cache: Cache, tap: Any) -> Array:
        """One layer, hidden states `[batch, query, hidden]` in and out."""
        name, site = f"model.layers.{layer}", f"{self.stack}.layers.{layer}"
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

    def forward(self, ids: Array, positions: Array, padding: Array, tables: Any, cache: Cache, tap: Any) -> Array:
        """One step: ids and positions `[batch, query]`, padding `[batch, past + query]`, True = a real token.

        In the place of ids there may be hidden states `[batch, query, hidden]`. `tables` are what RoPE turns by; the
        ones that the port computes itself are recorded, and judged. The decoder gives logits, the encoder its output.
        """
        sources = (positions, self.inv_freq, *self.tables(positions))
        for name, value in zip(("position_ids", "inv_freq", "cos", "sin"), sources, strict=True):
            tap(f"{self.stack}.{name}", value)
        x = ids
        if ids.ndim == 2:
            x = self.weights["model.embed_tokens.weight"][ids]
            tap(f"{self.stack}.embed_tokens", x)
        for layer in range(1 if self.alone else self.config.num_hidden_layers):
            x = self.block(layer, x, tables, padding, cache, tap)
        if self.alone:
            return x
        x = self.norm("model.norm", x)
        tap(f"{self.stack}.norm", x)
        if self.stack == "encoder":
            return x
        logits = self.linear("model.embed_tokens" if self.config.tie_word_embeddings else "lm_head", x)
        tap("logits", logits)
        return logits


def factory(case: Any, checkpoints: Mapping[str, Path], dtype: Any = np.float32) -> Callable[..., None]:
    """A runner of cases of the stacks whose checkpoints there are, and of one layer alone."""
    alone = case.mode == pb.BLOCK
    encoder, decoder = (
        Qwen3(checkpoints[stack], case.config, dtype, alone, stack) if stack in checkpoints else None
        for stack in ("encoder", "decoder")
    )

    def run(case: Any, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool]) -> None:
        def given(stack: str) -> tuple[Array, Array, Array]:
            ids = inputs.get(f"input.{stack}_inputs_embeds", inputs.get(f"input.{stack}_input_ids"))
            padding = inputs.get(f"input.{stack}_mask", inputs[f"input.{stack}_attention_mask"])
            return np.asarray(ids), inputs[f"input.{stack}_position_ids"], padding

        def at(step: int) -> Callable[[str, Array], None]:
            return lambda name, value: tap(name, step, value) if records(name) else None

        # cos and sin differ by an ulp of the angle between libraries: what follows them reads the golden's, and says so
        def golden(prefix: str) -> tuple[Array, Array]:
            return inputs[f"{prefix}cos"], inputs[f"{prefix}sin"]

        memory: tuple[Array, Array, Any] | None = None
        if encoder is not None:
            theirs, places, real = given("encoder")
            states = encoder.forward(theirs, places, real, golden("encoder."), Cache(), at(0))
            memory = states, real, None
        if decoder is None:
            return
        if memory is not None and case.config.rotate_encoder_keys:
            memory = states, real, golden("decoder.encoder_")
            for name, value in zip(("position_ids", "cos", "sin"), (places, *decoder.tables(places)), strict=True):
                at(0)(f"decoder.encoder_{name}", value)
        ids, positions, padding = given("decoder")
        cache, stop, turns = Cache(memory=memory), 0, golden("decoder.")
        for step, length in enumerate(case.steps):
            now, stop = slice(stop, stop + length), stop + length
            past, turn = padding[:, :stop, ...][..., :stop], (turns[0][:, now], turns[1][:, now])
            logits = decoder.forward(ids[:, now], positions[:, now], past, turn, cache, at(step))
            if case.generation.strategy == "sample" and stop >= case.generation.prompt_length:
                probs = next_token_probs(logits[:, -1], ids[:, :stop], padding[:, :stop], case.generation)
                tap("next_token_probs", step, probs)
        if not case.max_new_tokens or case.generation.strategy == "sample":
            return
        prompt = case.generation.prompt_length or case.steps[0]
        ids, padding, positions = ids[:, :prompt], padding[:, :prompt], positions[:, :prompt]
        ended = np.zeros(len(ids), bool)
        for _ in range(case.max_new_tokens):  # greedy, from the beginning each time: slow and plain
            cache, turn = Cache(memory=memory), decoder.tables(positions)
            logits = decoder.forward(ids, positions, padding, turn, cache, lambda name, value: None)
            best = np.where(ended, case.generation.pad_token_id, logits[:, -1].argmax(axis=-1))
            ended |= np.isin(best, list(case.generation.eos_token_id))
            ids = np.concatenate((ids, best[:, None]), axis=1)
            padding = np.concatenate((padding, np.ones((len(ids), 1), bool)), axis=1)
            positions = np.concatenate((positions, positions[:, -1:] + 1), axis=1)
        tap("generated_ids", 0, ids[:, prompt:])

    arithmetic = pb.ARITHMETIC_F64 if dtype is np.float64 else pb.ARITHMETIC_F32
    run.run = pb.Run(arithmetic=arithmetic, backend=pb.FOREIGN, golden_tables=True)  # type: ignore[attr-defined]
    return run
