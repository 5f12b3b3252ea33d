"""What agents and stores do, one module for each operation. Users do not need this package."""
