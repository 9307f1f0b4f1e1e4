"""What knows neither labels nor runs: checks, files, streams of random numbers, progress."""
