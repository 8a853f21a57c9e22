"""Published models and their exact numbers, from models.textproto."""

from __future__ import annotations

from functools import cache

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.taps import GOLDEN_ROOT


@cache
def models() -> tuple[pb.Model, ...]:
    """The rows of models.textproto with every field of their config set; raises `ParityError` away from a clone."""
    path = GOLDEN_ROOT / "models.textproto"
    if not path.is_file():
        raise ParityError(
            path,
            "the golden set is not beside the package",
            expected="the folder golden/ of a clone",
            got="a package that was installed without it",
            next_step="install from a clone with pip install --editable",
        )
    rows = tuple(text_format.Parse(path.read_text(encoding="utf-8"), pb.ModelTable()).model)
    for row in rows:
        row.config.layer_types[:] = ["full_attention"] * row.config.num_hidden_layers
    return rows


def model(name: str) -> pb.Model:
    """The model of a name, an own copy at each call; `ParityError` listing the known names when there is none."""
    known = {row.name: row for row in models()}
    if name not in known:
        raise ParityError(
            "models.textproto",
            "no published model has this name",
            expected=" or ".join(known),
            got=name,
            next_step="use one of these names, or the model's own config.json",
        )
    found = pb.Model()
    found.CopyFrom(known[name])
    return found
