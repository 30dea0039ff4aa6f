"""Use cases: functions with a connection and a scope. Every rule stands here once, for HTTP, tools and commands."""
