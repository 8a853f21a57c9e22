"""Hugging Face and torch run on a case, hooked, and written as a golden."""

from qwen3_reference.versions import refuse_unsupported

refuse_unsupported()
