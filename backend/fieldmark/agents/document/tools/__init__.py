"""The document agent's tools, a file for each kind of thing that they are about."""
