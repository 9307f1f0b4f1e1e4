"""The only room that holds true training labels: vault, door, ledger, noise, releases, audits."""
