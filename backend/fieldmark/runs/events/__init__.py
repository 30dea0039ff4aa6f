"""The events of a run: how they are created, written and followed."""
