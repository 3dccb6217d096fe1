"""tf.keras.metrics over several batches: the result, and the results of parts.

Labels and predictions of [batch] are given to Keras as [batch, 1], as fit() gives them: one output of each example.
"""

import numpy as np
import tensorflow as tf

VALUES = ["Mean", "Sum"]
REGRESSION = [
    "MeanAbsoluteError",
    "MeanSquaredError",
    "RootMeanSquaredError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "LogCoshError",
    "CosineSimilarity",
    "Poisson",
    "MeanRelativeError",
    "R2Score",
]
BINARY = [
    "BinaryAccuracy",
    "TruePositives",
    "FalsePositives",
    "TrueNegatives",
    "FalseNegatives",
    "Precision",
    "Recall",
    "PrecisionAtRecall",
    "RecallAtPrecision",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "AUC",
    "AUC",
    "AUC",
    "BinaryCrossentropy",
    "Hinge",
    "SquaredHinge",
]
ONE_HOT = [
    "CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "CategoricalCrossentropy",
    "CategoricalHinge",
    "KLDivergence",
    "F1Score",
    "FBetaScore",
]
SPARSE = ["SparseCategoricalAccuracy", "SparseTopKCategoricalAccuracy", "SparseCategoricalCrossentropy"]
CLASSES = ["Accuracy", "MeanIoU", "MeanIoU"]


def maybe(random, options, name, values, chance=0.5):
    if random.random() < chance:
        options[name] = random.choice(values)


def thresholds_of(random, options, chance=0.5):
    if random.random() < chance:
        options["thresholds"] = sorted(random.sample([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0], random.randint(1, 3)))


def generate(random):
    name = random.choice(VALUES + REGRESSION + BINARY + ONE_HOT + SPARSE + CLASSES)
    options = {}
    outputs = random.choice([1, 1, 2, 4])
    shape = random.choice([[outputs], [outputs], [3, outputs]])
    if name in ONE_HOT + SPARSE:
        shape[-1] = random.choice([2, 3, 6])
    program = {
        "name": name,
        "options": options,
        "seed": random.randint(0, 10**6),
        "rows": [random.choice([1, 2, 5, 5, 0]) for _ in range(random.randint(1, 4))],
        "weights": random.choice(["no", "no", "batch", "zeros", "some zeros", "each", "scalar"]),
    }
    if name in ("BinaryAccuracy",):
        maybe(random, options, "threshold", [0.0, 0.3, 0.5, 1.0])
    elif name in ("TruePositives", "FalsePositives", "TrueNegatives", "FalseNegatives"):
        thresholds_of(random, options)
    elif name in ("Precision", "Recall"):
        thresholds_of(random, options)
        if shape[-1] > 1:
            maybe(random, options, "top_k", [1, 2])
            maybe(random, options, "class_id", [0, 1], 0.4)
    elif "At" in name:
        options["at"] = random.choice([0.0, 0.3, 0.5, 0.8, 1.0])
        maybe(random, options, "num_thresholds", [1, 2, 5, 50])
        if shape[-1] > 1:
            maybe(random, options, "class_id", [0, 1], 0.4)
    elif name == "AUC":
        maybe(random, options, "num_thresholds", [2, 3, 5, 50])
        maybe(random, options, "curve", ["ROC", "PR"], 0.7)
        maybe(random, options, "summation_method", ["interpolation", "minoring", "majoring"], 0.7)
        if random.random() < 0.3:
            thresholds_of(random, options, 1)
        if shape[-1] > 1 and len(shape) == 1:
            maybe(random, options, "multi_label", [True], 0.6)
            if random.random() < 0.3:
                options["label_weights"] = [random.choice([0.0, 0.5, 2.0]) for _ in range(shape[-1] - 1)] + [1.0]
        maybe(random, options, "from_logits", [True], 0.2)
    elif name in ("BinaryCrossentropy", "CategoricalCrossentropy"):
        maybe(random, options, "from_logits", [True], 0.4)
        maybe(random, options, "label_smoothing", [0.1, 1.0], 0.4)
    elif name == "SparseCategoricalCrossentropy":
        maybe(random, options, "from_logits", [True], 0.4)
        maybe(random, options, "ignore_class", [0, -1, 1], 0.4)
    elif "TopK" in name:
        maybe(random, options, "k", [1, 2, 3, 7], 0.8)
    elif name in ("F1Score", "FBetaScore"):
        shape = shape[-1:]
        if program["weights"] == "scalar":
            program["weights"] = "batch"
        maybe(random, options, "average", ["micro", "macro", "weighted"], 0.7)
        maybe(random, options, "threshold", [0.3, 0.5, 1.0])
        if name == "FBetaScore":
            maybe(random, options, "beta", [0.5, 1.0, 2.0])
    elif name == "R2Score":
        shape = shape[-1:]
        # Of labels that are all equal Keras divides 0 by 0, or by what rounding leaves; Muster has 0.
        program["rows"].append(5)
        if program["weights"] == "zeros":
            program["weights"] = "batch"
        maybe(random, options, "class_aggregation", ["uniform_average", "variance_weighted_average", None], 0.7)
        maybe(random, options, "num_regressors", [1, 2, 5], 0.3)
    elif name == "CosineSimilarity" and len(shape) > 1:
        maybe(random, options, "axis", [1, -1, 2, -2], 0.5)
    elif name == "MeanIoU":
        options["num_classes"] = random.choice([2, 3, 5])
        maybe(random, options, "ignore_class", [0, 1, -1, 255], 0.4)
    elif name == "MeanRelativeError":
        shape = [random.choice([2, 3])]
    if "class_id" in options and program["weights"] == "each":
        program["weights"] = "batch"
    program.update(
        shape=shape,
        ties=random.random() < 0.5,
        soft=random.random() < 0.3,
        single=random.random() < 0.2,
        without_axis=random.random() < 0.4,
    )
    if name == "R2Score":
        program["ties"] = False
    return program


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def batch(program, numbers, rows):
    name, options = program["name"], program["options"]
    shape = [rows] + program["shape"]
    classes = shape[-1]
    if name in VALUES:
        return None, numbers.randn(*shape)
    if name in CLASSES:
        count = options.get("num_classes", 3)
        labels, predictions = numbers.randint(0, count, shape), numbers.randint(0, count, shape)
        if program["single"]:
            labels = labels * 0
        if "ignore_class" in options:
            labels = np.where(numbers.rand(*shape) < 0.3, options["ignore_class"], labels)
        return labels, predictions
    if name in REGRESSION:
        labels, predictions = numbers.randn(*shape), numbers.randn(*shape)
        if program["ties"]:
            labels, predictions = numbers.choice([0, 1, -1, 2], shape), numbers.choice([0, 1, -1, 2], shape)
        if program["single"] and name != "R2Score":
            labels = labels * 0
        if name == "Poisson":
            labels, predictions = numbers.poisson(2, shape), np.abs(predictions)
        return labels, predictions
    if name in BINARY:
        labels = numbers.randint(0, 2, shape)
        if program["single"]:
            labels = labels * 0 + numbers.randint(0, 2)
        if program["soft"] and name in ("BinaryCrossentropy",):
            labels = numbers.rand(*shape)
        if name in ("Hinge", "SquaredHinge"):
            # A batch without labels but 0 and 1 becomes -1 and 1 in Keras, and each 0 becomes -1 in Muster.
            return (labels if program["soft"] else 2 * labels - 1), numbers.randn(*shape)
        predictions = numbers.choice([0, 0.25, 0.5, 0.75, 1], shape) if program["ties"] else numbers.rand(*shape)
        if options.get("from_logits"):
            predictions = numbers.randn(*shape) * 3
        return labels, predictions
    predictions = softmax(numbers.choice([0, 1, 2], shape) if program["ties"] else numbers.randn(*shape))
    if options.get("from_logits"):
        predictions = numbers.randn(*shape)
    numbered = numbers.randint(0, 1 if program["single"] else classes, shape[:-1])
    if name in SPARSE:
        if "ignore_class" in options:
            numbered = np.where(numbers.rand(*shape[:-1]) < 0.3, options["ignore_class"], numbered)
        return numbered, predictions
    labels = np.eye(classes)[numbered]
    if name in ("KLDivergence", "CategoricalCrossentropy") and program["soft"]:
        labels = softmax(numbers.randn(*shape))
    if name in ("F1Score", "FBetaScore") and program["soft"]:
        labels = numbers.randint(0, 2, shape)
    return labels, predictions


