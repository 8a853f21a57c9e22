"""The unit tests that a user wrote against the public names: they pass as they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

CACHE_AS_A_TUPLE = "test_seed_decoder.py::TestQwen3MergedAttention::test_kv_cache"
"""It indexes the attention's cache; here that is Hugging Face's `EncoderDecoderCache`."""


def test_the_users_own_tests_pass_unmodified() -> None:
    folder = os.environ.get("QWEN3_PARITY_ACCEPTANCE")
    if not folder:
        pytest.skip("QWEN3_PARITY_ACCEPTANCE is not set: the user's own tests are not here")
    alone = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, folder, "--deselect", CACHE_AS_A_TUPLE)
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # the folder is somebody else's
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *alone],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert re.search(r"^\d+ passed, 1 deselected", ran.stdout, re.MULTILINE), ran.stdout
