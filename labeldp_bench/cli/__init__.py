"""Command lines: composes, hands over, and turns errors into one line."""
