"""The training loss of the whole network and its gradient: what autograd must arrive at.

The taps of the forward, over all of the target at once (teacher forcing, no cached steps), are given, and the way back
reads them by name, last op first. To `tap(name, value)` go the `loss`, then every gradient as `gradient.<name>`: that
of an activation under its tap's name, summed over all that read it, as soon as it is known; that of a parameter under
its canonical name, summed over all its uses, at the end.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from qwen3_spec.arithmetic import FLOAT64, Arithmetic, Array
from qwen3_spec.backward_blocks import Backward, Tables, Tap, Weights, attention, layer, own_projections
from qwen3_spec.config import SpecConfig
from qwen3_spec.heads import split_heads
from qwen3_spec.ops.loss import cross_entropy, cross_entropy_gradient

SHARED = "shared.weight"
"""The matrix that both stacks look tokens up in, and a tied head multiplies by: its gradient is the sum of theirs."""


class StackInput(NamedTuple):
    """What a stack is given: ids and mask `[batch, seq]` (nonzero = real token), `cos, sin[batch, seq, head_dim]`."""

    ids: Array
    mask: Array
    cos: Array
    sin: Array


class Gradients(NamedTuple):
    """The loss and its gradients, arrays in the arithmetic's dtype.

    `parameters` has every parameter that was used, by canonical name. The embedding's gradient comes in its parts, the
    encoder's and the decoder's lookup and the head (`encoder.embed_tokens.weight`, `decoder.embed_tokens.weight`,
    `lm_head.weight`), and as the total `shared.weight`, to which the head belongs where it is tied. `inputs` are the
    gradients by the looked-up tokens `[batch, seq, hidden]`: `decoder.embed_tokens` and `encoder.embed_tokens`.
    """

    loss: float
    parameters: dict[str, Array]
    inputs: dict[str, Array]


def unseen(_name: str, _value: Array) -> None:
    """The tap of one who wants the result alone."""


def loss_and_gradients(
    values: Mapping[str, Array],
    weights: Weights,
    config: SpecConfig,
    decoder_input: StackInput,
    labels: Array,
    encoder_input: StackInput | None = None,
    encoder_key_tables: Tables | None = None,
    tap: Tap = unseen,
    arithmetic: Arithmetic = FLOAT64,
    padding_idx: int | None = None,
) -> Gradients:
    """The mean cross-entropy of `labels[batch, query]` (-100 is ignored, nothing is shifted) and its gradients.

    `values` are the taps of the forward by name. Without an encoder (None, or one of length 0) this is a causal Qwen3.
    `encoder_key_tables` are the cos and sin by which the decoder turns the encoder's keys, needed when
    `rotate_encoder_keys`. A row without a visible key passes nothing back through its attention; labels that are all
    -100 give loss 0 and zeros. Looking up the token `padding_idx` trains nothing (HF: `config.pad_token_id`), though a
    tied head still trains its row. Raises what `loss` raises.
    """
    source = encoder_input if encoder_input is not None and encoder_input.ids.shape[1] else None
    hidden, logits = None if source is None else values["encoder.norm"], values["logits"]
    tables = encoder_key_tables if source is not None and config.rotate_encoder_keys else None
    loss = cross_entropy(logits, labels, arithmetic=arithmetic)
    tap("loss", loss)

    run = Backward(weights, config, values, tap, arithmetic, padding_idx)
    d_logits = cross_entropy_gradient(logits, labels, arithmetic=arithmetic)
    d_embedded, d_hidden = _through_decoder(run, d_logits, decoder_input, hidden, tables)
    inputs = {"decoder.embed_tokens": d_embedded}
    if source is not None:
        inputs["encoder.embed_tokens"] = _through_encoder(run, d_hidden, source)
    tied = ["lm_head.weight"] if config.tie_word_embeddings else []
    for part in (*(f"{name}.weight" for name in inputs), *tied):
        run.add(SHARED, run.gradients[part])
    for name, gradient in run.gradients.items():
        run.record(name, gradient)
    return Gradients(float(loss), run.gradients, inputs)


def _through_decoder(
    run: Backward, d_logits: Array, given: StackInput, hidden: Array | None, key_tables: Tables | None
) -> tuple[Array, Array]:
    """From the logits to the decoder's embedded tokens and to the encoder's output `hidden`, which every layer reads.

    Without an encoder the second is empty.
    """
    values, length = run.values, given.ids.shape[1]
    memory = np.empty(0) if hidden is None else hidden
    d_memory = np.zeros_like(memory)
    dy = run.linear("logits", d_logits, values["decoder.norm"], "lm_head")
    dy = run.norm("decoder.norm", dy, values[f"decoder.layers.{run.config.num_hidden_layers - 1}.output"])
    for index in reversed(range(run.config.num_hidden_layers)):
        name = f"decoder.layers.{index}"

        def attend(d_branch: Array, normed: Array, site: str = f"{name}.merged_attn") -> Array:
            k, v = values[f"{site}.cache_keys"], values[f"{site}.cache_values"]
            if memory.size:
                k = np.concatenate([k, values[f"{site}.cache_encoder_keys"]], axis=2)
                v = np.concatenate([v, values[f"{site}.cache_encoder_values"]], axis=2)
            d_q, d_k, d_v = attention(run, site, d_branch, k, v)
            if memory.size:
                theirs = d_k[:, :, length:], d_v[:, :, length:]
                d_memory[...] += run.normed_projection(
                    f"{site}.encoder_k", theirs[0], memory, key_tables, f"{site}.k"
                ) + run.projection(f"{site}.encoder_v_proj", theirs[1], memory, f"{site}.v_proj")
            own = d_q, d_k[:, :, :length], d_v[:, :, :length]
            return own_projections(run, site, own, normed, (given.cos, given.sin))

        dy = layer(run, name, dy, attend)
    return run.embed("decoder.embed_tokens", dy, given.ids), d_memory


def _through_encoder(run: Backward, dy: Array, given: StackInput) -> Array:
    """From the encoder's final-normed output to its embedded tokens."""
    values = run.values
    dy = run.norm("encoder.norm", dy, values[f"encoder.layers.{run.config.num_hidden_layers - 1}.output"])
    for index in reversed(range(run.config.num_hidden_layers)):
        name = f"encoder.layers.{index}"

        def attend(d_branch: Array, normed: Array, site: str = f"{name}.self_attn") -> Array:
            v = np.swapaxes(split_heads(values[f"{site}.v_proj"], run.config.head_dim), 1, 2)
            gradients = attention(run, site, d_branch, values[f"{site}.k_rope"], v)
            return own_projections(run, site, gradients, normed, (given.cos, given.sin))

        dy = layer(run, name, dy, attend)
    return run.embed("encoder.embed_tokens", dy, given.ids)
