"""Any transformers model as a graph of ops, by `torch.export`."""
