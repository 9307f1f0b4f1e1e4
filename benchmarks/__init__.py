"""What benchmarks share: ceilings of a device, work of a step, the textbook loop, the CSV."""
