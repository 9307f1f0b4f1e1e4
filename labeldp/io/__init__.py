"""Reading tables of features, row by row, from CSV and Parquet."""
