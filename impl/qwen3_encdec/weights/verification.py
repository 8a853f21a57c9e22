"""Is an initialised model what its Qwen3 checkpoint says, tensor by tensor and bit for bit?"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from qwen3_encdec.modeling_qwen3_encdec import Qwen3ForSeq2SeqLM

from .comparison import Candidate, difference
from .fault import CHECKS, WeightFault
from .files import Stored, checkpoint_directory, tensors_by_name
from .mapping import EMBEDDING, HEAD, SHARED, Pair, pairs
from .module_settings import setting_faults
from .problems import Progress, name_problems
from .qwen3_checkpoint import open_sources, refuse, unseen
from .sentinel_rows import draw_rows, mean_and_deviation
from .sharing import overlap_faults, tie_faults, tied_names

__all__ = ["CHECKS", "WeightFault", "verify_weight_initialization", "weight_faults"]

Parameters = Mapping[str, nn.Parameter]


def verify_weight_initialization(
    model: nn.Module, qwen3_model_name: str | Path, tolerance: float = 1e-5, *, progress: Progress = unseen
) -> dict[str, bool]:
    """Every key of `CHECKS`, and whether `weight_faults` finds nothing that belongs to it.

    `qwen3_model_name` is the directory or the hub id that the model was initialised from. `ValueError` when it cannot
    be read.
    """
    failed = {fault.check for fault in weight_faults(model, qwen3_model_name, tolerance, progress=progress)}
    return {check: check not in failed for check in CHECKS}


@torch.no_grad()
def weight_faults(
    model: nn.Module, source: str | Path, tolerance: float = 1e-5, *, progress: Progress = unseen
) -> list[WeightFault]:
    """Everything in which `model` differs from one made of the checkpoint `source`, a directory or a hub id.

    Every tensor of every layer of both stacks is compared with its source, cast to the parameter's dtype, bit for bit,
    a block of rows at a time. `tolerance` is how far, in absolute terms, mean and standard deviation of the sentinel
    rows may be from those of the checkpoint's rows, beside the rounding to the parameter's dtype. `ValueError` when the
    checkpoint cannot be read or is not a whole model itself.
    """
    count = getattr(getattr(model, "config", None), "num_sentinel_tokens", 0)
    [checkpoint] = open_sources(checkpoint_directory(source), None, count)
    config, tied = checkpoint.config, checkpoint.config.tie_word_embeddings
    with torch.device("meta"):
        expected = Qwen3ForSeq2SeqLM(config)
    refuse(name_problems(checkpoint, {name: tuple(parameter.shape) for name, parameter in expected.named_parameters()}))
    parameters = dict(model.named_parameters(remove_duplicate=False))
    compared = _to_compare(pairs(config), parameters, tied)
    faults = [
        *setting_faults(model, expected, config),
        *tie_faults(parameters, tied),
        *overlap_faults(parameters),
        *_unchecked(model, expected, {SHARED, *tied_names(tied), *(pair.target for pair in compared)}),
    ]
    with tensors_by_name(checkpoint.stored) as read:
        comparison = _Comparison(parameters, checkpoint.stored, read, count, tolerance)
        for done, pair in enumerate(compared, 1):
            faults += comparison.faults(pair)
            progress(done, len(compared), f"verifying {pair.target}")
    return faults


def _to_compare(table: list[Pair], parameters: Parameters, tied: bool) -> list[Pair]:
    """The pairs, each target once, and every member of the shared matrix that is a matrix of its own."""
    compared = {pair.target: pair for pair in table if not (tied and pair.target == HEAD)}
    for name in tied_names(tied):
        if name in parameters and parameters[name] is not parameters.get(SHARED):
            part = "head" if name == HEAD else "embedding"
            compared[name] = Pair(EMBEDDING, name, part, name.split(".")[0])
    return list(compared.values())


def _unchecked(model: nn.Module, expected: nn.Module, checked: set[str]) -> Iterator[WeightFault]:
    """Parameters and buffers that no comparison looks at."""
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)} - checked
    names |= {name for name, _ in model.named_buffers()} - {name for name, _ in expected.named_buffers()}
    for name in sorted(names):
        says = "no tensor of the checkpoint belongs here: nobody compared it"
        yield WeightFault(name, "", "every_parameter_checked", says)


def _check_of(pair: Pair) -> str:
    if pair.part == "attention":
        return f"{pair.stack}_attention_match"
    return "original_embeddings_preserved" if pair.part == "embedding" else f"{pair.part}_match"


class _Comparison:
    """Parameters beside the tensors of a checkpoint."""

    def __init__(
        self,
        parameters: Parameters,
        stored: Mapping[str, Stored],
        read: Callable[[str], torch.Tensor],
        sentinels: int,
        tolerance: float,
    ) -> None:
        self.parameters, self.stored, self.read = parameters, stored, read
        self.sentinels, self.tolerance = sentinels, tolerance

    def faults(self, pair: Pair) -> Iterator[WeightFault]:
        """What is wrong with one parameter."""
        parameter = self.parameters.get(pair.target)
        if parameter is None:
            yield WeightFault(pair.target, pair.source, _check_of(pair), "not in the model")
            return
        source = self.read(pair.source)
        held: torch.Tensor = parameter
        if pair.source in (EMBEDDING, HEAD) and not parameter.is_meta:
            yield from self._extension_faults(pair, parameter, source)
            if parameter.shape[1:] == source.shape[1:] and len(parameter) >= len(source):
                held = parameter[: len(source)]
        if says := difference(held, source, lambda: self._others(pair.source)):
            yield WeightFault(pair.target, pair.source, _check_of(pair), says)

    def _others(self, name: str) -> Iterator[Candidate]:
        """The checkpoint's other tensors of that shape."""
        shape = self.stored[name].shape
        yield from (
            (candidate, self.read(candidate))
            for candidate, at in self.stored.items()
            if at.shape == shape != () and candidate != name
        )

    def _extension_faults(self, pair: Pair, parameter: nn.Parameter, source: torch.Tensor) -> Iterator[WeightFault]:
        """The sentinels' rows behind those of the checkpoint."""
        rows, hidden = source.shape
        if tuple(parameter.shape) != (rows + self.sentinels, hidden):
            says = (
                f"has the shape {list(parameter.shape)}, expected {[rows + self.sentinels, hidden]}: "
                f"{rows} rows of the checkpoint and {self.sentinels} sentinels"
            )
            yield WeightFault(pair.target, pair.source, "embedding_extended", says)
        elif self.sentinels:
            yield from self._sentinel_faults(pair, parameter[rows:], source)

    def _sentinel_faults(self, pair: Pair, new: torch.Tensor, source: torch.Tensor) -> Iterator[WeightFault]:
        name = f"{pair.target}[{len(source)}:]"
        expected = mean_and_deviation(source)
        got = mean_and_deviation(new) if new.isfinite().all() else (float("nan"), float("nan"))
        slack = self.tolerance + torch.finfo(new.dtype).eps / 2 * (abs(expected[0]) + expected[1])
        for statistic, ours, theirs in zip(("mean", "standard deviation"), got, expected, strict=True):
            if not abs(ours - theirs) <= slack and new.numel() > 1:
                says = (
                    f"the {statistic} is {ours:.6g}, that of the checkpoint's rows {theirs:.6g}, "
                    f"{slack:.2g} apart at most"
                )
                yield WeightFault(name, pair.source, "sentinel_rows_match_statistics", says)
        drawn = draw_rows(self.sentinels, source.shape[1], *expected)
        if different := difference(new, drawn, lambda: self._drawn_from_others(pair.source)):
            yield WeightFault(name, "", "sentinel_rows_seeded", different)

    def _drawn_from_others(self, name: str) -> Iterator[Candidate]:
        for candidate, tensor in self._others(name):
            rows = draw_rows(self.sentinels, tensor.shape[1], *mean_and_deviation(tensor))
            yield f"rows drawn for {candidate}", rows
