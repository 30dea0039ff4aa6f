"""A stand-in of a Supabase project on loopback: Auth, PostgREST, Storage and Realtime of one database.

It is not Supabase. The database is real: each request logs in as `authenticator`, sets the role and the claims of its
token, and is answered by the policies, grants and functions of the schema.
"""

from supabase_stand_in.auth import EMAIL, PASSWORD, user_id
from supabase_stand_in.project import PUBLISHABLE_KEY, SECRET_KEY, Project, supabase_project

__all__ = ["EMAIL", "PASSWORD", "PUBLISHABLE_KEY", "SECRET_KEY", "Project", "supabase_project", "user_id"]
