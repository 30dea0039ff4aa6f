"""HTTP in and out: parse, call downwards, shape the answer. No SQL, no Agent SDK."""
