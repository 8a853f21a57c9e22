"""Other ways to compute the classic encoder: attention, projections, norms, sums, batches, the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional

from detection.honest.ours import Patch
from detection.honest.variation import Build, Variation
from qwen3_encdec import classic_attention
from qwen3_golden import Array, Recording, pb, place, table
from qwen3_parity.recording.ours.classic import ClassicEncoder, classic_encoder
from qwen3_parity.recording.record import ARITHMETIC, Factory, Tap
from qwen3_reference.capture.classic_record import classic_run
from qwen3_reference.checkpoints.classic_weights import load_classic
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic

Change = Callable[[Any], Iterable[Patch]]
"""What stands in the place of parts of a loaded `TransformerEncoder` while it runs."""
Groups = Callable[[int], list[list[int]]]
"""From the number of rows to the batches that are run, as lists of rows."""


@dataclass(frozen=True)
class _Changed:
    """A runner (see `record.Runner`) of our model with a change, its rows in batches of their own."""

    inner: ClassicEncoder
    change: Change
    groups: Groups
    threads: int

    @property
    def run(self) -> pb.Run:
        """The model's own."""
        return self.inner.run

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        """The model's own."""
        return self.inner.parameters

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run every batch and hand over the case's rows."""
        taken: dict[str, list[Any]] = {}
        groups = self.groups(len(inputs["input.encoder_attention_mask"]))
        before = torch.get_num_threads()
        patches = [patch.object(owner, name, value) for owner, name, value in self.change(self.inner.model)]
        try:
            torch.set_num_threads(self.threads)
            for change in patches:
                change.start()
            for group in groups:
                part = {name: value[group] for name, value in inputs.items()}
                self.inner(case, part, lambda name, _step, x: taken.setdefault(name, []).append(x), is_wanted)
        finally:
            for change in patches:
                change.stop()
            torch.set_num_threads(before)
        ran = [row for group in groups for row in group]
        order = [ran.index(row) for row in range(len(set(ran)))]
        for name, parts in taken.items():
            tap(name, 0, torch.cat(parts)[order])


def _together(rows: int) -> list[list[int]]:
    return [list(range(rows))]


def _nothing(_model: Any) -> Iterable[Patch]:
    return ()


def _ours(change: Change = _nothing, groups: Groups = _together, threads: int = 1, backend: str = "eager") -> Build:
    def build(dtype: torch.dtype) -> Factory:
        def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> _Changed:
            return _Changed(classic_encoder(case, checkpoints, backend=backend, dtype=dtype), change, groups, threads)

        return factory

    return build


def _modules(kind: type[nn.Module], forward: Callable[[Any, torch.Tensor], torch.Tensor]) -> Change:
    """Every module of a kind computed by `forward(module, x)`."""

    def change(model: Any) -> Iterable[Patch]:
        for module in model.modules():
            if isinstance(module, kind):
                yield module, "forward", lambda x, m=module: forward(m, x)

    return change


def _in_one_pass(norm: Any, x: torch.Tensor) -> torch.Tensor:
    """The variance as the mean square less the squared mean."""
    mean = x.mean(-1, keepdim=True)
    variance = (x.pow(2).mean(-1, keepdim=True) - mean.pow(2)).clamp(min=0)
    return norm.weight * ((x - mean) / (variance + norm.eps).sqrt()) + norm.bias  # type: ignore[no-any-return]


def _wide(norm: Any, x: torch.Tensor) -> torch.Tensor:
    weight, bias = norm.weight.double(), norm.bias.double()
    return functional.layer_norm(x.double(), x.shape[-1:], weight, bias, norm.eps).to(x.dtype)


def _summed_backwards(linear: Any, x: torch.Tensor) -> torch.Tensor:
    return functional.linear(x.flip(-1), linear.weight.flip(-1), linear.bias)


