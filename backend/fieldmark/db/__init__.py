"""Postgres itself: the embedded server, migrations, and the one door to a tenant's rows."""
