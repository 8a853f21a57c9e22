"""Recording a tokenizer under test on the case of a golden: the same texts, ids and messages."""

from __future__ import annotations

from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, STAGES, ParityError, Recording, pb, write
from qwen3_golden.stages import stages_in
from qwen3_parity.recording.record import foreign_code
from qwen3_parity.text.inputs import inputs_of
from qwen3_parity.text.runner import Factory, Runner
from qwen3_reference.checkpoints.tokenizer_files import tokenizer_checkpoint
from qwen3_reference.provenance import provenance


def record_tokenization(
    golden: Recording,
    path: Path,
    build: Factory,
    *,
    tokenizers: Path = GOLDEN_ROOT / "tokenizers",
    directory: Path | None = None,
) -> None:
    """Run the tokenizer of `build` on the case of `golden` and write its recording to `path`.

    It gets `directory`, or else the folder of `tokenizers` that the case names. Raises `ParityError` for a directory
    whose files are not the case's and for a tokenizer that fails; nothing is written then.
    """
    folder = tokenizer_directory(golden.case, tokenizers, directory)
    write(path, recorded(golden, folder, build))


def recorded(golden: Recording, directory: Path, build: Factory) -> Recording:
    """What the tokenizer of `build` makes of the case of `golden`, in memory; `directory` is taken as it is."""
    with foreign_code(golden.case):
        runner = build(golden.case, directory)
        run = _run(runner, golden.tokenization)
        tokenization = tokenized(runner, golden.tokenization)
    produced = provenance(getattr(runner, "producer", "foreign"))
    return Recording(golden.case, produced, run, [], tokenization=tokenization)


def tokenized(runner: Runner, tokenization: pb.Tokenization) -> pb.Tokenization:
    """Everything that is given in `tokenization`, with the runner's stages filled in."""
    bare = inputs_of(tokenization)
    filled = pb.Tokenization(
        encoding=[runner.encoding(encoding) for encoding in bare.encoding],
        decoding=[runner.decoding(decoding) for decoding in bare.decoding],
        batch=[runner.batch(batch) for batch in bare.batch],
        conversation=[runner.conversation(conversation) for conversation in bare.conversation],
    )
    if inputs_of(filled) != inputs_of(tokenization):
        raise ParityError(
            "runner",
            "a runner returns what it was given, with its stages filled in",
            expected="a copy of the given fields",
            got="other ones",
            next_step="start from a copy: out.CopyFrom(given)",
            fault="candidate",
        )
    return filled


def _run(runner: Runner, tokenization: pb.Tokenization) -> pb.Run:
    """What the runner says of itself, stages that the case has nothing for left out; without a word, every stage."""
    said = getattr(runner, "run", None)
    names = list(said.materialised) if said is not None and said.materialised else list(STAGES)
    idle = set(STAGES).difference(stages_in(tokenization))
    shown = [name for name in names if name not in idle]
    return pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE, materialised=shown)


def tokenizer_directory(case: pb.Case, root: Path, directory: Path | None = None) -> Path:
    """The directory of a case's tokenizer, its files verified; raises `ParityError` when it is not there or differs."""
    named = [checkpoint for checkpoint in case.checkpoint if checkpoint.role == "tokenizer"]
    if len(named) != 1:
        raise ParityError(
            case.name,
            "the case does not say which tokenizer it is for",
            expected="one checkpoint of the role tokenizer",
            got=len(named),
            next_step="give a golden of mode TOKENIZATION",
        )
    folder = directory or root / named[0].name
    if not folder.is_dir():
        raise ParityError(
            case.name,
            "the tokenizer is not there",
            expected=f"a Hugging Face directory at {folder}",
            got="nothing",
            next_step="give it with --model",
        )
    digest = tokenizer_checkpoint(folder).sha256
    if digest != named[0].sha256:
        raise ParityError(
            folder,
            "this is not the tokenizer that the golden was recorded with",
            expected=f"{named[0].name}, SHA-256 of its files {named[0].sha256.hex()}",
            got=digest.hex(),
            next_step="restore its files, or give the right directory with --model",
        )
    return folder
