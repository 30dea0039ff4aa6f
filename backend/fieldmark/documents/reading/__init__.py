"""Turn file bytes into pages: one module per format, run in a sandboxed subprocess."""
