"""What the command line does with a model file and people's own data; `asked.py` says what can be asked for."""
