import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")

# A shared machine makes a single example's time meaningless; the suite's own timeout still holds.
settings.register_profile("engram", deadline=None, derandomize=True)
settings.load_profile("engram")
