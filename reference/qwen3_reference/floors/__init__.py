"""How far honest float32 drifts at each tap of a run, measured against float64."""
