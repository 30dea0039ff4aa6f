"""The tools of the library agent."""
