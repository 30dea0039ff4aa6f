"""A run from its start to its end: launch, decide, queue, outcome."""
