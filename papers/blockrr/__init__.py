"""BlockRR (Liu, Ding 2026): its figures."""
