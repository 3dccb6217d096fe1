"""tf.estimator.experimental.LinearSDCA: the weights at the end, the metrics of an evaluation and the predictions.

TensorFlow takes the examples of a batch in random order, in several threads. Two kinds of programs have one result:
- batches of one example compare single steps;
- batches of all examples, many times, compare the solution. The regularized problem has only one.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf

from cases import columns as table
from cases import estimators


def maybe(random, options, name, values):
    if random.random() < 0.4:
        options[name] = random.choice(values)


def is_taken(column):
    """TensorFlow takes no indicator, whose shape has two axes, and trains no embedding."""
    return column["type"] not in ("embedding_column", "shared_embeddings", "indicator_column")


def generate(random):
    kind = random.choice(["LinearClassifier", "LinearRegressor"])
    head = {"type": "BinaryClassHead" if kind == "LinearClassifier" else "RegressionHead"}
    if kind == "LinearRegressor":
        head["label_dimension"] = 1 if random.random() < 0.95 else 2
    # Without a label_vocabulary: TensorFlow makes numbers of the texts, and fails.
    if random.random() < 0.4:
        head["weight_column"] = "weight"
    rows = random.choice([1, 4, 7, 12])
    columns = [column for column in estimators.linear_columns(random, random.randint(1, 3)) if is_taken(column)]
    columns = columns or [{"type": "numeric_column", "key": "x2", "shape": [2]}]
    estimators.safe(columns)
    sdca = {"symmetric_l2_regularization": random.choice([1.0, 2.0, 10.0])}
    maybe(random, sdca, "symmetric_l1_regularization", [0.1, 0.5])
    maybe(random, sdca, "num_loss_partitions", [2, 3])
    program = {"estimator": kind, "head": head, "columns": columns, "sdca": sdca}
    if random.random() < 0.5:
        program.update(batch=1, steps=random.choice([1, rows, 3 * rows]))
    else:
        # Each pass makes the distance from the solution smaller by a factor of about 1 + 1 / (squares * partitions):
        # squares of features are 20 at most here, and 600 passes leave less than rounding.
        program.update(batch=rows, steps=600)
        maybe(random, sdca, "adaptive", [True])
        program["columns"] = columns = columns[:2]
    features = estimators.draw_features(random, columns, rows, head)
    features["id"] = {"dtype": "string", "dense": True, "rows": [[f"example {i}"] for i in range(rows)]}
    program.update(features=features, labels=estimators.draw_labels(random, head, rows))
    return program


def input_fn(program, training):
    def make():
        features = {key: table.tensor(feature) for key, feature in program["features"].items()}
        features["id"] = tf.reshape(features["id"], [-1])
        data = tf.data.Dataset.from_tensor_slices((features, estimators.make_labels(program["labels"])))
        return data.repeat().batch(program["batch"]) if training else data.batch(5)
    return make


def run(program):
    with tempfile.TemporaryDirectory() as folder:
        head = {key: value for key, value in program["head"].items() if key != "type"}
        vocabularies = os.path.join(folder, "vocabularies")
        os.makedirs(vocabularies)
        config = tf.estimator.RunConfig(save_checkpoints_steps=10**6, save_summary_steps=10**6,
                                        log_step_count_steps=10**6)
        estimator = getattr(tf.estimator, program["estimator"])(
            table.make_columns(program["columns"], vocabularies),
            model_dir=os.path.join(folder, "model"), config=config,
            optimizer=tf.estimator.experimental.LinearSDCA("id", **program["sdca"]), **head)
        estimator.train(input_fn(program, True), max_steps=program["steps"])
        expected = {}
        for name in estimator.get_variable_names():
            if name.endswith("weights"):
                expected["variable " + name] = estimator.get_variable_value(name)
        for name, value in estimator.evaluate(input_fn(program, False)).items():
            if name != "global_step":
                expected["metric " + name] = np.float64(value)
        predictions = list(estimator.predict(input_fn(program, False)))
        for key in predictions[0]:
            expected["prediction " + key] = np.stack([each[key] for each in predictions])
    return {}, expected
