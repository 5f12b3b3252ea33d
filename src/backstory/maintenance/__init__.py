"""What works on whole stores: search, stats, verify, export and import."""