def metric_of(name, options):
    options = dict(options)
    if "At" in name:
        return getattr(tf.keras.metrics, name)(options.pop("at"), **options)
    if name == "MeanRelativeError":
        return tf.keras.metrics.MeanRelativeError(normalizer=options["normalizer"])
    if name == "AUC" and "thresholds" in options:
        options.pop("num_thresholds", None)
    return getattr(tf.keras.metrics, name)(**options)


def run(program):
    numbers = np.random.RandomState(program["seed"])
    name, options = program["name"], dict(program["options"])
    inputs = {}
    if name == "MeanRelativeError":
        normalizer = numbers.choice([0, 1, 2, -3], program["shape"]).astype(np.float32)
        options["normalizer"] = normalizer
        inputs["normalizer"] = normalizer
    metric = metric_of(name, options)
    per_prediction = name in VALUES + CLASSES + BINARY[1:14] + ["MeanRelativeError"]
    for i, rows in enumerate(program["rows"]):
        labels, predictions = batch(program, numbers, rows)
        predictions = np.asarray(predictions, np.int64 if name in CLASSES else np.float32)
        weights = None
        shape = [rows] + program["shape"]
        if program["weights"] == "scalar":
            weights = np.float32(0.6)
        elif program["weights"] != "no":
            each = program["weights"] == "each" and (per_prediction or len(shape) > 2 and name != "CosineSimilarity")
            weights = numbers.rand(*((shape if per_prediction else shape[:-1]) if each else [rows]))
            if "zeros" in program["weights"]:
                weights = weights * (0 if program["weights"] == "zeros" else numbers.randint(0, 2, weights.shape))
            weights = weights.astype(np.float32)
        arguments = [predictions]
        if labels is not None:
            labels = np.asarray(labels, np.int64 if name in SPARSE + CLASSES else np.float32)
            arguments.insert(0, labels)
        # Keras broadcasts weights of predictions where they have as many axes.
        given = weights
        if (
            weights is not None
            and weights.ndim
            and per_prediction
            and weights.ndim < predictions.ndim
            and name not in VALUES
        ):
            given = weights.reshape([rows] + [1] * (predictions.ndim - 1))
            if name == "MeanIoU":
                given = np.broadcast_to(given, predictions.shape).copy()
        metric.update_state(*arguments, sample_weight=given)
        without = program["without_axis"] and program["shape"] == [1] and name not in ONE_HOT + SPARSE
        for key, value in (("labels", labels), ("predictions", predictions), ("weights", weights)):
            if value is not None:
                inputs[f"{key}_{i}"] = value[:, 0] if without and value.ndim == 2 else value
    result = np.asarray(metric.result().numpy(), np.float64)
    return inputs, {"result": result}
