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

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Tensor, pb, read, read_parts, verify_weights, write
from qwen3_golden.probe import probe
from qwen3_parity.checkpoints.export_weights import export_weights
from qwen3_parity.checkpoints.import_weights import import_weights
from qwen3_parity.cli import main
from qwen3_reference.checkpoints.exported import belongs
from qwen3_reference.checkpoints.stored import read_directory

K_PROJ = "model.layers.1.self_attn.k_proj.weight"
V_PROJ = "model.layers.1.self_attn.v_proj.weight"
LAYOUT = f"{K_PROJ} | not laid out as its axes say"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(folder: Path, *words: str) -> None:
    """The command names what is wrong, and nothing is left beside the folder."""
    before = sorted(path.name for path in folder.parent.iterdir())
    result = run("weights", "import", folder, "--out", folder.parent / "out")
    assert result.exit_code == 2 and all(word in result.output for word in words), result.output
    assert "expected:" in result.output and "Traceback" not in result.output
    assert sorted(path.name for path in folder.parent.iterdir()) == before


@pytest.mark.sample(every=4)
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
    assert {tensor.dtype for tensor in read_directory(source).values()} == {CODES[dtype]}
    summary = export_weights(source, tmp_path / "e", "drawn", part_bytes)
    assert any(line.startswith("not finite") for line in summary.remarks)
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
    result = run("weights", "import", exported, "--out", tmp_path / "out")
    assert result.exit_code == 0 and "36 tensors verified" in result.output
    assert read_parts(exported)[0].case.checkpoint[0].sha256.hex() in result.output


def test_a_part_of_another_checkpoint_is_refused(exported: Path, tmp_path: Path) -> None:
    source = shutil.copytree(CHECKPOINTS / "window-encoder", tmp_path / "model")
    weights = source / "model-00002-of-00002.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\x80\x3f")
    export_weights(source, tmp_path / "other", "window-encoder", 60_000)
    shutil.copy(parts_of(tmp_path / "other")[3], parts_of(exported)[3])
    refused(exported, parts_of(exported)[3].name, "of another checkpoint")


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


Change = Callable[[pb.Weights, pb.Case], object]


def of_part(number: int, change: Change) -> Callable[[Path], None]:
    return lambda folder: rewrite(parts_of(folder)[number], change)


def of_every_part(change: Change) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        for part in parts_of(folder):
            rewrite(part, change)

    return spoil


def of_header(old: bytes, new: bytes) -> Callable[[Path], None]:
    """The first listed header that holds `old`, changed."""

    def change(weights: pb.Weights, _case: pb.Case) -> None:
        file = next(file for file in weights.file if old in file.header)
        file.header = file.header.replace(old, new, 1)

    return of_part(0, change)


def exchanged_parts(folder: Path) -> None:
    first, second = parts_of(folder)[:2]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def changed_byte(folder: Path) -> None:
    path = parts_of(folder)[0]
    content = bytearray(path.read_bytes())
    content[content.find(read(path)[NORM, 0].array.tobytes())] ^= 1
    path.write_bytes(content)


def more_layers(_weights: pb.Weights, case: pb.Case) -> None:
    case.config.num_hidden_layers = 1024
    case.config.ClearField("layer_types")


def same_header_twice(weights: pb.Weights, _case: pb.Case) -> None:
    first, second = (file for file in weights.file if file.header)
    second.header = first.header


def changed_file(weights: pb.Weights, _case: pb.Case) -> None:
    weights.file[0].content = weights.file[0].content.replace(b'"qwen3"', b'"qwen3" ')


def laid_out(change: Callable[[Array], Array]) -> Callable[[Path], None]:
    """A matrix laid out otherwise, its digests made right."""
    return lambda folder: everywhere(folder, K_PROJ, lambda item: with_array(item, change(item.array)))


def another_element(folder: Path) -> None:
    def change(item: Tensor) -> Tensor:
        array = item.array.copy()
        array[0, 0] += 1
        return with_array(item, array, probe=probe(array).value)

    everywhere(folder, K_PROJ, change)


def keys_for_values(folder: Path) -> None:
    k, v = (next(part[name, 0] for part in read_parts(folder) if part.get(name)) for name in (K_PROJ, V_PROJ))
    keys, values = k.array.copy(), v.array.copy()
    everywhere(folder, K_PROJ, lambda item: with_array(item, values))
    everywhere(folder, V_PROJ, lambda item: with_array(item, keys))


def turned(item: Tensor) -> Tensor:
    tensor = with_array(item, np.ascontiguousarray(item.array.T))
    tensor.info.axes[:] = ["hidden", "kv_channel"]
    tensor.info.probe = probe(tensor.array).value
    return tensor


def in_two_parts(folder: Path) -> None:
    extra = next(part[K_PROJ, 0] for part in read_parts(folder) if part.get(K_PROJ))
    first = parts_of(folder)[0]
    part = read(first)
    write(first, replace(part, tensors=[*part.tensors, extra]))


def of_k_proj(change: Callable[[Tensor], Tensor | None]) -> Callable[[Path], None]:
    return lambda folder: rewrite(
        holding(folder, K_PROJ), tensors=lambda item: change(item) if item.info.name == K_PROJ else item
    )


def part(number: int) -> str:
    return f"weights-{number:05}-of-00006.pb"


