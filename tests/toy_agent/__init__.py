"""An agent that only tests know: two documents, a tool that takes long, a child run, threads. Nothing above
`fieldmark/agents` was changed for it."""
