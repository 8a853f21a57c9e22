"""Dumps by hooks, and what becomes of a dump."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner, Result
from torch import nn

import qwen3_parity
from qwen3_parity.cli import main

Tensors = dict[str, torch.Tensor]


def hooked(model: nn.Module, run: Callable[[], Any]) -> list[Tensors]:
    """What goes into each module ("PATH:input") and comes out of it ("PATH"), a dict for each forward."""
    forwards, undo = list[Tensors](), []

    def hook(path: str) -> Callable[..., None]:
        def keep(_: Any, args: Any, result: Any) -> None:
            if path:
                for name, value in ((f"{path}:input", args[0] if args else None), (path, result)):
                    if isinstance(value, torch.Tensor) and value.is_floating_point():
                        forwards[-1][name] = value.clone()

        return keep

    undo.append(model.register_forward_pre_hook(lambda *_: forwards.append({})))
    undo += [module.register_forward_hook(hook(path)) for path, module in model.named_modules()]
    run()
    for one in undo:
        one.remove()
    return forwards


def arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """As NumPy's."""
    return {name: value.numpy() for name, value in tensors.items()}


def imported(dump: Path, *options: str, golden: str = "decoder/plain") -> Result:
    """`dump import` on a case, into candidate.pb beside the dump."""
    out = str(dump.parent / "candidate.pb")
    return CliRunner().invoke(main, ["dump", "import", golden, str(dump), "--out", out, *options])


def verdict(dump: Path, *options: str, golden: str = "decoder/plain") -> qwen3_parity.Verdicts:
    """What is said of a dump that can be imported."""
    result = imported(dump, *options, golden=golden)
    assert result.exit_code == 0, result.output
    return qwen3_parity.check(qwen3_parity.golden(golden), dump.parent / "candidate.pb")
