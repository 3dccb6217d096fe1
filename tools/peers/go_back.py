"""Goes on in TensorFlow from a checkpoint that `muster export tensorflow --like` wrote of a run of Muster, and compares
the losses with those of TensorFlow's own run to the same step.

    python tools/peers/go_back.py FOLDER OPTIMIZER

FOLDER is one that continue_estimator.py made, with the export as FOLDER/back/model.ckpt-1000. Prints the largest difference.
"""

import os
import sys

from continue_estimator import Losses, estimator, input_fn

FOLDER = sys.argv[1]


def losses_after(folder):
    losses = Losses()
    estimator(folder).train(input_fn, steps=100, hooks=[losses])
    return losses.values


def main():
    theirs = losses_after(os.path.join(FOLDER, "run"))
    ours = losses_after(os.path.join(FOLDER, "back"))
    print(f"{len(ours)} steps, largest difference {max(abs(a - b) for a, b in zip(theirs, ours)):.3g}")


if __name__ == "__main__":
    main()
