"""tf.keras.initializers: those without chance by their values, the others by the law of what they draw: scale, bounds
and the first four moments. Muster and Keras draw other numbers, so moments may differ by six standard errors of each.
"""

import numpy as np
import tensorflow as tf

FIXED = ["Zeros", "Ones", "Constant", "Identity"]
RANDOM = [
    "RandomUniform",
    "RandomNormal",
    "TruncatedNormal",
    "VarianceScaling",
    "GlorotUniform",
    "GlorotNormal",
    "HeUniform",
    "HeNormal",
    "LecunUniform",
    "LecunNormal",
]


def generate(random):
    kind = random.random()
    if kind < 0.25:
        name = random.choice(FIXED)
        shape = [random.choice([1, 2, 3, 5]) for _ in range(2 if name == "Identity" else random.randint(1, 3))]
        options = {}
        if name == "Constant":
            options = {"value": random.choice([0.0, 0.5, -3.0])}
        elif name == "Identity" and random.random() < 0.5:
            options = {"gain": random.choice([0.5, -2.0])}
        return {"name": name, "options": options, "shape": shape}
    if kind < 0.4:
        shape = random.choice([[3, 5], [5, 3], [4, 4], [2, 3, 4], [3, 3, 2, 8], [1, 6], [6, 1]])
        return {"name": "Orthogonal", "options": random.choice([{}, {"gain": 0.5}, {"gain": 2.0}]), "shape": shape}
    name = random.choice(RANDOM)
    options = {}
    if name == "RandomUniform":
        options = random.choice([{}, {"minval": -1.0, "maxval": 2.0}, {"minval": 0.0, "maxval": 0.001}])
    elif name in ("RandomNormal", "TruncatedNormal"):
        options = random.choice([{}, {"mean": 2.0, "stddev": 0.5}, {"stddev": 3.0}])
    elif name == "VarianceScaling":
        options = {
            "scale": random.choice([0.5, 1.0, 4.0]),
            "mode": random.choice(["fan_in", "fan_out", "fan_avg"]),
            "distribution": random.choice(["truncated_normal", "untruncated_normal", "uniform"]),
        }
    shape = random.choice(
        [[20000], [100, 300], [300, 100], [30000, 1], [1, 30000], [3, 3, 40, 80], [5, 60, 70], [2, 3, 2, 40, 50]]
    )
    return {"name": name, "options": options, "shape": shape}


def orthogonal_law(values):
    """The products of rows or of columns, whichever are fewer."""
    matrix = values.astype(np.float64).reshape(-1, values.shape[-1])
    return matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T


def run(program):
    values = getattr(tf.keras.initializers, program["name"])(**program["options"])(program["shape"]).numpy()
    if program["name"] in FIXED:
        return {}, {"values": values}
    if program["name"] == "Orthogonal":
        return {}, {"law": orthogonal_law(values)}
    # A mean of n numbers has the standard error deviation / sqrt(n); both sides have one, so their difference has
    # sqrt(2) times as much. What a moment of degree k deviates by follows from that of degree 2 k, taken from the
    # sample itself.
    x = values.astype(np.float64).reshape(-1)
    scale = np.abs(x).max()
    x = x / scale
    moments = np.array([np.mean(x**k) for k in range(1, 5)])
    errors = np.array([np.std(x**k) / np.sqrt(x.size) for k in range(1, 5)])
    # The largest of n: a bounded law comes as near to its bound as 1/n of its mass lies; that of a normal one is a
    # matter of chance.
    bounded = "Uniform" in program["name"] or program["options"].get("distribution") == "uniform"
    truncated = (
        program["name"] in ("TruncatedNormal", "GlorotNormal", "HeNormal", "LecunNormal")
        or program["options"].get("distribution", "truncated_normal") == "truncated_normal"
        and program["name"] == "VarianceScaling"
    )
    program["tolerance"] = {"moments": float(6 * np.sqrt(2) * errors.max())}
    expected = {"moments": moments}
    if bounded or truncated:
        # 10 of the 20000 and more numbers lie within this share of the range from its ends: with either law the density
        # at the end is above 1/20 of that of the uniform one. Chance of none is exp(-10).
        program["tolerance"]["largest"] = 20 * 10 / x.size
        expected["largest"] = np.array(1.0)
    return {"scale": np.array(scale)}, expected
