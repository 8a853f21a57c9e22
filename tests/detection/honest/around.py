"""A runner around our model: it runs the case in another way and hands over what the case asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from qwen3_golden import pb
from qwen3_parity.recording.ours.network import EncoderDecoder


@dataclass(frozen=True)
class Around:
    """What such a runner (see `record.Runner`) says of itself is what the model in it says."""

    inner: EncoderDecoder

    @property
    def run(self) -> pb.Run:
        """The model's own."""
        return self.inner.run

    @property
    def parameters(self) -> Mapping[str, torch.Tensor]:
        """The model's own."""
        return self.inner.parameters
