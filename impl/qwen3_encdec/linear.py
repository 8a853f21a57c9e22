"""The linear layer of both stacks, with the product of one row that costs least."""

import torch
from torch import nn


class Qwen3Linear(nn.Linear):
    """`x W^T + b`, `[..., in] -> [..., out]`; a single row on the CPU, as in every decode step, is `W x + b`.

    torch's `linear` turns one row into a product of matrices: eight dispatches more and, in bfloat16, `W` read at two
    thirds of the speed that a product with a vector has. The two differ by the order of their sums. A weight that is
    more than a parameter (quantized, say) may know `linear` alone and gets it.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        weight = self._parameters.get("weight")  # `self.weight` is a call in Python, and this is seven of them a layer
        one_row = input.numel() == self.in_features == input.shape[-1]
        if not one_row or type(weight) is not nn.Parameter or not weight.is_cpu:
            return nn.functional.linear(input, self.weight, self.bias)
        product = torch.matmul(weight, input.reshape(-1))  # not `mv`, which autocast does not know
        bias = self._parameters["bias"]
        return (product if bias is None else product + bias.to(product.dtype)).view(*input.shape[:-1], -1)
