"""Tables: servers, in-process tables, their readers and their snapshots."""
