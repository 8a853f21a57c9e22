"""Networks that their goldens describe: the graph of a golden of mode GRAPH, read and run."""
