"""tf.estimator's canned classifiers of tables, and their input: (estimator, input_fn) of a task. Columns and options
are those of the contestants of Muster."""
import tensorflow as tf

import tables_numpy as data

columns = tf.feature_column


def shuffled(features, labels, batch):
    rows = tf.data.Dataset.from_tensor_slices((features, labels))
    return rows.shuffle(len(labels)).repeat().batch(batch).prefetch(1)


def in_order(features, labels, batch):
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(batch, drop_remainder=True).prefetch(1)


def table(options, config):
    features, labels = data.table()
    estimator = tf.estimator.DNNClassifier(
        [64, 64], [columns.numeric_column("x", [data.FEATURES])],
        optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(data.RATE_OF_TABLE), config=config)
    return estimator, lambda: shuffled({"x": features}, labels, options.batch)


def sparse_rows(options, config):
    ids, labels = data.sparse_rows(options.data)
    column = columns.categorical_column_with_identity("x", data.IDS)
    estimator = tf.estimator.LinearClassifier([column], optimizer="Ftrl", config=config)
    return estimator, lambda: in_order({"x": ids}, labels, options.batch)


def clicks(options, config):
    numbers, ids, labels = data.clicks(options.data)
    features = {f"I{i + 1}": numbers[:, i:i + 1].copy() for i in range(data.NUMBERS)}
    features |= {f"C{i + 1}": ids[:, i:i + 1].copy() for i in range(data.CATEGORIES)}
    all_columns = [columns.numeric_column(f"I{i + 1}") for i in range(data.NUMBERS)]
    all_columns += [columns.categorical_column_with_identity(f"C{i + 1}", data.BUCKETS) for i in range(data.CATEGORIES)]
    estimator = tf.estimator.LinearClassifier(all_columns, optimizer="Ftrl", config=config)
    return estimator, lambda: in_order(features, labels, options.batch)


def number(key, mean, deviation):
    return columns.numeric_column(key, normalizer_fn=lambda x: (x - mean) / deviation)


def logarithm(key):
    return columns.numeric_column(key, normalizer_fn=lambda x: tf.math.log1p(x) / 8)


def census(options, config):
    features, labels = data.census(options.data)
    ages = columns.bucketized_column(columns.numeric_column("age"), [18, 25, 30, 35, 40, 45, 50, 55, 60, 65])
    gains = columns.bucketized_column(columns.numeric_column("capital_gain"), [1, 3000, 5100, 7000, 15000])
    losses = columns.bucketized_column(columns.numeric_column("capital_loss"), [1, 1400, 1800, 2000, 2200])
    text = {name: columns.categorical_column_with_hash_bucket(name, 200) for name in data.CENSUS_TEXTS}
    wide = [ages, gains, losses, *(column for name, column in text.items() if name != "sex"),
            columns.crossed_column(["education", "occupation"], 1000),
            columns.crossed_column([ages, "education", "occupation"], 5000)]
    widths = {"workclass": 4, "education": 4, "marital_status": 4, "occupation": 8, "relationship": 4}
    deep = [number("age", 38, 13), number("education_num", 10, 2.6), number("hours_per_week", 40, 12),
            logarithm("capital_gain"), logarithm("capital_loss"), columns.indicator_column(text["sex"]),
            *(columns.embedding_column(text[name], width) for name, width in widths.items())]
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, linear_optimizer="Ftrl", dnn_feature_columns=deep, dnn_optimizer="Adam",
        dnn_hidden_units=[64, 32], config=config)
    return estimator, lambda: shuffled(features, labels, options.batch)


TASKS = {"table": table, "sparse_rows": sparse_rows, "clicks": clicks, "census": census}
