"""What every room uses; knows neither labels nor runs."""
