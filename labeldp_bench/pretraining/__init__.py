"""What a network knows before any label of the run is released."""
