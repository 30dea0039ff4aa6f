"""The agent that reads the fields of an extraction a second time."""
