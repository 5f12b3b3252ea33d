"""The exporters."""
