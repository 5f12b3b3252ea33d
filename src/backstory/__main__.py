"""`python -m backstory`: the command line."""

from backstory.cli import main

if __name__ == "__main__":
    main()
