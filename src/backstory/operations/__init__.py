"""What `Agent` and `Store` delegate to, one module for each operation. It is not public."""
