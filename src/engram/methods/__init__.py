"""How a task is learnt. Each method has learn, features, scores, state and restore (see base.py)."""
