"""The schema and what was generated from it."""

import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from qwen3_golden import GOLDEN_ROOT, golden_pb2, pb

GENERATED = ("golden_pb2.py", "golden_pb2.pyi")


def test_the_committed_module_is_of_the_schema(tmp_path: Path) -> None:
    described, well_known = tmp_path / "golden.descriptor", str(resources.files("grpc_tools") / "_proto")
    arguments = [f"-I{GOLDEN_ROOT}", f"-I{well_known}", f"--descriptor_set_out={described}"]
    assert protoc.main(["protoc", *arguments, str(GOLDEN_ROOT / "golden.proto")]) == 0
    schema, committed = FileDescriptorSet.FromString(described.read_bytes()).file[0], FileDescriptorProto()
    golden_pb2.DESCRIPTOR.CopyToProto(committed)
    for message in (message for file in (schema, committed) for message in file.message_type):
        for field in (field for nested in (message, *message.nested_type) for field in nested.field):
            field.ClearField("json_name")  # a descriptor set says what the language would say itself
    assert committed == schema


def test_no_version_of_the_runtime_is_asked_for_by_the_committed_module() -> None:
    source = (GOLDEN_ROOT / "qwen3_golden" / "golden_pb2.py").read_text(encoding="utf-8")
    assert "# Protobuf Python Version: 5.26.1\n" in source and "runtime_version" not in source


@pytest.mark.slow
def test_the_committed_module_is_what_the_oldest_protoc_generates(tmp_path: Path) -> None:
    done = subprocess.run(["make", "schema", f"SCHEMA={tmp_path}"], cwd=GOLDEN_ROOT.parent, capture_output=True)
    if done.returncode:
        pytest.skip(f"no environment with the oldest protoc: {done.stderr.decode().strip()[-200:]}")
    for name in GENERATED:
        committed = GOLDEN_ROOT / "qwen3_golden" / name
        assert committed.read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8")


def test_the_metadata_fields_fit_one_byte_heads_in_the_order_of_the_file() -> None:
    fields = golden_pb2.DESCRIPTOR.message_types_by_name["Recording"].fields
    assert [field.name for field in fields] == [
        *(
            "header",
            "padding",
            "payload",
            "provenance",
            "case",
            "run",
            "parameter",
            "tensor",
            "tokenization",
            "weights",
            "graph",
            "end",
        ),
    ]
    numbers = [field.number for field in fields]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 15


@pytest.mark.parametrize("enum", [pb.DType, pb.Mode, pb.Tier, pb.Arithmetic, pb.Backend])
def test_zero_means_unspecified_in_every_enum(enum: type[pb.DType]) -> None:
    assert enum.Name(0).endswith("_UNSPECIFIED")


@pytest.mark.parametrize("language", ["cpp", "csharp", "java", "kotlin", "objc", "php", "ruby"])
@pytest.mark.skipif(shutil.which("protoc") is None, reason="apt-get install protobuf-compiler")
def test_every_generator_of_protoc_takes_the_schema_as_it_is(language: str, tmp_path: Path) -> None:
    arguments = ["protoc", f"-I{GOLDEN_ROOT}", f"--{language}_out={tmp_path}", "golden.proto"]
    assert subprocess.run(arguments, capture_output=True, text=True, check=False).stderr == ""
    assert any(tmp_path.rglob("*"))


@pytest.mark.parametrize("option", ["java_package", "go_package", "csharp_namespace"])
def test_languages_that_want_a_package_of_their_own_have_one(option: str) -> None:
    assert getattr(golden_pb2.DESCRIPTOR.GetOptions(), option)
