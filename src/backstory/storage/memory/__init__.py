"""The reference backend: everything in lists, gone with the process."""
