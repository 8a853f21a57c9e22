"""The committed checkpoints are the bytes they were, and loud."""

import json
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import ParityError, pb
from qwen3_reference.cases.llama import LLAMA_DEFINITIONS
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.cases.twins import TWINS
from qwen3_reference.checkpoints.classic import CLASSIC_DEFINITIONS
from qwen3_reference.checkpoints.configs import model_config
from qwen3_reference.checkpoints.stored import read_directory
from qwen3_reference.checkpoints.tiny import DEFINITIONS, PAD_ID, TWIN_IDS, draw_tensors, write_checkpoint
from qwen3_reference.checkpoints.weights import checkpoint_message, load_weights

DIGESTS = {
    "tied-encoder": "f864ba54e37640524c1ac6ef6d0fbdc02010934ad70d01522c2f1441c8aadbbf",
    "tied-decoder": "e92ae2c4a30f170b0f4db68869e666a65098e6c7f16365d911894091ffd926c1",
    "window-encoder": "663fd0cad45b75178cfcdb9700d8a235908aa9528417f2cb7badec29c22ffdd9",
    "window-decoder": "fb33ef2fa15aa6e23c267603f947a8dbd0e2277eac07bfb3c0218f8c4154b24c",
    "qwen2-encoder": "215d2fd3942e4f5e0501ea526ec25af8f6bd81d46fc49f103369d196341db46a",
    "qwen2-decoder": "0e28dcaffd34c6b1838a857434ddde6b09ed8b13b7fe2819e20dfe8dbd67d8d4",
    "even-window": "ededf758b9b264d24918e866ddc6a66f726b7dad41a1169f0d7b0f94dcb7263d",
    "deep": "a2c557926b17209be3262f14461540de4d7e554310b657f082468027353cffbf",
    "bfloat16": "a02c4e97e04fbab56b8e5469675de2fa8310652ad614ce4fa05cb8be087549e5",
    "biased": "e24aa2e423c6450e844c9229f186537af25bef756d235951dbd4138cb9bc44ca",
    "multiples-of-256": "2ac1ac2203fb4f9256febb2cf83a4b54e3a6576651fc04995b1c49f5945f892d",
    "head-dim-64": "1d7c853964c9acbc96c204f10a20b3f67f07c79e7d68e145f2d239ab35843a61",
    "qwen3-0.6b": "e22bfcde933f0081cf4917b6ff56351c4b83b07f50aeebc0ceb8d1a888a0c2c8",
    "qwen3-1.7b": "583952685a99cbb27bed7f9e41c11cca68f2f4955eb6d9327b73c7899f24ca96",
    "qwen3-4b": "8defd4fbb102c31527668c21f329eb2abd13cef4e8b98260d79fd8086ae44394",
    "qwen3-4b-2507": "9d61da773d418e50a703343446ba383c37ab30e09595a978480c62c6055f13f8",
    "qwen3-8b": "914c78080c3f606b283292695973fad63fdbef4ec4b0aa8bf774bc309c4f82e1",
    "qwen3-8b-yarn": "06e1f4bfb3b8931916d82718c0162dde00d599045659e4b6212ff14fda9976d5",
    "qwen3-14b": "de007c9fe2b807ba1c8b0f178ece5252fde5261202c98f6dab6850c43f6f69a9",
    "qwen3-32b": "b5a12a9c52ca644dbc5c5a7ea867b4a9de3227af349c612e3d254ff81b2a9826",
    "qwen2.5-0.5b": "4ef555b26ac00da288c9d5738168ca6194af44e9b105d15241f06fae083eccfb",
    "qwen2.5-7b": "7c5dc8641f2a833bf73a7d46567d2a39ad73d2ff7b4b12a495f4feae2a325a8f",
    "yarn-stated": "6df74a2f688fed29ed30f746c29ffab734e5ba82ec3a81b55fff2c07fd79dde8",
    "yarn-mscale": "fdaa69531c26536912f5edcb00048e03173e8954e5931e889c8bf97c66056e5d",
    "generation": "5ec06ef63e02a19df721087111f38a572c6d3b39498a60f5cfeba17d3e92d013",
    "generation-encoder": "08663ff7ef24d3d7c60c9f15f2ba128fbf0fc53b2a84f096d5a3ff8379cdfd10",
    "training-tied": "1dba2771a2b2b91b9a43e6a9c7b1eb4cd17c78eb5e3378c0ac2e243cdaa2c0b1",
    "llama3": "1f2b61ff4be28c2713b9b5559da4b66f8a4f874ef51db0d29baba2b317f7f84e",
    "llama-plain": "a1bf2439471fff4a5b908d48523e573ee7876010f7f40d8fbf673cf88122ba93",
    "training-untied": "3712e234cae6b03a25799f2e7223e21ced93fa0e825b5c93ae7f86603af460e6",
    "qwen3-moe": "b2ca4b2bd249fc8bc54236658cd4582f88ce12654a9de5b1bab164ef2d89bf58",
    "qwen3-moe-dense-layers": "26be847a3d6907995bf2575e2c67316a7cd8ad93aebea86b034604e01a52029d",
    "qwen3-moe-bfloat16": "b7d1aa8afd8a77d1a8dec5adc6d619ff1d8577911fb4987ffa6f6284e77a994d",
    "qwen3-pooled": "f928918318e4961ddc5d87ab5418761a5ce2c0fbd1d29b1b51182c0334768751",
    "qwen3-next": "dbf502ed3b91962db3f775694ec97d17d18f4a72960e0044e1a0e5119625ce9c",
    "qwen3.5": "a9ed7c4e42d8f6184d54aea6911d4a1038295a90ab9d6d71974b2fa4530231cc",
    "qwen3.5-moe": "0763545fb043917f219ae161ca8c8a65a606676f963da69f0e0f31a5e7a2ae97",
    "gpt-oss": "714df726a9ebde464da9ca3a3b0d96cd702d89b32fa8fb31d6dbde165118d1b1",
    "gemma3": "d05e9794093118d87fad450f6617af99971d846afcc4677683268dffd7f8794b",
}
NAMES = [definition.name for definition in (*DEFINITIONS, *TWINS, *LLAMA_DEFINITIONS)]
MODELS = sorted({case.checkpoint for case in MODEL_CASES})