NORM = "model.layers.0.input_layernorm.weight"
PLUMBING = GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb"
SPOILT: list[tuple[Callable[[Path], object], str]] = [
    (lambda f: (f / part(3)).unlink(), f"parts are missing | no {part(3)}"),
    (lambda f: shutil.copy(f / part(1), f / "weights-00001-of-00009.pb"),
        "parts of another checkpoint | weights-00001-of-00009.pb"),
    (exchanged_parts, "the file's name is not its own | part 2 of 6"),
    (lambda f: (f / part(5)).write_bytes((f / part(5)).read_bytes()[:-9]), f"{part(5)} | cut off"),
    (lambda f: shutil.copy(PLUMBING, f / part(3)), "no part of a checkpoint | PLUMBING"),
    (of_part(1, lambda w, c: setattr(w.place[0], "sha256", bytes(32))),
        f"disagree about where tensors are | {part(2)}"),
    (of_every_part(lambda w, c: w.place.append(w.place[0])), "the places are not one for each tensor"),
    (of_part(1, lambda w, c: setattr(c.config, "rope_theta", 5.0)), "disagree about the case"),
    (of_every_part(lambda w, c: setattr(c.config, "rope_theta", 5.0)),
        "configuration is not that of their config.json"),
    (of_every_part(lambda w, c: setattr(c.config, "num_key_value_heads", 3)),
        "its shape disagrees with the configuration | kv_channel"),
    (of_every_part(lambda w, c: setattr(c.config, "use_qk_norm", False)),
        "the network does not have this tensor | q_norm"),
    (of_every_part(more_layers), "a layer without tensors | 1024"),
    (changed_byte, f"{NORM} | is not what was written"),
    (another_element, "the parts do not give the checkpoint that they name"),
    (laid_out(lambda w: np.ascontiguousarray(w.T).reshape(w.shape)), LAYOUT),
    (laid_out(lambda w: np.ascontiguousarray(w.reshape(w.shape[::-1]).T)), LAYOUT),
    (laid_out(lambda w: w[::-1].copy()), LAYOUT),
    (laid_out(lambda w: w.byteswap()), LAYOUT),
    (keys_for_values, LAYOUT),
    (lambda f: everywhere(f, K_PROJ, turned), f"{K_PROJ} | its axes are not those of this tensor"),
    (of_k_proj(lambda item: None), f"{K_PROJ} | are not those of its places"),
    (in_two_parts, f"{part(1)} | {K_PROJ} | are not those of its places"),
    (of_k_proj(lambda item: with_array(item, item.array + 1)), f"{K_PROJ} | not the tensor of its place"),
    (of_part(2, lambda w, c: w.file.add(name="config.json") and None), "only part 1 lists the files"),
    (of_part(0, same_header_twice), "stands in two files"),
    (of_header(b"model.embed_tokens.weight", b"model.embed_tokens.wei9ht"), "model.embed_tokens.wei9ht is in no part"),
    (of_header(b"[20,40]", b"[40,20]"), "not what the file's header says | [40, 20]"),
    (of_header(b"F32", b"I32"), "unknown dtype"),
    (of_part(0, changed_file), "the parts do not give the checkpoint that they name"),
    (of_part(0, lambda w, c: w.file.append(w.file[0])), "a file that cannot be made again | config.json"),
    (of_part(0, lambda w, c: w.file.pop(2) and None), "tensors stand in none of the files"),
]  # fmt: skip
"""What was done to an exported folder, and the words of the refusal."""


@pytest.mark.parametrize(("spoil", "words"), SPOILT)
def test_a_folder_that_was_changed_is_refused_in_words(
    spoil: Callable[[Path], object], words: str, exported: Path
) -> None:
    spoil(exported)
    refused(exported, *words.split(" | "))


def test_a_missing_digest_is_refused(exported: Path) -> None:
    path = holding(exported, K_PROJ)
    part = read(path)
    part[K_PROJ, 0].info.ClearField("sha256")
    with pytest.raises(ParityError, match="has no digest"):
        verify_weights(part)


@pytest.mark.parametrize("name", ["README.md", "config.json", "weights.pb", ".hidden"])
def test_a_file_that_belongs_to_no_exported_checkpoint_is_named(name: str, exported: Path) -> None:
    (exported / name).write_text("?")
    refused(exported, name, "belong to no exported checkpoint")


@pytest.mark.parametrize(
    "name", ["../stolen.safetensors", "/stolen.jinja", "a/b.jinja", "..", ".x.jinja", "run.py", ""]
)
def test_a_file_name_that_leads_out_of_the_folder_is_refused(name: str, exported: Path) -> None:
    assert not belongs(name)
    rewrite(parts_of(exported)[0], lambda weights, case: weights.file.add(name=name, content=b"!") and None)
    refused(exported, "a file that cannot be made again", name)


@pytest.mark.parametrize("kind", ["nothing", "empty", "hugging face"])
def test_a_folder_that_is_no_exported_checkpoint_is_refused(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    if kind == "empty":
        folder.mkdir()
    elif kind == "hugging face":
        shutil.copytree(CHECKPOINTS / "even-window", folder)
    refused(folder, "there is no exported checkpoint here")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_whatever_stands_at_out_is_refused_and_stays(kind: str, exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine = out / "mine" if kind == "folder" else out
    mine.parent.mkdir(exist_ok=True)
    out.symlink_to("nowhere") if kind == "link" else mine.write_text("mine")
    result = run("weights", "import", exported, "--out", out)
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
