"""PLE: its theory."""
