"""The floors of the house: who may import whom, and what the files may look like. Read from the source, never run."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOMES = {
    "qwen3_golden": "golden",
    "qwen3_spec": "reference",
    "qwen3_reference": "reference",
    "qwen3_encdec": "impl",
    "qwen3_parity": "tools",
}
# What each package may import beside the standard library and itself.
ALLOWED = {
    "qwen3_golden": {"numpy", "google"},
    "qwen3_spec": {"numpy"},
    "qwen3_reference": {
        "numpy",
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
        "accelerate",
        "qwen3_golden",
        "qwen3_spec",
    },
    "qwen3_encdec": {"torch", "transformers", "safetensors", "huggingface_hub", "jinja2"},
    "qwen3_parity": {
        *(
            "numpy",
            "google",
            "torch",
            "transformers",
            "safetensors",
            "huggingface_hub",
            "click",
            "rich",
            "jinja2",
            "threadpoolctl",
            "pytest",
        ),
        *("qwen3_golden", "qwen3_spec", "qwen3_reference", "qwen3_encdec"),
    },
}
# Hugging Face's own network, its mask builders and its RoPE variants: the reference's alone.
HF_NETWORK = re.compile(
    r"transformers\.(models(?!\.auto\b)|masking_utils|modeling_rope_utils|modeling_attn_mask_utils)"
)
NETWORK_NAMES = re.compile(
    r"Qwen2|Qwen3(?!EncoderDecoder)|T5Gemma|create_.*mask|ROPE_INIT_FUNCTIONS|dynamic_rope_update"
)
PACKAGES = sorted(HOMES)


def sources(package: str) -> list[Path]:
    return sorted(p for p in (ROOT / HOMES[package] / package).rglob("*.py") if p.name != "golden_pb2.py")


def imports(path: Path) -> Iterator[str]:
    """Every imported module as a dotted name, `from m import n` as m.n; also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:  # a relative import stays inside its package
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            assert node.level < 2, f"{path}: an import from above the package"


def tracked() -> list[Path]:
    """The files that are committed or about to be."""
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in out.stdout.splitlines() if (ROOT / line).is_file()]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_its_floor_allows(package: str) -> None:
    allowed = ALLOWED[package] | {package} | sys.stdlib_module_names
    wrong = [f"{p.name}: {m}" for p in sources(package) for m in imports(p) if m.split(".")[0] not in allowed]
    assert not wrong


@pytest.mark.parametrize("package", sorted(set(PACKAGES) - {"qwen3_reference"}))
def test_only_the_reference_imports_hugging_faces_network(package: str) -> None:
    wrong = [
        f"{p.name}: {m}"
        for p in sources(package)
        for m in imports(p)
        if HF_NETWORK.match(m) or (m.startswith("transformers.") and NETWORK_NAMES.match(m.rsplit(".", 1)[-1]))
    ]
    assert not wrong


def test_the_independent_tokenizer_shares_no_code_with_anybodys() -> None:
    folder = ROOT / "impl" / "qwen3_encdec" / "tokenizer"
    allowed = sys.stdlib_module_names | {"jinja2", "qwen3_encdec"}
    found = [f"{p.name}: {m}" for p in folder.glob("*.py") for m in imports(p) if m.split(".")[0] not in allowed]
    assert folder.is_dir() and not found
    assert not [
        p.name for p in folder.glob("*.py") if re.search(r"from \.\.|qwen3_encdec\.(?!tokenizer)", p.read_text())
    ]


SEEDED, SOUGHT = ("mutants", "mechanical"), ("hypotheses", "fits", "blame", "diagnosis")
PLUGGED_IN = {"judged.py", "run.py", "isolated.py"}
"""Where the judge is handed what was seeded."""


@pytest.mark.parametrize(
    ("folders", "others"),
    [(SEEDED, (*SOUGHT[:2], "qwen3_spec")), (("honest",), SOUGHT[:2]), (SOUGHT, (*SEEDED, "honest"))],
)
def test_what_is_seeded_and_what_is_sought_share_no_code(folders: tuple[str, ...], others: tuple[str, ...]) -> None:
    forbidden = re.compile(rf"(qwen3_parity\.)?({'|'.join(others)})(\.|$)")
    files = [p for folder in folders for p in (ROOT / "tools" / "qwen3_parity" / folder).glob("*.py")]
    wrong = [f"{p.parent.name}/{p.name}: {m}" for p in files for m in imports(p) if forbidden.match(m)]
    assert files and not [line for line in wrong if line.split("/")[1].split(":")[0] not in PLUGGED_IN]


