"""From checkpoints to models: reading, mapping, sentinel rows, verification."""
