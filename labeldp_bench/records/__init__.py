"""What runs found, and what papers print: read, written and merged; draws nothing."""
