"""Make a recording of tensors that some tool wrote, or write a recording's tensors as safetensors or npz."""
