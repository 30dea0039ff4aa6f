"""Sources: buckets and mailboxes whose files become documents."""
