"""Estimators whose heads have a loss_fn or an inverse_link_fn, or names of classes, and the signatures of their
exports. Otherwise as the kind "estimators".
"""

import head_parts
from cases import estimators


def generate(random):
    while True:
        program = estimators.generate(random)
        kind = program["estimator"]
        heads = program["head"].get("heads", [program["head"]])
        if kind.endswith("Estimator") or (
                random.random() < 0.5 and any("label_vocabulary" in head for head in heads)):
            break
    program["steps"] = min(program["steps"], 20)
    if kind.endswith("Estimator") and program["features"]:
        head_parts.draw_functions(random, program)
    # Muster exports models over columns of features, which are not sequences.
    if kind.startswith(("Linear", "DNN")):
        program["export"] = True
    return program


run = estimators.run