@pytest.mark.parametrize("name", [*NAMES, *MODELS])
def test_a_committed_checkpoint_has_the_bytes_that_goldens_hang_on(checkpoints: Path, name: str) -> None:
    assert checkpoint_message("decoder", checkpoints / name, name).sha256.hex() == DIGESTS[name]


def test_no_checkpoint_is_committed_without_a_definition(checkpoints: Path) -> None:
    names = [*NAMES, *MODELS, *(definition.name for definition in CLASSIC_DEFINITIONS)]
    assert sorted(path.name for path in checkpoints.iterdir()) == sorted(names)


def test_an_existing_checkpoint_is_never_drawn_again(tmp_path: Path) -> None:
    write_checkpoint(DEFINITIONS[0], tmp_path / "once")
    with pytest.raises(ParityError, match="never drawn again"):
        write_checkpoint(DEFINITIONS[0], tmp_path / "once")


def test_a_seed_draws_the_same_twice_and_another_seed_something_else() -> None:
    first, again = (draw_tensors(DEFINITIONS[0]) for _ in range(2))
    other = draw_tensors(DEFINITIONS[1])
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["model.norm.weight"], other["model.norm.weight"])


@pytest.mark.parametrize("name", NAMES)
def test_two_head_rows_are_twins_and_the_padding_rows_are_large(checkpoints: Path, name: str) -> None:
    weights = load_weights(None, checkpoints / name)
    head, embedding = weights["lm_head.weight"], weights["decoder.embed_tokens.weight"]
    assert np.array_equal(*head[list(TWIN_IDS)])
    size = np.sqrt(np.mean(embedding**2, axis=1))
    assert size[-4:].min() > 1.5 * np.median(size)
    assert size[PAD_ID] > 1.5 * np.median(size)
    assert size.min() < 1e-3


def test_the_set_has_every_kind_of_checkpoint(checkpoints: Path) -> None:
    configs = {definition.name: model_config(checkpoints / definition.name) for definition in DEFINITIONS}
    assert {c.model_type for c in configs.values()} == {"qwen3", "qwen2"}
    assert {c.tie_word_embeddings for c in configs.values()} == {True, False}
    assert {c.sliding_window % 2 for c in configs.values() if c.sliding_window} == {0, 1}
    assert max(c.num_hidden_layers for c in configs.values()) >= 12
    assert min(c.max_position_embeddings for c in configs.values()) < 17
    assert {1e-6, 3e-3} <= {c.rms_norm_eps for c in configs.values()}
    assert {(c.attention_bias, c.attention_out_bias) for c in configs.values()} == {(0, 0), (1, 0), (1, 1)}
    assert not {c.rope_theta for c in configs.values()} & {1e4, 1e6}
    assert len(list((checkpoints / "window-encoder").glob("*.safetensors"))) == 2
    assert {t.dtype for t in read_directory(checkpoints / "bfloat16").values()} == {pb.BF16}


def test_a_checkpoint_states_a_window_and_dropout_that_must_have_no_effect(checkpoints: Path) -> None:
    stated = json.loads((checkpoints / "biased" / "config.json").read_text(encoding="utf-8"))
    assert stated["attention_dropout"] > 0 and stated["sliding_window"] and not stated["use_sliding_window"]
    assert stated["max_window_layers"] < stated["num_hidden_layers"]  # a window that is not ignored has a layer
    config = model_config(checkpoints / "biased")
    assert not config.sliding_window and set(config.layer_types) == {"full_attention"}
