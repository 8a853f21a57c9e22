"""Our tokenizer held against Hugging Face's on a user's own texts: check --tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import RenderableType

from qwen3_golden import ParityError, Recording, pb, write
from qwen3_golden.regular_file import open_regular
from qwen3_golden.stages import stages_in
from qwen3_parity.judge.next_command import command
from qwen3_parity.report.next_step import after_own_texts
from qwen3_parity.report.output import Output
from qwen3_reference.versions import refuse_unsupported

if TYPE_CHECKING:
    from qwen3_reference.tokenization.loading import ReferenceTokenizer


def check_texts(
    tokenizer: str, texts: Sequence[str], files: Sequence[Path], out: Path | None, output: Output
) -> NoReturn:
    """Compare our tokenizer with Hugging Face's on texts, and leave with the verdict's exit code.

    What `out` gets is Hugging Face's recording. Raises `UsageError` where there is no text.
    """
    refuse_unsupported()
    from qwen3_parity.recording.request import tokenizer_directory
    from qwen3_parity.recording.text import recorded
    from qwen3_parity.report import verdicts as report
    from qwen3_parity.text.compare import check_tokenization, joined
    from qwen3_parity.text.ours import ours
    from qwen3_parity.text.show import texts_table
    from qwen3_reference.tokenization.recorded import load_tokenizer

    named = {f"text {index}": _checked(text, f"text {index}") for index, text in enumerate(texts)}
    named |= {str(path): _content(path) for path in files}
    if not named:
        raise click.UsageError("give --text TEXT or --file FILE")
    directory = tokenizer_directory(tokenizer)
    reference = load_tokenizer(directory)
    golden = _recording(directory)
    runner, parts, counts = ours(golden.case, directory), [], dict.fromkeys(named, 0)
    done, total = 0, sum(map(len, named.values()))
    with output.progress("comparing", "characters") as update:
        for name, text in named.items():
            for encoding in _encodings(reference, name, text):
                captured = replace(golden, tokenization=_captured(reference, encoding))
                golden.run.materialised[:] = stages_in(captured.tokenization)
                candidate = recorded(captured, directory, lambda *_: runner)
                parts.append(check_tokenization(captured, candidate))
                counts[name] += len(captured.tokenization.encoding[0].id)
                if output.verbose:
                    output.say(texts_table(candidate, ["*"]))
                if out is not None:
                    golden.tokenization.MergeFrom(captured.tokenization)
                done += len(encoding.text)
                update.count(done, total)
            output.say(f"{name}: {len(text)} characters, {counts[name]} ids")
    verdicts = joined(parts)
    lines: list[RenderableType] = [report.terminal(verdicts, every=output.verbose)]
    if out is not None:
        write(out, golden)
        lines.append(f"next: {command('record', out, '--impl', 'MODULE:FACTORY', '--model', tokenizer)}")
    texts_said = [{"name": name, "characters": len(text), "ids": counts[name]} for name, text in named.items()]
    data = {"texts": texts_said, "recording": out and str(out), "next": after_own_texts(verdicts, tokenizer, out)}
    output.finish(verdicts.exit_code, report.summary(verdicts), lambda: verdicts.to_json() | data, lambda: lines)


def _recording(directory: Path) -> Recording:
    """A golden of this tokenizer, without any text."""
    from qwen3_reference.checkpoints.tokenizer_files import tokenizer_checkpoint
    from qwen3_reference.provenance import provenance

    run = pb.Run(arithmetic=pb.ARITHMETIC_NONE, backend=pb.BACKEND_NONE)
    case = pb.Case(name="capture/texts", mode=pb.TOKENIZATION, checkpoint=[tokenizer_checkpoint(directory)])
    origin = provenance("qwen3_reference", more=("tokenizers",))
    return Recording(case, origin, run, [], tokenization=pb.Tokenization())


def _encodings(reference: ReferenceTokenizer, name: str, text: str) -> Iterator[pb.Encoding]:
    """The text to be encoded, a long one in pieces that are named by where they begin."""
    from qwen3_reference.tokenization.pieces import pieces

    begin = 0
    for piece in pieces(reference, text) if text else [""]:
        yield pb.Encoding(name=name if piece == text else f"{name}, from character {begin}", text=piece)
        begin += len(piece)


def _captured(reference: ReferenceTokenizer, encoding: pb.Encoding) -> pb.Tokenization:
    """What Hugging Face makes of a text: every stage, and its own ids decoded again."""
    from qwen3_reference.tokenization.recorded import tokenize

    tokenization = tokenize(reference, pb.Tokenization(encoding=[encoding]))
    back = pb.Tokenization(decoding=[pb.Decoding(name=encoding.name, id=tokenization.encoding[0].id)])
    tokenization.MergeFrom(tokenize(reference, back))
    return tokenization


def _content(path: Path) -> str:
    try:
        with open_regular(path) as file:
            return file.read().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParityError(
            path,
            "the text cannot be read",
            expected="a file of UTF-8",
            got=error,
            next_step="check the path, or write the text as UTF-8",
        ) from None


def _checked(text: str, where: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ParityError(
            where,
            "text is made of Unicode characters, and a lone surrogate is none",
            expected="UTF-8 on the command line",
            got=f"U+{ord(text[error.start]):04X} at {error.start}",
            next_step="write the text to a file and give --file",
        ) from None
    return text
