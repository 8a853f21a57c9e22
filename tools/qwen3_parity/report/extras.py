"""What is installed beside the judge's own needs: the extras of pyproject.toml, and which commands run with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from qwen3_reference.versions import unsupported

EXTRAS: Mapping[str, Sequence[str]] = {
    "torch": ("torch", "transformers"),
    "reference": ("torch", "transformers", "tokenizers", "huggingface_hub"),
    "large": ("accelerate",),
    "conformance": ("hypothesis",),
}
"""Extra -> what it installs."""
COMMANDS: Mapping[str, str] = {
    "capture": "reference",
    "match-names": "torch",
    "parity": "torch",
    "record": "torch",
    "regenerate": "reference",
    "weights export": "reference",
    "weights initialize": "reference",
}
"""Command -> the extra without which it does not run; every other one needs none."""
OPTIONS: Mapping[str, str] = {
    "reference": "check --tokenizer",
    "conformance": "conformance --fresh",
    "large": "capture --stream",
}
"""Extra -> an option that needs it, of a command that else runs without."""


@dataclass(frozen=True)
class Extra:
    """An extra, the versions of what it installs (None: not there), and whether it is complete."""

    name: str
    versions: Mapping[str, str | None]

    @property
    def lacks(self) -> list[str]:
        """What is not there, or older than the reference runs with: "accelerate", "torch >= 2.13, < 3"."""
        pinned = unsupported if self.name == "reference" else lambda *_: ""
        state = {name: pinned(name, number) if number else name for name, number in self.versions.items()}
        return [lack for lack in state.values() if lack]


def extras() -> list[Extra]:
    """What is installed of each extra; nothing is imported."""
    return [Extra(name, {package: _version(package) for package in packages}) for name, packages in EXTRAS.items()]


def extra_of(module: str) -> str:
    """The smallest extra that installs a module, empty for one of none."""
    top = module.partition(".")[0]
    return next((name for name, packages in EXTRAS.items() if top in packages), "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
