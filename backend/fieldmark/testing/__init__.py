"""For tests: a model that follows a script."""
