"""Logistic regression on rows in the format of LIBSVM by scikit-learn or xgboost, on one thread, as
a contestant of benchmarks/linear_benchmark.cc. Each step trains the model anew, with the fewest
passes that reach the loss that is asked for; learning rates were tuned by hand for a9a. Or, where a
batch is asked for in place of a loss, a step is one batch of SGDClassifier.partial_fit()."""
import sys
import warnings

import numpy
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning

from turns import take_turns

IDS = 123
MOST_PASSES = 60


def read(path):
    rows, labels = load_svmlight_file(path, n_features=IDS)
    return rows, (labels > 0).astype(int)


def log_loss(labels, positive):
    return -numpy.log(numpy.where(labels > 0, positive, 1 - positive)).mean()


def sgd(rows, labels, test):
    from sklearn.linear_model import SGDClassifier

    def fit(passes):
        return SGDClassifier(loss="log_loss", average=True, alpha=1e-6, learning_rate="constant",
                             eta0=0.05, max_iter=passes, tol=None, shuffle=False).fit(rows, labels)

    return fit, lambda model: model.predict_proba(test)[:, 1]


def lbfgs(rows, labels, test):
    from sklearn.linear_model import LogisticRegression

    def fit(passes):
        return LogisticRegression(solver="lbfgs", max_iter=passes).fit(rows, labels)

    return fit, lambda model: model.predict_proba(test)[:, 1]


def gblinear(rows, labels, test):
    import xgboost

    table, test_table = xgboost.DMatrix(rows, labels, nthread=1), xgboost.DMatrix(test, nthread=1)
    settings = {"booster": "gblinear", "updater": "shotgun", "objective": "binary:logistic",
                "eta": 0.9, "nthread": 1}

    def fit(passes):
        return xgboost.train(settings, table, passes)

    return fit, lambda model: model.predict(test_table)


def train_in_turns(fit, passes, loss):
    def step():
        fit(passes)
        return loss

    take_turns(step)


def train_on_batches(path, size):
    from sklearn.linear_model import SGDClassifier

    rows, labels = read(path)
    batches = [(rows[begin:begin + size], labels[begin:begin + size])
               for begin in range(0, len(labels) - size + 1, size)]
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.05, shuffle=False)
    at = 0

    def step():
        nonlocal at
        model.partial_fit(*batches[at % len(batches)], classes=(0, 1))
        at += 1
        return 0.0

    take_turns(step)


def main():
    if sys.argv[1] == "batches":
        return train_on_batches(sys.argv[2], int(sys.argv[3]))
    kind, train, test_path, target = sys.argv[1:5]
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, labels = read(train)
    test, expected = read(test_path)
    fit, positive = {"sgd": sgd, "lbfgs": lbfgs, "gblinear": gblinear}[kind](rows, labels, test)
    for passes in range(1, MOST_PASSES + 1):
        if log_loss(expected, positive(fit(passes))) <= float(target):
            return train_in_turns(fit, passes, float(target))
    sys.exit(f"the loss is above {target} after {MOST_PASSES} passes")


if __name__ == "__main__":
    main()