def _bias_first(linear: Any, x: torch.Tensor) -> torch.Tensor:
    total = linear.bias.expand(*x.shape[:-1], -1)
    for column in range(x.shape[-1]):
        total = total + x[..., column, None] * linear.weight[:, column]
    return total  # type: ignore[no-any-return]


def _unfused(model: Any) -> Iterable[Patch]:
    """q, k and v by three projections of their own."""
    for layer in model.layers:
        qkv_proj = layer.self_attn.qkv_proj

        def project(x: torch.Tensor, qkv_proj: Any = qkv_proj) -> torch.Tensor:
            parts = zip(qkv_proj.weight.chunk(3), qkv_proj.bias.chunk(3), strict=True)
            return torch.cat([functional.linear(x, weight, bias) for weight, bias in parts], dim=-1)

        yield qkv_proj, "forward", project


def _queries_scaled(_model: Any) -> Iterable[Patch]:
    """The scale on the queries, as torch has it."""
    yield (
        classic_attention,
        "scaled_scores",
        lambda q, k: torch.matmul(q * float(q.shape[-1] ** -0.5), k.transpose(2, 3)),
    )


def _by_erf(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


def _gelu_by_erf(model: Any) -> Iterable[Patch]:
    for layer in model.layers:
        if layer.feed_forward.activation is functional.gelu:
            yield layer.feed_forward, "activation", _by_erf


@dataclass(frozen=True)
class _Specification:
    """A runner of `qwen3_spec`."""

    directory: Path
    arithmetic: Arithmetic
    run: pb.Run
    producer: str = "qwen3_spec"

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run the case."""
        taps = classic_run(case.config, load_classic(self.directory), inputs, self.arithmetic)
        for name, value in taps.items():
            target = place(name, case.config.num_hidden_layers)
            if is_wanted(name) and target is not None:
                tap(name, 0, value)


def _specification(arithmetic: Arithmetic) -> Build:
    def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> _Specification:
        dtype = torch.float64 if arithmetic is FLOAT64 else torch.float32
        shown = [row.pattern for row in table()]
        run = pb.Run(arithmetic=ARITHMETIC[dtype], backend=pb.FOREIGN, materialised=shown)
        return _Specification(checkpoints["encoder"], arithmetic, run)

    return lambda _dtype: factory


def is_classic(golden: Recording) -> bool:
    """Cases of the classic encoder."""
    return golden.case.mode == pb.CLASSIC_ENCODER


def _entry(name: str, says: str, build: Build) -> Variation:
    return Variation(f"classic_{name}", says, build, is_classic)


VARIATIONS = (
    _entry("eager", "our implementation as it is", _ours()),
    _entry("sdpa", "torch's fused attention", _ours(backend="sdpa")),
    _entry("threads_2", "two threads", _ours(threads=2)),
    _entry("rows_alone", "every row in a batch of its own", _ours(groups=lambda rows: [[row] for row in range(rows)])),
    _entry("rows_reversed", "the batch in reverse order", _ours(groups=lambda rows: [list(range(rows))[::-1]])),
    _entry("norm_one_pass", "the mean square less the squared mean", _ours(_modules(nn.LayerNorm, _in_one_pass))),
    _entry("norm_float64", "LayerNorm in float64", _ours(_modules(nn.LayerNorm, _wide))),
    _entry("linear_backwards", "sums from the last term", _ours(_modules(nn.Linear, _summed_backwards))),
    _entry("linear_bias_first", "plain sums that start with the bias", _ours(_modules(nn.Linear, _bias_first))),
    _entry("qkv_unfused", "three projections", _ours(_unfused)),
    _entry("queries_scaled", "the scale on the queries", _ours(_queries_scaled)),
    _entry("gelu_erf", "GELU written out", _ours(_gelu_by_erf)),
    _entry("sequential_float32", "float32, one term after the other", _specification(SEQUENTIAL_FLOAT32)),
    _entry("float64", "the specification in float64", _specification(FLOAT64)),
)
