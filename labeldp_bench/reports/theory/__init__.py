"""The paper theoretical_limits: its rates, the table of exponents and the pictures."""
