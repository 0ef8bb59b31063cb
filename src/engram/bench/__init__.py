"""How fast Engram is on this machine, as ratios within one interleaved run."""
