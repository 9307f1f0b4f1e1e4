"""What a paper's text says of its figure: how it is spelled, compared and judged."""
