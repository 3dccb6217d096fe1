"""tf.keras.losses: the loss with its reduction and weights, and its gradient by the predictions.

Labels of [batch] for predictions of [batch, 1] are given to Keras as fit() would give them, with the axis.
"""

import numpy as np
import tensorflow as tf

REGRESSION = [
    "MeanAbsoluteError",
    "MeanSquaredError",
    "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError",
    "Huber",
    "LogCosh",
    "Poisson",
    "LogPoissonLoss",
    "CosineSimilarity",
    "KLDivergence",
]
HINGES = ["Hinge", "SquaredHinge", "CategoricalHinge"]
CROSS = [
    "BinaryCrossentropy",
    "CategoricalCrossentropy",
    "SparseCategoricalCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalFocalCrossentropy",
]


def maybe(random, options, name, values, chance=0.5):
    if random.random() < chance:
        options[name] = random.choice(values)


def generate(random):
    name = random.choice(REGRESSION + HINGES + 2 * CROSS + ["CTC"])
    options = {}
    program = {
        "name": name,
        "options": options,
        "seed": random.randint(0, 10**6),
        "reduction": random.choice(["sum_over_batch_size", "sum", "none"]),
        "weights": random.choice(["no", "no", "scalar", "batch", "column", "zeros", "negative", "each", "row"]),
    }
    if name == "CTC":
        maybe(random, options, "from_logits", [True])
        maybe(random, options, "blank_index", [0, 1, -1, -2])
        program.update(shape=[random.choice([1, 3]), random.choice([4, 7]), random.choice([3, 5])])
        return program
    batch, classes = random.choice([1, 2, 5]), random.choice([1, 2, 4])
    shape = random.choice([[batch, classes], [batch, classes], [batch, 3, classes], [batch, 2, 3, classes], [batch, 1]])
    if (
        name
        in (
            "CategoricalCrossentropy",
            "SparseCategoricalCrossentropy",
            "CategoricalFocalCrossentropy",
            "CategoricalHinge",
            "KLDivergence",
        )
        and shape[-1] == 1
    ):
        shape[-1] = 3
    program["shape"] = shape
    if len(shape) > 3 and program["weights"] in ("batch", "zeros", "negative"):
        program["weights"] = "each"
    program["odd"] = random.random() < 0.4
    program["not_finite"] = random.random() < 0.07
    program["labels_without_axis"] = name != "CosineSimilarity" and random.random() < 0.3
    if name in CROSS:
        maybe(random, options, "from_logits", [True])
        if name != "SparseCategoricalCrossentropy":
            maybe(random, options, "label_smoothing", [0.1, 0.5, 1.0], 0.4)
            if len(shape) > 2:
                maybe(random, options, "axis", [-2, 1, len(shape) - 1], 0.3)
        else:
            maybe(random, options, "ignore_class", [0, -1, 1, 255], 0.3)
        program["soft"] = random.random() < 0.5
    if name == "BinaryFocalCrossentropy":
        maybe(random, options, "apply_class_balancing", [True])
        maybe(random, options, "alpha", [0.0, 0.25, 0.9, 1.0])
        maybe(random, options, "gamma", [0.0, 0.5, 1.0, 2.0, 3.0])
        # There Keras divides 0 by 0 in gradients: a power below 1 of 0. What is not finite is multiplied by 0.
        program["not_finite"] = False
        program["odd"] = program["odd"] and options.get("gamma", 2.0) >= 1
    elif name == "CategoricalFocalCrossentropy":
        if random.random() < 0.5:
            options["alpha"] = random.choice(
                [0.0, 0.5, 1.0, [random.random() for _ in range(shape[options.get("axis", -1)])]]
            )
            if isinstance(options["alpha"], list) and "axis" in options:
                options["alpha"] = 0.3
        maybe(random, options, "gamma", [0.0, 0.5, 1.0, 2.0, 3.0])
    elif name == "Huber":
        maybe(random, options, "delta", [0.1, 0.5, 2.0])
    elif name == "CosineSimilarity" and len(shape) > 2:
        maybe(random, options, "axis", [-2, 1, len(shape) - 1], 0.4)
    elif name == "LogPoissonLoss":
        maybe(random, options, "compute_full_loss", [True])
    return program


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def data(program, numbers):
    name, options, shape = program["name"], program["options"], program["shape"]
    labels = numbers.randn(*shape)
    predictions = numbers.randn(*shape)
    if name in ("BinaryCrossentropy", "BinaryFocalCrossentropy"):
        labels = numbers.rand(*shape) if program["soft"] else numbers.randint(0, 2, shape)
        if not options.get("from_logits"):
            predictions = 1 / (1 + np.exp(-predictions))
            if program["odd"]:
                predictions = numbers.choice([0, 1, 0.5, 1e-7, 1e-9, 0.3, 1 - 1e-6], shape)
        elif program["odd"]:
            predictions = numbers.choice([0, 100, -100, 1000, -1000, 0.3], shape)
    elif name in ("CategoricalCrossentropy", "CategoricalFocalCrossentropy", "SparseCategoricalCrossentropy"):
        labels = softmax(labels) if program["soft"] else np.eye(shape[-1])[numbers.randint(0, shape[-1], shape[:-1])]
        if not options.get("from_logits"):
            # Not scaled to sum 1 where odd; but never all zeros, which is 0 / 0 in Keras.
            predictions = (
                numbers.choice([0.9, 1, 0.5, 1e-7, 1e-9, 0.3], shape) if program["odd"] else softmax(predictions)
            )
        elif program["odd"]:
            predictions = numbers.choice([0, 30, -30, 100, -100, 0.3], shape)
        if name[0] == "S":
            labels = numbers.randint(0, shape[-1], shape[:-1])
            ignored = options.get("ignore_class")
            if ignored is not None:
                # Of no labels at all Keras has 0 / 0; the mean over nothing is 0 in Muster.
                kept = labels.reshape(-1)[0] if labels.reshape(-1)[0] != ignored else (ignored + 1) % shape[-1]
                labels = np.where(numbers.rand(*shape[:-1]) < 0.4, ignored, labels)
                labels.reshape(-1)[0] = kept
    elif name in ("Poisson", "LogPoissonLoss"):
        labels = numbers.poisson(2, shape)
        if name == "Poisson":
            predictions = np.exp(predictions)
    elif name == "KLDivergence":
        labels, predictions = softmax(labels), softmax(predictions)
        if program["odd"]:
            labels = numbers.choice([0, 1, 0.5], shape)
            predictions = numbers.choice([0, 1, 0.5, 1e-8], shape)
    elif name in ("Hinge", "SquaredHinge"):
        labels = numbers.randint(0, 2, shape)
        if program["odd"]:
            labels = 2 * labels - 1
            predictions = numbers.choice([-1, 1, 0, 0.5, 3], shape)
    elif name == "CategoricalHinge":
        labels = np.eye(shape[-1])[numbers.randint(0, shape[-1], shape[:-1])]
    elif program["odd"]:
        labels = numbers.choice([0, 1, -1, 0.5, 100, -2], shape)
        predictions = numbers.choice([0, 1, -1, 0.5, 100, -2, 1e-8], shape)
    labels = labels.astype(np.int64 if name[0:3] == "Spa" else np.float32)
    predictions = predictions.astype(np.float32)
    if program["not_finite"]:
        flat = predictions.reshape(-1)
        # Cross-entropies of infinity are NaN or infinity, as it happens; Muster refuses it as a probability.
        odd = [np.nan] if name in CROSS else [np.nan, np.inf, -np.inf]
        flat[numbers.randint(flat.size)] = odd[numbers.randint(len(odd))]
    return labels, predictions


