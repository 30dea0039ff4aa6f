"""Postgres: the embedded server, the migrations and the one door to a tenant's rows."""
