"""The sessions of pi and omp."""
