"""Texts as numbers: cut into words, which rows of a table of vectors stand for."""
