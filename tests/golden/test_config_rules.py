"""The numbers of a recording's network are those of one that can be: otherwise its reader says which field, and why."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, pb, read, write

GOLDEN = read(GOLDEN_ROOT / "cases" / "decoder" / "plain.pb")
Change = Callable[[pb.ModelConfig], object]


def setting(name: str, value: object) -> Change:
    return lambda config: setattr(config, name, value)


def layer_types(*kinds: str) -> Change:
    return lambda config: (config.ClearField("layer_types"), config.layer_types.extend(kinds))


IMPOSSIBLE: dict[str, Change] = {
    "num_hidden_layers": setting("num_hidden_layers", 10**9),
    "num_hidden_layers ": setting("num_hidden_layers", 0),
    "hidden_size": setting("hidden_size", 0),
    "head_dim": setting("head_dim", 0),
    "head_dim ": setting("head_dim", 3),
    "num_key_value_heads": setting("num_key_value_heads", 0),
    "num_key_value_heads ": setting("num_key_value_heads", 4),
    "num_attention_heads": setting("num_attention_heads", 10**9),
    "rope_theta": setting("rope_theta", math.nan),
    "rope_theta ": setting("rope_theta", 0.0),
    "rms_norm_eps": setting("rms_norm_eps", math.inf),
    "hidden_act": setting("hidden_act", "boom"),
    "layer_types": layer_types("full_attention"),
    "layer_types ": layer_types("full_attention", "diagonal", "full_attention"),
    "sliding_window": layer_types("sliding_attention", "full_attention", "full_attention"),
}


@pytest.mark.parametrize("field", IMPOSSIBLE)
def test_a_network_that_cannot_be_is_refused_by_its_field(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = pb.Case()
    case.CopyFrom(GOLDEN.case)
    IMPOSSIBLE[field](case.config)
    path = tmp_path / "x.pb"
    with pytest.raises(ParityError, match=f"case.config.{field.strip()}:"):
        write(path, Recording(case, GOLDEN.provenance, GOLDEN.run, [], parameters=GOLDEN.parameters))
    monkeypatch.setattr("qwen3_golden.writer.check_metadata", lambda *_: None)
    write(path, Recording(case, GOLDEN.provenance, GOLDEN.run, [], parameters=GOLDEN.parameters))
    with pytest.raises(ParityError, match=f"case.config.{field.strip()}:"):
        read(path)
