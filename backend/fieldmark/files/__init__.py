"""Where uploaded originals lie: a local folder or Supabase Storage."""
