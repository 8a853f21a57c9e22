"""What is installed beside the judge's own needs: the extras of pyproject.toml, and which commands run with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

EXTRAS: Mapping[str, Sequence[str]] = {
    "torch": ("torch", "transformers"),
    "reference": ("torch", "transformers", "tokenizers", "huggingface_hub", "accelerate"),
    "conformance": ("hypothesis",),
    "report": ("vl-convert-python",),
}
"""Extra -> what it installs."""
COMMANDS: Mapping[str, str] = {
    "capture": "reference",
    "match-names": "torch",
    "parity": "torch",
    "record": "torch",
    "regenerate": "reference",
    "report": "report",
    "weights initialize": "torch",
}
"""Command -> the extra without which it does not run; every other one needs none."""
OPTIONS: Mapping[str, str] = {"reference": "check --tokenizer", "conformance": "conformance --fresh"}
"""Extra -> an option that needs it, of a command that else runs without."""

MODULES: Mapping[str, str] = {"vl-convert-python": "vl_convert"}
"""Package -> its module, where they have different names."""


@dataclass(frozen=True)
class Extra:
    """An extra, the versions of what it installs (None: not there), and whether it is complete."""

    name: str
    versions: Mapping[str, str | None]

    @property
    def installed(self) -> bool:
        """Whether everything is there."""
        return None not in self.versions.values()


def extras() -> list[Extra]:
    """What is installed of each extra; nothing is imported."""
    return [Extra(name, {package: _version(package) for package in packages}) for name, packages in EXTRAS.items()]


def extra_of(module: str) -> str:
    """The smallest extra that installs a module, empty for one of none."""
    top = module.partition(".")[0]
    modules = {name: [MODULES.get(package, package) for package in packages] for name, packages in EXTRAS.items()}
    return next((name for name, provided in modules.items() if top in provided), "")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
