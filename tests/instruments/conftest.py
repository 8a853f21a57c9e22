"""The process that mutants are forked from must leave them able to go backward."""

import torch

# Autograd decides at a process's first backward whether it needs threads, and a fork of a process with such threads
# cannot go backward. After torch.compile a CUDA build starts them without any GPU, before it does not. This runs while
# tests are collected, so that no compiled test comes first.
torch.zeros((), requires_grad=True).backward()  # type: ignore[no-untyped-call]
