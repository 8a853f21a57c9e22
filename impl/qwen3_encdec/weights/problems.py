"""What keeps a checkpoint from filling a model: every name on either side, and every value, that does not fit."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from qwen3_encdec.configuration_qwen3_encdec import Qwen3EncoderDecoderConfig

from .files import DTYPES, Stored, read_tensors
from .mapping import EMBEDDING, HEAD, SHARED, pairs
from .row_blocks import place, row_blocks, same_bits

Progress = Callable[[int, int, str], None]
"""Called with how many tensors are done, how many there are, and what is being done."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Source:
    """A checkpoint directory, and the stacks that it fills."""

    directory: Path
    stacks: tuple[str, ...]
    config: Qwen3EncoderDecoderConfig
    """Ours, made from its `config.json`: sentinels included."""
    stored: Mapping[str, Stored]

    def targets(self) -> dict[str, list[str]]:
        """Our parameters for each name of Hugging Face's; none for the head of a checkpoint that fills the encoder."""
        targets: dict[str, list[str]] = {HEAD: []} if HEAD in self.stored or not self.config.tie_word_embeddings else {}
        for pair in pairs(self.config):
            if pair.stack in self.stacks and (pair.source != HEAD or HEAD in targets):
                targets.setdefault(pair.source, []).append(pair.target)
        return targets


def name_problems(source: Source, shapes: Mapping[str, Shape]) -> list[str]:
    """Tensors that are missing, extra, perhaps renamed, mis-shaped or of no dtype for weights.

    `shapes` are those of the model's parameters, sentinel rows included.
    """
    rows = (source.config.vocab_size - source.config.num_sentinel_tokens, source.config.hidden_size)
    expected = {
        name: rows if name in (EMBEDDING, HEAD) else shapes.get(targets[0], ())
        for name, targets in source.targets().items()
    }
    stored = source.stored
    missing = [name for name in expected if name not in stored]
    extra = [name for name in stored if name not in expected]
    problems = [f"missing: {source.directory}: {name}, expected {expected[name]}" for name in missing]
    problems += [f"extra: {stored[n].file}: {n} {stored[n].shape}, expected no such tensor" for n in extra]
    problems += _renamed_problems({n: expected[n] for n in missing}, {n: stored[n].shape for n in extra})
    for name in (name for name in stored if name in expected):
        where, entry = f"{stored[name].file}: {name}", stored[name]
        if entry.shape != expected[name]:
            problems.append(f"mis-shaped: {where}, expected {expected[name]}, got {entry.shape}")
        if entry.dtype not in DTYPES:
            problems.append(f"wrong dtype: {where}, expected {', '.join(DTYPES)}, got {entry.dtype}")
    return problems


def _renamed_problems(missing: Mapping[str, Shape], extra: Mapping[str, Shape]) -> list[str]:
    """Pairs that are alone with their shape on both sides. A hint for the reader, loading never goes by it."""
    by_shape: dict[Shape, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, names in enumerate((missing, extra)):
        for name, shape in names.items():
            by_shape[shape][side].append(name)
    return [
        f"perhaps renamed: {gone[0]} is missing, and {come[0]} is the only extra tensor of its shape"
        for gone, come in by_shape.values()
        if len(gone) == len(come) == 1
    ]


def dtype_problems(sources: Iterable[Source]) -> list[str]:
    """More than one dtype where nobody said which to take."""
    stored = [pair for source in sources for pair in source.stored.items()]
    held = {name: entry.dtype for name, entry in stored if entry.dtype in DTYPES}
    counts = Counter(held.values())
    if len(counts) < 2:
        return []
    rarest = min(counts, key=lambda dtype: counts[dtype])
    names = ", ".join(name for name, dtype in held.items() if dtype == rarest)
    said = ", ".join(str(DTYPES[dtype]) for dtype in sorted(counts))
    return [f"mixed dtypes: {said}; {rarest} are {names}; pass dtype= to choose one"]


def value_problems(sources: list[Source], dtype: torch.dtype, progress: Progress) -> list[str]:
    """Values that are not finite, or would not be in `dtype`; and matrices that must be equal and are not."""
    problems: list[str] = []
    embeddings: list[torch.Tensor] = []
    done, total = 0, sum(len(source.stored) for source in sources)
    for source in sources:
        compared: dict[str, torch.Tensor] = {}
        for name, tensor in read_tensors(source.stored):
            problems += finite_problems(f"{source.stored[name].file}: {name}", tensor, dtype)
            if name in (EMBEDDING, HEAD):
                compared[name] = tensor
            done += 1
            progress(done, total, f"reading {name}")
        tied = source.config.tie_word_embeddings and HEAD in compared
        if tied and not same_bits(compared[HEAD], compared[EMBEDDING]):
            problems.append(
                f"different: {source.stored[HEAD].file}: {HEAD} differs from {EMBEDDING} although tie_word_embeddings "
                "is true; set it to false to keep both"
            )
        embeddings.append(compared[EMBEDDING])
    if not all(same_bits(embedding, embeddings[0], dtype) for embedding in embeddings[1:]):
        problems.append(
            f"different: {sources[1].stored[EMBEDDING].file}: {EMBEDDING} differs from the encoder checkpoint's; both "
            f"stacks share one matrix, {SHARED}, so the two must be equal bit for bit"
        )
    return problems


def finite_problems(where: str, tensor: torch.Tensor, dtype: torch.dtype) -> list[str]:
    """The first value that is not finite, or would not be in `dtype`, with its place; nothing when all are."""
    bounds = torch.stack(tensor.aminmax())
    if bounds.to(dtype).isfinite().all():
        return []
    for block in row_blocks(tensor.shape):
        values = tensor[block]
        bad = ~values.to(dtype).isfinite()
        if bad.any():
            index = place(bad)
            value = float(values[tuple(index)])
            index[0] += block.start
            if bounds.isfinite().all():
                limit = torch.finfo(dtype).max
                return [f"overflow: {where}: {value:g} at {index} is beyond {dtype}, which ends at {limit:g}"]
            return [f"not finite: {where}: {value} at {index}, expected finite weights"]
    raise AssertionError(f"{where}: bounds {bounds.tolist()} without an element that has them")
