"""An agent for tests: two documents, a slow tool, a child run and threads. It is defined outside of
`fieldmark/agents`."""
