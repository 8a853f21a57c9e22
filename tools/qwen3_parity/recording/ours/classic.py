"""Our own classic encoder as an implementation under test: how it is loaded, run and recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qwen3_encdec.classic_attention import Attention, scaled_scores
from qwen3_encdec.transformer_encoder import TransformerEncoder
from qwen3_encdec.weights.files import read_tensors, stored_tensors
from qwen3_golden import Array, ParityError, pb, table
from qwen3_parity.recording.record import ARITHMETIC, Tap
from qwen3_reference.binding import attach, emit
from qwen3_reference.checkpoints.classic_weights import classic_network
from qwen3_spec.ops import OPS

BACKENDS = {"eager": pb.EAGER, "sdpa": pb.SDPA}
_END = {"pre_norm": "norm", "post_norm": "last_hidden_state"}
_MODULES = {
    f"layers.{{layer}}.{linear}": f"layers.{{layer}}.feed_forward.{linear}" for linear in ("linear1", "linear2")
}


def _refuse(case: pb.Case, rule: str, expected: object, got: object) -> ParityError:
    return ParityError(case.name, rule, expected=expected, got=got, next_step="mend the checkpoint or the command")


def _load(case: pb.Case, directory: Path, dtype: torch.dtype) -> tuple[TransformerEncoder, dict[str, nn.Parameter]]:
    """Our model with the directory's tensors, and those parameters that the directory has, by canonical name."""
    config, classic = case.config, case.config.classic_encoder
    model = TransformerEncoder(
        config.vocab_size or 1,  # a network that starts with hidden states has no embeddings: these stay unused
        config.hidden_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        config.intermediate_size,
        config.max_position_embeddings or 1,
        activation=config.hidden_act,
        pre_norm=classic.norm_first,
        layer_norm_eps=classic.layer_norm_eps,
        scale_embeddings=classic.scale_embeddings,
    )
    state = dict(read_tensors(stored_tensors(directory)))
    unused = {"embed_tokens.weight", "embed_positions.weight"} if classic.starts_with_hidden_states else set[str]()
    keys = model.load_state_dict(state, strict=False)
    if keys.unexpected_keys or set(keys.missing_keys) != unused:
        strange = [*keys.unexpected_keys, *sorted(set(keys.missing_keys) - unused)]
        raise _refuse(case, "the checkpoint is another network's", "its tensors and no others", ", ".join(strange))
    model.to(dtype).train(mode=False)
    named = {f"{classic_network(case.config)}.{name}": p for name, p in model.named_parameters() if name not in unused}
    return model, named


class ClassicEncoder:
    """A loaded `TransformerEncoder` that runs cases; see `record.Runner`."""

    producer = "qwen3_encdec"

    def __init__(self, case: pb.Case, directory: Path, backend: str, dtype: torch.dtype) -> None:
        backend = backend if backend in BACKENDS else "eager"  # it has no flex attention: the recording says what ran
        self.model, self.parameters = _load(case, directory, dtype)
        self.model.set_attn_implementation(backend)
        fused = frozenset() if backend == "eager" else frozenset(name for name, op in OPS.items() if op.masked)
        shown = [row.pattern for row in table() if row.op not in fused]
        self.run = pb.Run(arithmetic=ARITHMETIC[dtype], backend=BACKENDS[backend], materialised=shown)

    @torch.no_grad()
    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, records: Callable[[str], bool]) -> None:
        """Run the case: the whole model, or its layers on the hidden states that the case gives."""
        mask = torch.from_numpy(inputs["input.encoder_attention_mask"].copy())

        layers: Any = self.model.layers
        network, built_as = classic_network(case.config), "pre_norm" if layers[0].pre_norm else "post_norm"

        def named(name: str) -> str:  # hooked as its blocks are built, judged as the case wants them
            last = name.removeprefix(f"{built_as}.")
            return f"{network}.{_END[network] if last == _END[built_as] else last}"

        def sink(name: str, value: torch.Tensor) -> None:
            rows = name.endswith("embed_positions") and value.dim() == 2  # looked up once for the whole batch
            tap(named(name), 0, value.expand(len(mask), -1, -1) if rows else value)

        with_states = case.config.classic_encoder.starts_with_hidden_states
        model: nn.Module = _Layers(self.model.layers) if with_states else self.model
        hooks = attach(model, built_as, sink, modules=_MODULES, records=lambda name: records(named(name)))
        with hooks, _attentions(self.model):
            if with_states:
                hidden = torch.from_numpy(inputs["input.hidden_states"].copy())
                model(hidden.to(next(self.model.parameters()).dtype), None if bool(mask.all()) else ~mask)
            else:
                ids = torch.from_numpy(inputs["input.encoder_input_ids"].copy())
                model(ids, None if bool(mask.all()) else mask.long())


class _Layers(nn.Module):
    """The model's layers alone, on hidden states `[batch, seq, hidden]` and a bool mask, True = padding."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers: Any = layers

    def forward(self, hidden: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        """The last layer's output."""
        for layer in self.layers:
            hidden, _ = layer(hidden, padding)
        return hidden


@contextmanager
def _attentions(model: TransformerEncoder) -> Iterator[None]:
    """Inside, each attention hands over what it is given and gives between its projections."""
    with ExitStack() as undo:
        layers: Any = model.layers
        for attention in (layer.self_attn for layer in layers):
            undo.callback(setattr, attention, "attention", attention.attention)
            attention.attention = _recording(attention.attention, attention)
        yield


def _recording(plain: Attention, module: nn.Module) -> Attention:
    def attend(q: Any, k: Any, v: Any, hidden: Any, dropout: nn.Dropout) -> Any:
        for name, value in (("query", q), ("key", k), ("value", v)):
            emit(module, name, value)
        shown = torch.ones(q.shape[0], 1, 1, k.shape[2], dtype=torch.bool) if hidden is None else ~hidden
        emit(module, "mask", shown.expand(-1, -1, q.shape[2], -1)[:, 0])
        context, weights = plain(q, k, v, hidden, dropout)
        if weights is not None:
            emit(module, "scores", scaled_scores(q, k))
            emit(module, "probs", weights)
        emit(module, "context", context.transpose(1, 2))
        return context, weights

    return attend


def classic_encoder(
    case: pb.Case, checkpoints: Mapping[str, Path], *, backend: str, dtype: torch.dtype
) -> ClassicEncoder:
    """Our classic encoder for a case, from its checkpoint directory."""
    return ClassicEncoder(case, checkpoints["encoder"], backend, dtype)