def weights_for(program, numbers, losses_shape):
    kind = program["weights"]
    if kind == "no":
        return None
    if kind == "scalar":
        return np.float32(0.7)
    batch = losses_shape[0]
    weights = numbers.rand(batch)
    if kind == "column":
        weights = weights.reshape([batch] + [1] * max(1, len(losses_shape) - 1))
    elif kind == "zeros":
        weights = weights * 0
    elif kind == "negative":
        weights = numbers.randn(batch)
    elif kind == "each":
        weights = numbers.rand(*losses_shape)
    elif kind == "row" and len(losses_shape) > 1:
        weights = numbers.rand(*losses_shape[:-1])
    return weights.astype(np.float32)


def ctc(program, numbers):
    batch, time, classes = program["shape"]
    options = program["options"]
    blank = options.get("blank_index", -1) % classes
    labels = numbers.randint(0, classes - 1, [batch, 3])
    labels = np.where(labels >= blank, labels + 1, labels)
    times = numbers.randint(1, time + 1, [batch])
    # As many labels as fit into the times, with a blank between equal ones.
    lengths = np.minimum((times + 1) // 2, numbers.randint(0 if options.get("from_logits") else 1, 4, [batch]))
    predictions = numbers.randn(batch, time, classes)
    if not options.get("from_logits"):
        predictions = softmax(predictions)
    predictions = tf.Variable(predictions.astype(np.float32))
    upstream = numbers.randn(batch).astype(np.float32)
    with tf.GradientTape() as tape:
        if options.get("from_logits"):
            losses = tf.nn.ctc_loss(labels, predictions, lengths, times, logits_time_major=False, blank_index=blank)
        elif blank == classes - 1:
            losses = tf.keras.backend.ctc_batch_cost(labels, predictions, times[:, None], lengths[:, None])[:, 0]
        else:
            logits = tf.math.log(predictions + 1e-7)
            losses = tf.nn.ctc_loss(labels, logits, lengths, times, logits_time_major=False, blank_index=blank)
        whole = tf.reduce_sum(losses * upstream)
    inputs = {
        "labels": labels,
        "predictions": predictions.numpy(),
        "label_length": lengths,
        "logit_length": times,
        "upstream": upstream,
    }
    return inputs, {"loss": losses.numpy(), "gradient": tf.convert_to_tensor(tape.gradient(whole, predictions)).numpy()}


def run(program):
    numbers = np.random.RandomState(program["seed"])
    name, options = program["name"], dict(program["options"])
    if name == "CTC":
        return ctc(program, numbers)
    labels, predictions = data(program, numbers)
    if name == "LogPoissonLoss":
        full = options.get("compute_full_loss", False)
        # It is not a class of Keras's; all losses here are means over outputs.
        loss = tf.keras.losses.Loss(reduction=program["reduction"])
        loss.call = lambda y, x: tf.reduce_mean(tf.nn.log_poisson_loss(y, x, compute_full_loss=full), -1)
    else:
        loss = getattr(tf.keras.losses, name)(reduction=program["reduction"], **options)
    axis = options.get("axis", -1)
    losses_shape = [n for i, n in enumerate(predictions.shape) if i != axis % predictions.ndim]
    weights = weights_for(program, numbers, losses_shape)
    variable = tf.Variable(predictions)
    with tf.GradientTape() as tape:
        value = loss(labels, variable, sample_weight=weights)
        upstream = np.asarray(numbers.randn(*value.shape), np.float32)
        whole = tf.reduce_sum(value * upstream)
    if predictions.ndim == 2 and predictions.shape[-1] == 1 and program["labels_without_axis"] and labels.ndim == 2:
        labels = labels[:, 0]
    inputs = {"labels": labels, "predictions": predictions, "upstream": upstream}
    if weights is not None:
        inputs["sample_weight"] = weights
    expected = {"loss": value.numpy(), "gradient": tf.convert_to_tensor(tape.gradient(whole, variable)).numpy()}
    # Where a prediction is not finite, gradients are NaN or not, as it happens.
    return inputs, {"loss": expected["loss"]} if program["not_finite"] else expected
