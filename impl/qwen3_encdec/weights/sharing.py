"""Which parameters of a model are one piece of memory: the shared matrix has to be, and nothing else may be."""

from collections.abc import Iterator, Mapping

import torch
from torch import nn

from .fault import WeightFault
from .mapping import EMBEDDING, HEAD, SHARED
from .row_blocks import same_bits

_EMBEDDINGS = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def tied_names(tie_word_embeddings: bool) -> tuple[str, ...]:
    """The parameters that must be `shared.weight` itself."""
    return (*_EMBEDDINGS, HEAD) if tie_word_embeddings else _EMBEDDINGS


def has_storage(parameter: torch.Tensor) -> bool:
    """False on the meta device and for an empty tensor: two of those are equal whatever they are."""
    return not parameter.is_meta and parameter.untyped_storage().nbytes() > 0


def tie_faults(parameters: Mapping[str, nn.Parameter], tie_word_embeddings: bool) -> Iterator[WeightFault]:
    """Members of the shared matrix that are not it; and a head that is it although the checkpoint has its own."""
    shared = parameters.get(SHARED)
    if shared is None or not has_storage(shared):
        yield _tie_fault(SHARED, "not in the model" if shared is None else "on the meta device: never filled")
        return
    for name in tied_names(tie_word_embeddings):
        member = parameters.get(name)
        if member is None:
            yield _tie_fault(name, "not in the model")
        elif member is not shared:
            yield _tie_fault(name, _untied(member, shared))
    head = parameters.get(HEAD)
    if not tie_word_embeddings and head is not None and has_storage(head) and head.data_ptr() == shared.data_ptr():
        yield WeightFault(HEAD, HEAD, "embeddings_tied", f"shares the memory of {SHARED}; the checkpoint has a head")


def _untied(member: nn.Parameter, shared: nn.Parameter) -> str:
    if not has_storage(member):
        return "on the meta device: never filled"
    if member.data_ptr() == shared.data_ptr():
        return f"is a parameter of its own in the memory of {SHARED}: each would get gradients of its own"
    return f"is not tied to {SHARED}: a copy " + (
        "with the same values" if same_bits(member, shared) else "with other values"
    )


def _tie_fault(name: str, says: str) -> WeightFault:
    return WeightFault(name, EMBEDDING, "embeddings_tied", says)


def overlap_faults(parameters: Mapping[str, nn.Parameter]) -> Iterator[WeightFault]:
    """Two parameters, neither of which belongs to the shared matrix, with bytes in common."""
    spans = sorted(
        (str(parameter.device), *_span(parameter), name)
        for name, parameter in parameters.items()
        if has_storage(parameter) and name not in (SHARED, HEAD, *_EMBEDDINGS)
    )
    held_device, held_end, holder = "", 0, ""
    for device, start, end, name in spans:
        if device == held_device and start < held_end:
            yield WeightFault(name, "", "stacks_share_no_storage", f"shares its memory with {holder}")
        if device != held_device or end > held_end:
            held_device, held_end, holder = device, end, name


def _span(parameter: torch.Tensor) -> tuple[int, int]:
    """The first byte and the one behind the last."""
    steps = (size - 1 for size in parameter.shape)
    last = sum(step * stride for step, stride in zip(steps, parameter.stride(), strict=True))
    return parameter.data_ptr(), parameter.data_ptr() + (last + 1) * parameter.element_size()
