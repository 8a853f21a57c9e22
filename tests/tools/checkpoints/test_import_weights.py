"""An exported checkpoint becomes its Hugging Face directory again, byte for byte, or is refused."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from parts_on_disk import CHECKPOINTS, CODES, COMMITTED, parts_of, rewrite, with_array

from qwen3_golden import GOLDEN_ROOT, ParityError, Tensor, pb, read, read_parts, verify_weights, write
from qwen3_golden.probe import probe
from qwen3_parity.checkpoints.export_weights import export_weights
from qwen3_parity.checkpoints.import_weights import import_weights
from qwen3_parity.cli import main
from qwen3_reference.checkpoints.exported import belongs
from qwen3_reference.checkpoints.stored import read_directory

K_PROJ = "model.layers.1.self_attn.k_proj.weight"
V_PROJ = "model.layers.1.self_attn.v_proj.weight"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(folder: Path, *words: str) -> None:
    """The command names what is wrong, and nothing is left beside the folder."""
    before = sorted(path.name for path in folder.parent.iterdir())
    result = run("import", folder, "--out", folder.parent / "out")
    assert result.exit_code == 2 and all(word in result.output for word in words), result.output
    assert "expected:" in result.output and "Traceback" not in result.output
    assert sorted(path.name for path in folder.parent.iterdir()) == before


@pytest.mark.parametrize("name", COMMITTED)
def test_a_committed_checkpoint_comes_back_byte_for_byte(
    name: str, committed_export: Callable[[str], Path], tmp_path: Path
) -> None:
    import_weights(committed_export(name), tmp_path / "again")
    assert bytes_of(tmp_path / "again") == bytes_of(CHECKPOINTS / name)


@pytest.mark.parametrize("part_bytes", [20_000, (1 << 31) - 1])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_any_bits_come_back_byte_for_byte(
    dtype: str, shards: int, part_bytes: int, drawn: Callable[[str, int], Path], tmp_path: Path
) -> None:
    source = drawn(dtype, shards)
    assert {one.dtype for one in read_directory(source).values()} == {CODES[dtype]}
    made = export_weights(source, tmp_path / "e", "drawn", part_bytes)
    assert any(line.startswith("not finite") for line in made.remarks)
    import_weights(tmp_path / "e", tmp_path / "again")
    assert bytes_of(tmp_path / "again") == bytes_of(source)


def test_a_tokenizer_and_a_generation_config_come_back_too(tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "tied-decoder", tmp_path / "model")
    shutil.copytree(GOLDEN_ROOT / "tokenizers" / "tiny", source, dirs_exist_ok=True)
    (source / "generation_config.json").write_bytes(b'{ "eos_token_id":\r\n 1 }')
    (source / "chat_template.jinja").write_bytes("{{ 'é' }}\n".encode())
    left_out = export_weights(source, tmp_path / "e", "x").left_out
    import_weights(tmp_path / "e", tmp_path / "again")
    assert bytes_of(tmp_path / "again") == {n: b for n, b in bytes_of(source).items() if n not in left_out}
    assert {"generation_config.json", "chat_template.jinja", "tokenizer.json"} <= bytes_of(tmp_path / "again").keys()


def test_a_checkpoint_made_by_somebody_else_comes_back(tmp_path: Path, data: Path) -> None:
    source = data / "tiny-qwen3"
    left_out = export_weights(source, tmp_path / "e", "tiny").left_out
    import_weights(tmp_path / "e", tmp_path / "again")
    assert bytes_of(tmp_path / "again") == {n: b for n, b in bytes_of(source).items() if n not in left_out}


def test_the_command_says_what_it_wrote(exported: Path, tmp_path: Path) -> None:
    result = run("import", exported, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "36 tensors verified" in result.output
    assert read_parts(exported)[0].case.checkpoint[0].sha256.hex() in result.output


def test_a_missing_part_is_named(exported: Path) -> None:
    lost = parts_of(exported)[2]
    lost.unlink()
    refused(exported, "parts are missing", f"no {lost.name}")


def test_a_part_of_another_count_is_named(exported: Path) -> None:
    shutil.copy(parts_of(exported)[0], exported / "weights-00001-of-00009.pb")
    refused(exported, "parts of another checkpoint", "weights-00001-of-00009.pb")


def test_an_exchanged_pair_of_parts_is_refused(exported: Path) -> None:
    one, two = parts_of(exported)[:2]
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    refused(exported, "the file's name is not its own", "part 2 of 6")


def test_a_part_of_another_checkpoint_is_refused(exported: Path, tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "window-encoder", tmp_path / "model")
    weights = source / "model-00002-of-00002.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    export_weights(source, tmp_path / "other", "window-encoder", 60_000)
    shutil.copy(parts_of(tmp_path / "other")[3], parts_of(exported)[3])
    refused(exported, parts_of(exported)[3].name, "of another checkpoint")


def test_parts_that_disagree_about_places_are_refused(exported: Path) -> None:
    rewrite(parts_of(exported)[1], lambda weights, case: setattr(weights.place[0], "sha256", bytes(32)))
    refused(exported, "disagree about where tensors are", parts_of(exported)[1].name)


def test_a_tensor_with_two_places_is_refused(exported: Path) -> None:
    for part in parts_of(exported):
        rewrite(part, lambda weights, case: weights.place.append(weights.place[0]))
    refused(exported, "the places are not one for each tensor")


def test_parts_that_disagree_about_the_configuration_are_refused(exported: Path) -> None:
    rewrite(parts_of(exported)[1], lambda weights, case: setattr(case.config, "rope_theta", 5.0))
    refused(exported, "disagree about the case")


def test_a_changed_byte_of_a_tensor_is_refused(exported: Path) -> None:
    path = parts_of(exported)[0]
    name, content = "model.layers.0.input_layernorm.weight", bytearray(path.read_bytes())
    at = content.find(read(path)[name, 0].array.tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    refused(exported, name, "is not what was written")


def holding(folder: Path, name: str) -> Path:
    return next(Path(part.source) for part in read_parts(folder) if part.get(name) is not None)


def everywhere(folder: Path, name: str, change: Callable[[Tensor], Tensor]) -> None:
    """Change a tensor and its digest in every place, so that only its layout or the whole can tell."""
    path = holding(folder, name)
    new = change(read(path)[name, 0])
    rewrite(path, tensors=lambda item: new if item.info.name == name else item)
    digest = bytes(read(path)[name, 0].info.sha256)
    for part in parts_of(folder):
        rewrite(part, lambda weights, case: [setattr(p, "sha256", digest) for p in weights.place if p.name == name])


def test_a_changed_tensor_with_all_digests_made_right_is_not_the_checkpoint_any_more(exported: Path) -> None:
    def change(item: Tensor) -> Tensor:
        array = item.array.copy()
        array[0, 0] += 1
        return with_array(item, array, probe=probe(array).value)

    everywhere(exported, K_PROJ, change)
    refused(exported, "the parts do not give the checkpoint that they name")


@pytest.mark.parametrize("layout", ["transposed bytes", "read as [in, out]", "rows in reverse", "bytes exchanged"])
def test_a_matrix_that_is_laid_out_otherwise_is_refused_by_its_probe_though_digests_agree(
    layout: str, exported: Path
) -> None:
    changes = {
        "transposed bytes": lambda w: np.ascontiguousarray(w.T).reshape(w.shape),
        "read as [in, out]": lambda w: np.ascontiguousarray(w.reshape(w.shape[::-1]).T),
        "rows in reverse": lambda w: w[::-1].copy(),
        "bytes exchanged": lambda w: w.byteswap(),
    }
    everywhere(exported, K_PROJ, lambda item: with_array(item, changes[layout](item.array)))
    refused(exported, K_PROJ, "not laid out as its axes say")


def test_keys_and_values_that_were_exchanged_are_refused_by_their_probes(exported: Path) -> None:
    k, v = (next(part[name, 0] for part in read_parts(exported) if part.get(name)) for name in (K_PROJ, V_PROJ))
    one, two = k.array.copy(), v.array.copy()
    everywhere(exported, K_PROJ, lambda item: with_array(item, two))
    everywhere(exported, V_PROJ, lambda item: with_array(item, one))
    refused(exported, K_PROJ, "not laid out as its axes say")


def test_a_matrix_with_its_axes_exchanged_is_refused(exported: Path) -> None:
    def turn(item: Tensor) -> Tensor:
        turned = with_array(item, np.ascontiguousarray(item.array.T))
        turned.info.axes[:] = ["hidden", "kv_channel"]
        turned.info.probe = probe(turned.array).value
        return turned

    everywhere(exported, K_PROJ, turn)
    refused(exported, K_PROJ, "its axes are not those of this tensor")


def test_a_shape_that_disagrees_with_the_configuration_is_refused(exported: Path) -> None:
    for part in parts_of(exported):
        rewrite(part, lambda weights, case: setattr(case.config, "num_key_value_heads", 3))
    refused(exported, "its shape disagrees with the configuration", "kv_channel")


def test_a_tensor_that_left_its_part_is_named(exported: Path) -> None:
    rewrite(holding(exported, K_PROJ), tensors=lambda item: None if item.info.name == K_PROJ else item)
    refused(exported, K_PROJ, "are not those of its places")


def test_a_tensor_that_stands_in_two_parts_is_named(exported: Path) -> None:
    extra = next(part[K_PROJ, 0] for part in read_parts(exported) if part.get(K_PROJ))
    first = parts_of(exported)[0]
    part = read(first)
    write(first, replace(part, tensors=[*part.tensors, extra]))
    refused(exported, first.name, K_PROJ, "are not those of its places")


def test_a_tensor_with_a_digest_that_its_place_does_not_have_is_named(exported: Path) -> None:
    rewrite(
        holding(exported, K_PROJ),
        tensors=lambda item: with_array(item, item.array + 1) if item.info.name == K_PROJ else item,
    )
    refused(exported, K_PROJ, "not the tensor of its place")


def test_files_in_another_part_than_the_first_are_refused(exported: Path) -> None:
    rewrite(parts_of(exported)[2], lambda weights, case: weights.file.add(name="config.json") and None)
    refused(exported, "only part 1 lists the files")


def test_a_tensor_of_another_network_is_named(exported: Path) -> None:
    for part in parts_of(exported):
        rewrite(part, lambda weights, case: setattr(case.config, "use_qk_norm", False))
    refused(exported, "the network does not have this tensor", "q_norm")


def test_a_configuration_of_more_layers_than_there_are_tensors_is_refused(exported: Path) -> None:
    def change(_weights: pb.Weights, case: pb.Case) -> None:
        case.config.num_hidden_layers = 1024
        case.config.ClearField("layer_types")

    for part in parts_of(exported):
        rewrite(part, change)
    refused(exported, "a layer without tensors", "1024")


def test_a_tensor_in_two_source_files_is_named(exported: Path) -> None:
    def change(weights: pb.Weights, case: pb.Case) -> None:
        one, two = (file for file in weights.file if file.header)
        two.header = one.header

    rewrite(parts_of(exported)[0], change)
    refused(exported, "stands in two files")


def test_a_source_file_of_a_tensor_that_no_part_has_is_refused(exported: Path) -> None:
    def change(weights: pb.Weights, case: pb.Case) -> None:
        file = next(file for file in weights.file if file.header)
        file.header = file.header.replace(b"model.embed_tokens.weight", b"model.embed_tokens.wei9ht")

    rewrite(parts_of(exported)[0], change)
    refused(exported, "model.embed_tokens.wei9ht is in no part")


def test_a_source_file_with_another_shape_is_refused(exported: Path) -> None:
    def change(weights: pb.Weights, case: pb.Case) -> None:
        file = next(file for file in weights.file if b"k_proj" in file.header)
        file.header = file.header.replace(b"[20,40]", b"[40,20]")

    rewrite(parts_of(exported)[0], change)
    refused(exported, "not what the file's header says", "[40, 20]")


def test_a_missing_digest_is_refused(exported: Path) -> None:
    path = holding(exported, K_PROJ)
    part = read(path)
    part[K_PROJ, 0].info.ClearField("sha256")
    with pytest.raises(ParityError, match="has no digest"):
        verify_weights(part)


def test_a_configuration_that_is_not_that_of_config_json_is_refused(exported: Path) -> None:
    for part in parts_of(exported):
        rewrite(part, lambda weights, case: setattr(case.config, "rope_theta", 5.0))
    refused(exported, "configuration is not that of their config.json")


@pytest.mark.parametrize("name", ["README.md", "config.json", "weights.pb", ".hidden"])
def test_a_file_that_belongs_to_no_exported_checkpoint_is_named(name: str, exported: Path) -> None:
    (exported / name).write_text("?")
    refused(exported, name, "belong to no exported checkpoint")


def test_a_file_of_the_source_that_was_changed_is_refused(exported: Path) -> None:
    def change(weights: pb.Weights, case: pb.Case) -> None:
        weights.file[0].content = weights.file[0].content.replace(b'"qwen3"', b'"qwen3" ')

    rewrite(parts_of(exported)[0], change)
    refused(exported, "the parts do not give the checkpoint that they name")


def test_a_header_that_disagrees_with_the_tensors_is_refused(exported: Path) -> None:
    def change(weights: pb.Weights, case: pb.Case) -> None:
        file = next(file for file in weights.file if file.header)
        file.header = file.header.replace(b"F32", b"I32", 1)

    rewrite(parts_of(exported)[0], change)
    refused(exported, "unknown dtype")


@pytest.mark.parametrize(
    "name", ["../stolen.safetensors", "/stolen.jinja", "a/b.jinja", "..", ".x.jinja", "run.py", ""]
)
def test_a_file_name_that_leads_out_of_the_folder_is_refused(name: str, exported: Path) -> None:
    assert not belongs(name)
    rewrite(parts_of(exported)[0], lambda weights, case: weights.file.add(name=name, content=b"!") and None)
    refused(exported, "a file that cannot be made again", name)


def test_a_source_file_that_is_listed_twice_is_refused(exported: Path) -> None:
    rewrite(parts_of(exported)[0], lambda weights, case: weights.file.append(weights.file[0]))
    refused(exported, "a file that cannot be made again", "config.json")


def test_a_weight_file_that_is_not_listed_leaves_tensors_without_one(exported: Path) -> None:
    rewrite(parts_of(exported)[0], lambda weights, case: weights.file.pop(2) and None)
    refused(exported, "tensors stand in none of the files")


def test_a_part_that_was_cut_off_is_refused(exported: Path) -> None:
    path = parts_of(exported)[4]
    path.write_bytes(path.read_bytes()[:-9])
    refused(exported, path.name, "cut off")


def test_a_recording_of_a_run_among_the_parts_is_refused(exported: Path) -> None:
    shutil.copy(GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb", parts_of(exported)[2])
    refused(exported, "no part of a checkpoint", "PLUMBING")


@pytest.mark.parametrize("what", ["nothing", "empty", "hugging face"])
def test_a_folder_that_is_no_exported_checkpoint_is_refused(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    if what == "empty":
        folder.mkdir()
    elif what == "hugging face":
        shutil.copytree(CHECKPOINTS / "even-window", folder)
    refused(folder, "there is no exported checkpoint here")


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_whatever_stands_at_out_is_refused_and_stays(what: str, exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    kept = out / "mine" if what == "folder" else out
    kept.parent.mkdir(exist_ok=True)
    out.symlink_to("nowhere") if what == "link" else kept.write_text("mine")
    result = run("import", exported, "--out", out)
    assert result.exit_code == 2 and "there is something here already" in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "out"]


def test_a_disk_that_fills_up_leaves_nothing(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def full(file: int) -> None:
        synced.append(file)
        if len(synced) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    refused(exported, "No space left")
    assert len(synced) == 2
