"""Models that mean no good or can do no better: shipped, so that anybody can try what a desk withstands."""
