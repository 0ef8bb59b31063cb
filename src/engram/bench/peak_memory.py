"""g: the most memory that a process with each recipe takes, beside CIFAR-10's training images."""

from __future__ import annotations

import json
import subprocess
import sys

from engram.bench.figures import Effort, Figure, different_recipes

MOST = 1.5
"""gigabytes"""
HELD = 50_000
"""images of CIFAR-10 that lie in memory while"""
# the peak is not getrusage's, which begins with that of the process that started this one
PROGRAM = """
import json, re, sys
from pathlib import Path
import numpy as np
asked = json.loads(sys.argv[1])
from engram.bench.recipe_steps import quick_version
from engram.learner import Learner
from engram.memory import keep_freed_memory
from engram.recipes import recipe
import torch
torch.set_num_threads(asked["threads"])
keep_freed_memory()
x = np.random.default_rng(0).integers(0, 256, (asked["held"], 3, 32, 32), dtype=np.uint8)
chosen = recipe(asked["recipe"])
learner = Learner(quick_version(chosen) if chosen.method == "gradient" else chosen.changed(asked["changes"]))
for task in range(2):
    rows = x[task * asked["rows"] : (task + 1) * asked["rows"]]
    learner.partial_fit(rows, np.arange(len(rows)) % 2 + 2 * task, range(10) if task == 0 else None)
learner.predict(x[:500])
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
FEW = {"dgm": {"dgm": {"generator_steps": 2}}, "pgma": {"pgma": {"generator_steps": 2}, "training": {"epochs": 1}}}
FEW["joint"] = {"training": {"epochs": 1}}


def peak_memory(effort: Effort) -> list[Figure]:
    """After two tasks of some batches: more of them take longer and no more memory, the task's own features apart."""
    names = ["finetune"] if effort.quick else different_recipes()
    return [Figure(f"peak memory of {name}", _gigabytes(name, effort), "GB", most=MOST) for name in names]


def _gigabytes(name: str, effort: Effort) -> float:
    import torch

    rows = 128 if effort.quick else 640
    asked = {"recipe": name, "held": HELD, "rows": rows, "changes": FEW.get(name, {})}
    asked["threads"] = torch.get_num_threads()
    command = [sys.executable, "-c", PROGRAM, json.dumps(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024 / 1e9
