"""One tokenization case from Hugging Face's tokenizer to a golden file."""

from __future__ import annotations

from pathlib import Path

from qwen3_golden import Recording, pb, write
from qwen3_golden.stages import stages_in
from qwen3_reference.checkpoints.tokenizer_files import tokenizer_checkpoint
from qwen3_reference.provenance import provenance
from qwen3_reference.tokenization.cases import TokenizationCase
from qwen3_reference.tokenization.chat import batch, conversation
from qwen3_reference.tokenization.decoding import decoding
from qwen3_reference.tokenization.loading import ReferenceTokenizer, load_tokenizer
from qwen3_reference.tokenization.stages import encoding

__all__ = ["ReferenceTokenizer", "load_tokenizer", "record_tokenization", "tokenize"]


def tokenize(reference: ReferenceTokenizer, request: pb.Tokenization) -> pb.Tokenization:
    """What Hugging Face makes of the fields marked "given", every stage filled in."""
    return pb.Tokenization(
        encoding=[encoding(reference, item) for item in request.encoding],
        decoding=[decoding(reference, item) for item in request.decoding],
        batch=[batch(reference, item) for item in request.batch],
        conversation=[conversation(reference, item) for item in request.conversation],
    )


def record_tokenization(definition: TokenizationCase, tokenizers_root: Path, path: Path) -> None:
    """Write a case's recording to `path`; its tokenizer is the folder of that name in `tokenizers_root`."""
    directory = tokenizers_root / definition.tokenizer
    reference = load_tokenizer(directory)
    recorded = tokenize(reference, definition.message_of(reference))
    stages = stages_in(recorded)
    case = pb.Case(
        name=definition.name,
        tier=pb.TIER_TEXT,
        mode=pb.TOKENIZATION,
        checkpoint=[tokenizer_checkpoint(directory)],
        exposes=definition.exposes,
        description=definition.description,
    )
    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=stages)
    made_with = provenance("qwen3_reference", definition.seed, more=("tokenizers",))
    write(path, Recording(case, made_with, run, [], tokenization=recorded))
