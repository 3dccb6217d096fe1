"""xgboost's `hist`, LightGBM, or scikit-learn, on one thread, as a contestant of benchmarks/trees_benchmark.cc:
prints the seconds from the table in memory to the model, those of the CPU, and the areas under the
ROC curve after every few trees."""
import argparse
import time

import numpy


def read(path, columns):
    features = numpy.fromfile(path + ".features", dtype=numpy.float32).reshape(-1, columns)
    return features, numpy.fromfile(path + ".labels", dtype=numpy.float32)


def area(labels, scores):
    order = numpy.argsort(scores, kind="stable")
    ranks = numpy.empty(len(scores))
    ranks[order] = numpy.arange(1, len(scores) + 1)
    positive = labels > 0
    n = positive.sum()
    return (ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(labels) - n))


def clocks():
    return time.monotonic(), time.process_time()


def since(start):
    return [now - before for now, before in zip(clocks(), start)]


def with_xgboost(features, labels, test, trees, depth):
    import xgboost

    start = clocks()
    table = xgboost.DMatrix(features, labels, nthread=1)
    settings = {"objective": "binary:logistic", "tree_method": "hist", "max_depth": depth,
                "eta": 0.1, "lambda": 1, "min_child_weight": 1, "max_bin": 256, "nthread": 1}
    model = xgboost.train(settings, table, trees)
    seconds = since(start)
    rows = xgboost.DMatrix(test, nthread=1)
    return seconds, lambda first: model.predict(rows, iteration_range=(0, first))


def with_lightgbm(features, labels, test, trees, depth):
    import lightgbm

    start = clocks()
    settings = {"objective": "binary", "max_depth": depth, "num_leaves": 2 ** depth,
                "learning_rate": 0.1, "lambda_l2": 1, "min_sum_hessian_in_leaf": 1,
                "min_data_in_leaf": 1, "max_bin": 255, "num_threads": 1, "verbose": -1}
    model = lightgbm.train(settings, lightgbm.Dataset(features, labels), trees)
    return since(start), lambda first: model.predict(test, num_iteration=first)


def with_sklearn(features, labels, test, trees, depth):
    from sklearn.ensemble import HistGradientBoostingClassifier

    start = clocks()
    model = HistGradientBoostingClassifier(max_iter=trees, max_depth=depth, max_leaf_nodes=2 ** depth,
                                           learning_rate=0.1, l2_regularization=1, min_samples_leaf=1, max_bins=255,
                                           early_stopping=False)
    model.fit(features, labels)
    seconds = since(start)
    stages = [stage.ravel() for stage in model.staged_decision_function(test)]
    return seconds, lambda first: stages[first - 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--data")
    for number in ("--columns", "--trees", "--depth", "--often"):
        parser.add_argument(number, type=int)
    given = parser.parse_args()
    features, labels = read(given.data + "/train", given.columns)
    test, expected = read(given.data + "/test", given.columns)
    train = {"xgboost": with_xgboost, "lightgbm": with_lightgbm, "sklearn": with_sklearn}[given.module]
    seconds, scores_of_first = train(features, labels, test, given.trees, given.depth)
    print(*seconds, *(area(expected, scores_of_first(first))
                      for first in range(given.often, given.trees + 1, given.often)))


if __name__ == "__main__":
    main()
