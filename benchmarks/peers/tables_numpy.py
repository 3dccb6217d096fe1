"""The tables of benchmarks/tabular_benchmark.cc and linear_benchmark.cc as arrays of numpy."""
import csv

import numpy as np

ROWS, FEATURES = 100_000, 13  # of the table
RATE_OF_TABLE = 0.01
IDS, IDS_OF_ROW = 123, 14  # of rows in the format of LIBSVM
NUMBERS, CATEGORIES, BUCKETS = 13, 26, 10_000  # of the clicks
CENSUS_NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
CENSUS_TEXTS = ["workclass", "education", "marital_status", "occupation", "relationship", "sex", "native_country"]


def table():
    """Features [rows, 13], and whether the sum of their sines is positive [rows, 1]."""
    features = np.random.RandomState(1).randn(ROWS, FEATURES).astype(np.float32)
    return features, (np.sin(features).sum(1, keepdims=True) > 0).astype(np.int64)


def sparse_rows(path):
    """Ids [rows, 14], filled up with -1, and labels of 0 and 1 [rows]."""
    ids, labels = [], []
    with open(path) as file:
        for line in file:
            label, *pairs = line.split()
            row = [int(pair.split(":")[0]) - 1 for pair in pairs]
            ids.append(row + [-1] * (IDS_OF_ROW - len(row)))
            labels.append(int(float(label) > 0))
    return np.array(ids, np.int64), np.array(labels, np.int64)


def clicks(folder):
    """Numbers [rows, 13], ids [rows, 26] and labels [rows], as clicks.cc wrote them."""
    numbers = np.fromfile(folder + "/numbers", np.float32).reshape(-1, NUMBERS)
    ids = np.fromfile(folder + "/ids", np.int64).reshape(-1, CATEGORIES)
    return numbers, ids, np.fromfile(folder + "/labels", np.float32)


def census(path):
    """The columns that the model reads, by name, and whether the income is above 50,000 [rows]."""
    with open(path) as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows], np.float32) for name in CENSUS_NUMBERS}
    columns |= {name: np.array([row[name] for row in rows]) for name in CENSUS_TEXTS}
    return columns, np.array([row["income"] == ">50K" for row in rows], np.int64)
