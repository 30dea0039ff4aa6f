"""Support for tests: a scripted model."""
