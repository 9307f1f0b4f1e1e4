"""Findings, best-known results, report and leaderboard: pages of the site."""
