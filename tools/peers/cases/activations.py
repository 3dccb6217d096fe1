"""tf.keras.activations and tf.nn: values, and the gradient of their sum with random weights."""

import numpy as np
import tensorflow as tf

ODD = [0.0, -0.0, 1.0, -1.0, 6.0, 2.5, -2.5, 20.0, -20.0, 90.0, -90.0, 1000.0, -1000.0]
NAMES = [
    "linear",
    "relu",
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "gelu",
    "swish",
    "silu",
    "mish",
    "sigmoid",
    "hard_sigmoid",
    "tanh",
    "softmax",
    "log_softmax",
    "softplus",
    "softsign",
    "exponential",
]


def generate(random):
    name = random.choice(NAMES)
    options = {}
    shape = [random.choice([1, 2, 5]) for _ in range(random.randint(2, 4))]
    if name == "relu":
        for key, values in (
            ("max_value", [0.0, 1.0, 6.0]),
            ("negative_slope", [0.0, 0.1, 1.0]),
            ("threshold", [0.0, 0.5, 1.0]),
        ):
            if random.random() < 0.5:
                options[key] = random.choice(values)
    elif name in ("leaky_relu", "elu") and random.random() < 0.6:
        options["alpha"] = random.choice([0.0, 0.01, 0.3, 1.0, 2.0])
    elif name == "gelu" and random.random() < 0.6:
        options["approximate"] = random.random() < 0.5
    elif name in ("softmax", "log_softmax") and random.random() < 0.6:
        options["axis"] = random.choice([-1, -2, 1, len(shape) - 1])
    # What becomes of a vector for softmax, and of gradients, where numbers are not finite, is left open: NaN or not.
    return {
        "name": name,
        "options": options,
        "shape": shape,
        "seed": random.randint(0, 10**6),
        "odd": random.random() < 0.6,
        "not_finite": "softmax" not in name and random.random() < 0.15,
    }


def function(name, options):
    options = dict(options)
    if name in ("relu6", "leaky_relu", "silu", "log_softmax"):
        return lambda x: getattr(tf.nn, name)(x, **options)
    if name == "relu" and "negative_slope" in options:
        options["alpha"] = options.pop("negative_slope")
    return lambda x: getattr(tf.keras.activations, name)(x, **options)


def run(program):
    numbers = np.random.RandomState(program["seed"])
    x = (2 * numbers.randn(*program["shape"])).astype(np.float32)
    weights = numbers.randn(*program["shape"]).astype(np.float32)
    flat = x.reshape(-1)
    if program["odd"]:
        for i in numbers.randint(0, flat.size, 6):
            flat[i] = ODD[numbers.randint(len(ODD))]
    if program["not_finite"]:
        flat[numbers.randint(flat.size)] = [np.nan, np.inf, -np.inf][numbers.randint(3)]
    variable = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = function(program["name"], program["options"])(variable)
        loss = tf.reduce_sum(y * weights)
    gradient = tape.gradient(loss, variable)
    if program["not_finite"]:
        return {"x": x, "weights": weights}, {"y": y.numpy()}
    return {"x": x, "weights": weights}, {"y": y.numpy(), "gradient": tf.convert_to_tensor(gradient).numpy()}
