"""Published models and their exact numbers, from models.textproto."""

from __future__ import annotations

from functools import cache

from google.protobuf import text_format

from qwen3_golden import golden_pb2 as pb
from qwen3_golden.errors import ParityError
from qwen3_golden.taps import committed_text


@cache
def models() -> tuple[pb.Model, ...]:
    """The rows of models.textproto with every field of their config set; raises `ParityError` away from a clone."""
    rows = tuple(text_format.Parse(committed_text("models.textproto"), pb.ModelTable()).model)
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
    message = pb.Model()
    message.CopyFrom(known[name])
    return message
