"""Numbers of a wrong tap that stand elsewhere: in another row, slot, head, step, layer, tap or request."""
