"""Where the checkout lies, and the configs."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The checkout's root; in an installed wheel a folder without results."""
_OWN = CHECKOUT / "configs"
CONFIGS = _OWN if (_OWN / "config.yaml").is_file() else CHECKOUT / "labeldp_bench" / "configs"
"""The checkout's configs; in an installed wheel those inside the package."""
