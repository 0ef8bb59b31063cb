"""Slow, plain, independent versions of what the package computes."""
