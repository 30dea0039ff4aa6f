"""The SQL, a file per thing stored. A store takes an open transaction and never commits it."""
