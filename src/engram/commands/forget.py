"""`engram forget`: whole classes taken out of a model."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from engram.commands.model import known_classes, lessons_of, open_model
from engram.commands.words import count, listed
from engram.errors import InputError
from engram.methods.analytic import AnalyticMethod

if TYPE_CHECKING:
    from engram.commands.asked import ForgetCommand


def forget(asked: ForgetCommand) -> None:
    learner = open_model(asked.model)
    known = {str(label): label for label in known_classes(learner)}
    if not asked.classes:
        raise InputError("There is nothing to forget: name classes.")
    for name in asked.classes:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"it knows {listed(list(known)) or 'no class'}."
            raise InputError(f"{asked.model} has not learnt a class {name!r}: {hint}")
    method = learner.method_
    if isinstance(method, AnalyticMethod) and not (method.sums.apart or asked.keep_products):
        raise InputError(
            f"{asked.model} has one sum for all classes' products, so that a class cannot be taken out of it: make a "
            "model with --set head.class_memory=MB large enough, or forget the class's mean alone by --keep-products."
        )
    learner.forget(classes=[known[name] for name in dict.fromkeys(asked.classes)], keep_products=asked.keep_products)
    for lesson in lessons_of(learner):
        lesson["classes"] = {name: of for name, of in lesson["classes"].items() if name not in asked.classes}
    learner.save(asked.model)
    left = count(len(learner.table_.seen), "class is", "classes are")
    stays = "their means only" if asked.keep_products else "as if they had never come, but for the features"
    print(f"forgotten: {listed(list(dict.fromkeys(asked.classes)))} ({stays}); {left} left")
