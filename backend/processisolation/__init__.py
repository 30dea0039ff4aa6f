"""Isolate processes on Linux: what they can open, signal and use. Only the standard library is needed.

`landlock` confines a process to folders, without privileges. `lockdown` takes away everything that parsing a hostile
file does not need. `users` gives each process a user id of its own, if the program is root.
"""
