"""Audits: exact eps from likelihoods, bounds from draws, attacks on released labels."""
