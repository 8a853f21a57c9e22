"""The command line. Exit codes: 0 parity, 1 divergence, 2 the input cannot be read, verified or matched.

Each command imports what it runs when it runs: nobody who asks for help waits for PyTorch.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_golden.whole import finish_change
from qwen3_parity import commands
from qwen3_parity.commands._verbs import Verbs, verb_of
from qwen3_parity.report.extras import extra_of
from qwen3_parity.report.output import envelope, refusal

TRACEBACK = "QWEN3_PARITY_TRACEBACK"
"""Set to anything, the traceback of a harness bug is printed; so it is with -v."""
_LONGEST = 300
"""Characters of a foreign exception that are shown."""


class Program(Verbs):
    """Every verb, and their refusals as messages."""

    def main(self, *args: Any, **named: Any) -> Any:
        """As click does; a terminal that lacks a character shows its number, and a closed output is refused.

        What is asked to end (SIGTERM, SIGHUP) leaves as little behind as what is interrupted.
        """
        if sys.stderr is None:
            sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 – as long as the process
        if sys.stdout is None:
            sys.stdout = sys.stderr
            _refuse(None, _refused(OSError(errno.EBADF, "it is closed", "standard output")))
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with _ended_by_signals():
            try:
                return super().main(*args, **named)
            except _Ended as ended:
                sys.exit(128 + ended.signal)
            except Exception as error:  # help that cannot be written, a verb that cannot be imported
                _refuse(None, _refusal_of(error))
            finally:
                _flush()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; whether JSON is asked for is known even where the rest cannot be parsed."""
        ctx.obj = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command, a change of the golden set that was interrupted carried out or undone before it."""
        with refusals(ctx):
            return super().invoke(ctx)


@contextmanager
def refusals(ctx: click.Context | None = None) -> Iterator[None]:
    """A command's work: a change of the golden set that was interrupted is carried out or undone before it.

    A `ParityError`, a package of an extra that is not installed, and what a disk refuses, end in a message and exit
    code 2; with --json so does a wrong usage, and the message is on standard output, too. An interrupt, and a pipe that
    nobody reads, end in the codes that shells have for them: 1 is a divergence and nothing else. Whatever else is
    raised is a bug of the harness, and exit code 2, too.
    """
    try:
        finish_change(GOLDEN_ROOT)
        yield
    except KeyboardInterrupt:
        click.echo("\ninterrupted", err=True)
        sys.exit(130)
    except click.UsageError as error:
        if ctx is not None and ctx.obj:
            _refuse(ctx, _misused(error))
        raise
    except (click.ClickException, click.Abort, click.exceptions.Exit):  # how click ends
        raise
    except Exception as error:
        _refuse(ctx, _refusal_of(error))


def _refusal_of(error: Exception) -> ParityError:
    """What a command's end by an exception means; leaves with the code of a broken pipe where that is the reason."""
    if isinstance(error, ParityError):
        return error
    if isinstance(error, ModuleNotFoundError) and (extra := extra_of(error.name or "")):
        return _missing(error, extra)
    if isinstance(error, OSError):
        if error.errno == errno.EPIPE:  # whoever reads our output has enough of it
            _close_output()
            sys.exit(141)
        return _refused(error)
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # Path.resolve before Python 3.13
        return _refused(OSError(errno.ELOOP, str(error)))
    return _bug(error)


class _Ended(BaseException):
    """A signal that asks the process to end: nothing takes it for an error of the code that it came to."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP unwind what runs, as an interrupt does; the exit code is the shells', 128 and the signal."""

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        raise _Ended(number)

    before = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere none can be set
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) == signal.SIG_DFL:  # under nohup it stays ignored
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _flush() -> None:
    """Write what is left of standard output now: at the interpreter's end nobody could say that it cannot be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        refused = _refusal_of(error)
        _close_output()
        _refuse(None, refused)


def _refuse(ctx: click.Context | None, error: ParityError) -> NoReturn:
    click.echo(str(error), err=True)
    if ctx is not None and ctx.obj:
        try:
            click.echo(envelope(verb_of(ctx), 2, {"error": refusal(error)}))
        except OSError:  # it is standard output that cannot be written
            _close_output()
    sys.exit(2)


def _close_output() -> None:
    """Nothing more goes to standard output, what is left in its buffer neither."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _bug(error: Exception) -> ParityError:
    frames = traceback.extract_tb(error.__traceback__)
    if os.environ.get(TRACEBACK) or {"-v", "--verbose"} & set(sys.argv):
        traceback.print_exception(error)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    try:
        installed = version("qwen3-parity")
    except PackageNotFoundError:
        installed = "from source"
    said = " ".join(str(error).split())[:_LONGEST]
    return ParityError(
        "qwen3-parity",
        "an exception that no command expects; the input need not be at fault, and this is no verdict",
        expected="a verdict, or a refusal that says what is wrong with the input",
        got=f"{type(error).__name__}: {said}{where}",
        next_step=f"report it with the command, its input if you may, version {installed} of qwen3-parity and the "
        f"traceback: run it again with {TRACEBACK}=1",
        fault="harness bug",
    )


def _misused(error: click.UsageError) -> ParityError:
    command = error.ctx.command_path if error.ctx else "qwen3-parity"
    return ParityError(
        command,
        error.format_message(),
        expected=error.ctx.get_usage().removeprefix("Usage: ") if error.ctx else command,
        got="what was typed",
        next_step=f"{command} --help",
    )


def _missing(error: ModuleNotFoundError, extra: str) -> ParityError:
    return ParityError(
        f"the package {error.name}",
        "this command needs what is not installed here",
        expected=f"the extra [{extra}]",
        got=str(error),
        next_step=f"pip install 'qwen3-parity[{extra}]'; qwen3-parity doctor says what runs without it",
    )


def _refused(error: OSError) -> ParityError:
    return ParityError(
        error.filename or "a file",
        "it cannot be read or written",
        expected="a path that may be used and a disk with space",
        got=error.strerror or error,
        next_step="check the path, its permissions and the free space",
    )


@click.group(cls=Program, package=commands.__name__, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="qwen3-parity")
def main() -> None:
    """Compare an implementation of a Qwen3-type transformer, or its tokenizer, with Hugging Face's, tap by tap."""