def test_seeded_and_sought_mistakes_of_tokenizers_share_no_code() -> None:
    folder = ROOT / "tools" / "qwen3_parity" / "tokenization"
    sought = re.compile(r"qwen3_parity\.tokenization\.(hypotheses|blame|diagnose|stages_of|oracle|pages)(\.|$)")
    seeded = re.compile(r"qwen3_parity\.(tokenization\.)?mutants(\.|$)")
    seekers = [
        *folder.glob("hypotheses/*.py"),
        *(folder / f"{n}.py" for n in ("blame", "diagnose", "stages_of", "oracle")),
    ]
    wrong = [(p.name, m) for p in folder.glob("mutants/*.py") for m in imports(p) if sought.match(m)]
    wrong += [(p.name, m) for p in seekers for m in imports(p) if seeded.match(m)]
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_unpickled(package: str) -> None:
    unsafe = re.compile(r"\b(pickle|torch\.load|allow_pickle\s*=\s*True|joblib|marshal)\b")
    assert not [p.name for p in sources(package) if unsafe.search(p.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_file_holds_one_idea(package: str) -> None:
    assert not [p.name for p in sources(package) if len(p.read_text(encoding="utf-8").splitlines()) > 250]


@pytest.mark.parametrize("folder", ["golden", "impl", "reference", "tools"])
def test_code_lives_in_packages_never_loose_in_a_floor(folder: str) -> None:
    assert not list((ROOT / folder).glob("*.py"))


def test_basenames_of_tests_are_unique() -> None:
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def test_no_file_names_the_machine_it_was_written_on() -> None:
    # spelled in pieces, so that this file does not name them either
    places = re.compile(
        "|".join(("/" + "work/", "/" + "root/", "/" + "home/", r"/" + r"tmp/(?!\W)", r"/\." + "library"))
    )
    text = [p for p in tracked() if p.suffix in {".py", ".md", ".toml", ".proto", ".textproto", ".json", ""}]
    wrong = [str(p.relative_to(ROOT)) for p in text if places.search(p.read_text(encoding="utf-8", errors="replace"))]
    assert not wrong


CLOCK = re.compile(r"\b(perf_counter|process_time|thread_time|monotonic|timeit|time\.time)\b")
PRINTED = {"test_parity_real_size.py", "test_parity_initialize_real_size.py", "test_parity_larger_than_memory.py"}
"""They print what a step took, for the README's figures, and assert nothing of it."""


def test_no_test_asserts_a_time() -> None:
    tests = [p for p in (ROOT / "tests").rglob("*.py") if p.parent.name != "benchmarks" and p != Path(__file__)]
    reading = {p.name: ast.parse(p.read_text(encoding="utf-8")) for p in tests if CLOCK.search(p.read_text("utf-8"))}
    assert set(reading) <= PRINTED
    asserted = [
        ast.unparse(node) for tree in reading.values() for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]
    assert asserted and not [text for text in asserted if re.search(r"seconds|ratio|perf_counter|start\b", text)]


def test_benchmarks_run_in_make_bench_alone() -> None:
    benchmarks = list((ROOT / "tests" / "benchmarks").glob("test_bench_*.py"))
    for path in benchmarks:
        text = path.read_text(encoding="utf-8")
        assert re.search(r"^pytestmark = .*pytest\.mark\.bench\b", text, re.MULTILINE), path.name
        assert "mark.slow" not in text, path.name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert benchmarks and len(re.findall(r"\bbench(marks|mark)?\b.*pytest|pytest.*\bbench\b", makefile)) == 1


def test_the_contract_that_is_released_is_the_one_that_is_committed() -> None:
    """Otherwise write both: python -m qwen3_golden.manifest --write."""
    manifest = (ROOT / "golden" / "MANIFEST.textproto").read_bytes()
    released = (ROOT / "golden" / "qwen3_golden" / "released.txt").read_text(encoding="ascii")
    assert released.strip() == hashlib.sha256(manifest).hexdigest()
