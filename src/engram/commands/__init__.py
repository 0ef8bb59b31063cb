"""Commands of the command line, each in a module of its own; none imports torch before it runs."""
