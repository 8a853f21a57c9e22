"""One parameter against its tensor in the checkpoint, bit for bit; where they differ, the mistake that explains it."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

import torch

from .problems import finite_problems
from .row_blocks import bits, place, row_blocks

Change = Callable[[torch.Tensor], torch.Tensor]
Candidate = tuple[str, torch.Tensor]
"""A name, and a tensor that a parameter may hold by mistake."""
_LARGEST_COPY = 1 << 26  # elements; embeddings and heads of published models are larger, no other matrix is
_MANTISSA_CUT = -1 << 16  # the upper half of a float32 is a bfloat16


def difference(actual: torch.Tensor, source: torch.Tensor, others: Callable[[], Iterable[Candidate]]) -> str | None:
    """How `actual` differs from `source` cast to its dtype; None where every bit is the same and finite.

    `others` gives the tensors that may stand there in its place; it is called only where something differs. Nothing
    larger than a block of rows is copied.
    """
    if actual.is_meta:
        return "on the meta device: never filled"
    if actual.shape != source.shape:
        return _other_shape(actual, source)
    if problems := finite_problems("its source", source, actual.dtype):
        return problems[0]
    if _holds(actual, source):
        return None
    for says, candidate, change in _mistakes(actual, source):
        if _holds(actual, candidate, change):
            return says
    for name, tensor in others():
        if tensor.shape == actual.shape and _holds(actual, tensor):
            return f"holds the values of {name}"
    for axis, lines in enumerate(("rows", "columns")[: actual.dim()]):
        if _reordered(actual.transpose(0, axis), source.transpose(0, axis)):
            return f"holds the {lines if actual.dim() > 1 else 'elements'} of its source in another order"
    return _rows_of_another(actual, source, others) or _count(actual, source)


def _holds(actual: torch.Tensor, expected: torch.Tensor, change: Change = lambda block: block) -> bool:
    """Whether `actual` is `expected`, changed block by block and cast to its dtype."""
    if actual.shape != expected.shape:
        return False
    return not actual.shape or all(
        torch.equal(bits(actual[block].cpu()), bits(change(expected[block]).to(actual.dtype)))
        for block in (slice(0, 1), *row_blocks(actual.shape))  # one row first: most candidates end there
    )


def _other_shape(actual: torch.Tensor, source: torch.Tensor) -> str:
    says = f"has the shape {list(actual.shape)}, expected {list(source.shape)}"
    if actual.dim() == 2 and actual.shape == source.shape[::-1]:
        if _holds(actual, source.T):
            return f"is the transpose of its source: {says}"
        if _holds(actual, source.reshape(actual.shape)):
            return f"is its source read as [in, out]: {says}"
    return says


def _mistakes(actual: torch.Tensor, source: torch.Tensor) -> Iterator[tuple[str, torch.Tensor, Change]]:
    """What loaders do to a tensor: words, a view of the source, and what is done to each block of it."""
    for number, word in ((1.0, "ones"), (0.0, "zeros")):
        yield f"never loaded: all {word}", source, partial(torch.full_like, fill_value=number)
    if source.dim() == 2:
        yield "is the transpose of its source", source.T, torch.clone
        if source.is_contiguous():
            yield "is its source read as [in, out]", source.reshape(tuple(source.shape[::-1])).T, torch.clone
        if source.numel() <= _LARGEST_COPY:
            again = source.T.reshape(source.shape)
            yield "is the transpose of its source read as [out, in]", again, torch.clone
    for narrow, word in ((torch.bfloat16, "bfloat16"), (torch.float16, "float16")):
        yield f"rounded to {word} on the way", source, partial(torch.Tensor.to, dtype=narrow)
    if source.element_size() == 2:
        misread, word = (torch.float16, "float16") if source.dtype == torch.bfloat16 else (torch.bfloat16, "bfloat16")
        yield f"its bits read as {word}", source, lambda block: block.contiguous().view(misread)
    if source.dtype == torch.float32:
        yield "cut to bfloat16 instead of rounded", source, _cut
    yield "exchanged byte order", source, _swapped
    yield "is its source plus 1", source, lambda block: block.float() + 1
    yield "is its source minus 1", source, lambda block: block.float() - 1
    yield "is its source with the opposite sign", source, torch.neg


def _cut(block: torch.Tensor) -> torch.Tensor:
    return (bits(block) & _MANTISSA_CUT).view(block.dtype)


def _swapped(block: torch.Tensor) -> torch.Tensor:
    single = block.contiguous().view(torch.uint8).reshape(*block.shape, block.element_size())
    return single.flip(-1).view(block.dtype).squeeze(-1)


def _reordered(actual: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether the rows are the same ones in another order: their sums say which, then the bits decide."""
    ours, theirs = (torch.argsort(_sums(tensor, actual.dtype)) for tensor in (actual, source))
    return all(
        torch.equal(bits(actual[ours[block]].cpu()), bits(source[theirs[block]].to(actual.dtype)))
        for block in row_blocks(actual.shape)
    )


def _rows_of_another(
    actual: torch.Tensor, source: torch.Tensor, others: Callable[[], Iterable[Candidate]]
) -> str | None:
    """Whether the rows that are wrong, where some are, are rows of one tensor; which one, the source among them."""
    sums = _sums(actual, actual.dtype)
    strange = (sums != _sums(source, actual.dtype)).nonzero().flatten().tolist()
    if actual.dim() < 2 or not 0 < len(strange) < len(actual):
        return None
    for name, tensor in chain([("its source", source)], others()):
        places = {value: row for row, value in enumerate(_sums(tensor, actual.dtype).tolist())}
        rows = {row: places.get(float(sums[row])) for row in strange}
        if all(
            theirs is not None and torch.equal(bits(actual[ours].cpu()), bits(tensor[theirs].to(actual.dtype)))
            for ours, theirs in rows.items()
        ):
            first = strange[0]
            return f"{len(strange)} of {len(actual)} rows are rows of {name}, first row {first}: its row {rows[first]}"
    return None


def _sums(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    blocks = (tensor[block].to("cpu", dtype).to(torch.float64) for block in row_blocks(tensor.shape))
    return torch.cat([block.reshape(len(block), -1).sum(dim=1) for block in blocks])


def _count(actual: torch.Tensor, source: torch.Tensor) -> str:
    """How many elements differ, and the first of them."""
    different, first = 0, ""
    for block in row_blocks(actual.shape):
        got, expected = actual[block].cpu(), source[block].to(actual.dtype)
        wrong = bits(got) != bits(expected)
        different += int(wrong.sum())
        if wrong.any() and not first:
            index = place(wrong)
            values = f"expected {float(expected[tuple(index)])!r}, got {float(got[tuple(index)])!r}"
            first = f"[{', '.join(map(str, [index[0] + block.start, *index[1:]]))}]: {values}"
    says = f"{different} of {actual.numel()} elements differ, first at {first}"
    foreign = different > actual.numel() // 2
    return f"holds values of no tensor of the checkpoint: {says}" if foreign else says
