"""While `torch.compile` or `torch.export` captures a graph, nothing may branch on the values in a tensor.

Checks of values are left out there, checks of shapes stay; the length of a static cache stays a tensor, so that one
graph serves every step.
"""

import torch


def capturing() -> bool:
    """Whether the code at hand is being traced into a graph."""
    return torch.compiler.is_compiling()
