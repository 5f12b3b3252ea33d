"""The peers, one file each: a new one is a class here and a line in benchmarks/peers/peers.py."""
