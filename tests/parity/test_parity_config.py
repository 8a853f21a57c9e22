"""Before any number is computed: our configuration, read from a checkpoint, says what the golden's case says."""

from __future__ import annotations

from pathlib import Path

import pytest

from committed import committed
from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity.checkpoints.weights import checkpoint_directories
from qwen3_parity.recording.ours.network import EncoderDecoder, factory, golden_dtype
from qwen3_parity.recording.suite import goldens

CASES = [path for path in goldens() if committed(path).case.mode not in (pb.OP, pb.CLASSIC_ENCODER)]
FIELDS = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim"),
    *("num_key_value_heads", "rms_norm_eps", "max_position_embeddings", "hidden_act", "attention_bias"),
    *("attention_out_bias", "use_qk_norm", "tie_word_embeddings", "rotate_encoder_keys"),
)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_our_configuration_is_the_cases(path: Path) -> None:
    golden = read(path)
    expected = golden.case.config
    directories = checkpoint_directories(golden.case, GOLDEN_ROOT / "checkpoints")
    runner = factory(dtype=golden_dtype(golden))(golden.case, directories)
    assert isinstance(runner, EncoderDecoder)
    config = runner.model.config
    assert {name: getattr(config, name) for name in FIELDS} == {name: getattr(expected, name) for name in FIELDS}
    assert config.rope_parameters["rope_theta"] == expected.rope_theta
    windows = [config.window(kind) or 0 for kind in config.layer_types]
    sliding = [kind == "sliding_attention" for kind in expected.layer_types]
    assert windows == [expected.sliding_window if windowed else 0 for windowed in sliding]
