"""Pictures: papers' figures, sweeps, attacks, in one visual language."""
