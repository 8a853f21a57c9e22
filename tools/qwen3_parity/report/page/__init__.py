"""One page for a browser: what a run, or a folder of them, came to. It needs nothing from elsewhere."""
