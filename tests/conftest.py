import os

from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")
# Small tensors gain nothing from threads, and threads that wait for a busy core cost minutes; subprocesses inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shared machine makes a single example's time meaningless; the suite's own timeout still holds.
settings.register_profile("engram", deadline=None, derandomize=True)
settings.load_profile("engram")
