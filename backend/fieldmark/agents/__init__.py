"""Each agent is a folder with its spec (agent.py) and its prompt (prompt.md)."""
