"""Back up a service into one file, check it, and restore it into an empty service.

A backup is a tar stream, so it can be piped, optionally encrypted with age:

    backup.json         what it is, and how many documents the database has
    database/000001 …   pg_dump's custom format, in parts
    database.sha256
    keys/…              the signing key
    originals/…         the files of all documents
    originals.sha256    a line for each, as sha256sum prints it
    end.json            counts, and documents that were deleted while the backup ran

Without `end.json` a backup is not complete. The database comes first, as it was at one moment. Originals never change;
a document that is deleted before its original was copied is deleted after a restore, too.
"""

from fieldmark.backup.checking import check_backup
from fieldmark.backup.restoring import restore
from fieldmark.backup.upgrading import go_back, upgrade_postgres
from fieldmark.backup.writing import BackupSummary, back_up

__all__ = ["BackupSummary", "back_up", "check_backup", "go_back", "restore", "upgrade_postgres"]
