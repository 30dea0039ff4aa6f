"""What keeps the processes of a service apart: Postgres, readers of files, agents' CLIs."""

from __future__ import annotations

from fieldmark.isolation import landlock, users


def shortcoming() -> str | None:
    """What this system does not keep apart, as a sentence for whoever runs the service; None where all is."""
    if users.is_root() or landlock.version() >= landlock.SCOPES_SIGNALS:
        return None
    if landlock.version():
        return (
            "Agents, readers of files and the embedded Postgres run as one user and can end each other: this kernel's "
            "Landlock is older than Linux 6.12. Start Fieldmark as root, and each gets a user of its own."
        )
    return (
        "Agents, readers of files and the embedded Postgres run as one user and can reach each other's files: this "
        "system has no Landlock. Start Fieldmark as root, and each gets a user of its own."
    )
