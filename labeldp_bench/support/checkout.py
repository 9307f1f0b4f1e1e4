"""Where the checkout lies, and its configs."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
"""The checkout's root; in an installed wheel a folder without configs or results."""

CONFIGS = CHECKOUT / "configs"
