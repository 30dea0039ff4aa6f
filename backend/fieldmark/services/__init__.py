"""Use cases: functions with a connection and a scope. Each rule is written here once, for HTTP, tools and commands."""
