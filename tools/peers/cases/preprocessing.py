"""tf.keras.layers of preprocessing: what they learn from data, and what they make of inputs."""

import numpy as np
import tensorflow as tf

TEXTS = ["red", "green", "blue", "", "a b", "Red", "\u00e9t\u00e9", "[UNK]", "10"]
INTERPOLATIONS = ["nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"]


def maybe(random, options, name, values, chance=0.4):
    if random.random() < chance:
        options[name] = random.choice(values)


def shape_of(random, axes=(1, 2, 2)):
    return [random.choice([1, 2, 4]) for _ in range(random.choice(axes))]


def normalization(random):
    shape = [random.choice([2, 5])] + [random.choice([1, 2, 3]) for _ in range(random.choice([1, 1, 2]))]
    options = {}
    if len(shape) == 3:
        maybe(random, options, "axis", [1, 2, [1, 2], -1, None, -2], 0.7)
    else:
        maybe(random, options, "axis", [-1, 1, None], 0.5)
    maybe(random, options, "invert", [True], 0.3)
    program = {"options": options, "shape": shape, "adapt": random.choice([1, 7])}
    if random.random() < 0.2:
        options.update(mean=1.5, variance=random.choice([0.0, 4.0]), axis=None)
        program["adapt"] = 0
    return program


def discretization(random):
    options = {}
    maybe(random, options, "output_mode", ["int", "one_hot", "multi_hot", "count"], 0.6)
    program = {"options": options, "shape": shape_of(random), "adapt": 0}
    if options.get("output_mode") == "one_hot":
        program["shape"] = [program["shape"][0], 1]
    if random.random() < 0.6:
        options["bin_boundaries"] = sorted(random.sample([-1.5, -1.0, 0.0, 0.5, 2.0], random.randint(1, 4)))
    else:
        options["num_bins"] = random.choice([2, 3, 5])
        # Of more than 100 numbers Keras keeps a summary; Muster sorts them, up to a million.
        program["adapt"] = random.choice([10, 20])
    return program


def category_encoding(random):
    options = {"num_tokens": random.choice([3, 6])}
    maybe(random, options, "output_mode", ["one_hot", "multi_hot", "count"], 0.7)
    shape = shape_of(random)
    if options.get("output_mode") == "one_hot":
        shape = [shape[0], 1]
    return {
        "options": options,
        "shape": shape,
        "adapt": 0,
        "count_weights": options.get("output_mode") == "count" and random.random() < 0.5,
    }


def hashing(random):
    options = {"num_bins": random.choice([1, 2, 7, 1000])}
    texts = random.random() < 0.5
    if random.random() < 0.4:
        options["salt"] = random.choice([3, [1, 2], [133, 137]])
    maybe(random, options, "mask_value", [""] if texts else [0, -1])
    if options["num_bins"] < 1000:
        maybe(random, options, "output_mode", ["int", "one_hot", "multi_hot", "count"])
    shape = shape_of(random)
    if options.get("output_mode") == "one_hot":
        shape = [shape[0], 1]
    return {"options": options, "shape": shape, "adapt": 0, "texts": texts}


def lookup(random):
    texts = random.random() < 0.6
    options = {}
    maybe(random, options, "num_oov_indices", [1, 2, 3])
    maybe(random, options, "mask_token", ["", "red"] if texts else [0, 5])
    maybe(random, options, "oov_token", ["[UNK]", "?"] if texts else [-1, 99])
    maybe(random, options, "output_mode", ["int", "one_hot", "multi_hot", "count", "tf_idf"], 0.5)
    shape = shape_of(random)
    mode = options.get("output_mode", "int")
    if mode == "one_hot":
        shape = [shape[0], 1]
    program = {"options": options, "shape": shape, "adapt": 0, "texts": texts}
    if random.random() < 0.5:
        program["adapt"] = random.choice([5, 30])
        maybe(random, options, "max_tokens", [6, 20])
    else:
        known = ["red", "green", "blue", "a b"] if texts else [7, 3, 11, -4]
        options["vocabulary"] = [token for token in known if token != options.get("mask_token")][: random.randint(1, 4)]
        if mode == "tf_idf":
            options["idf_weights"] = [random.choice([0.5, 1.0, 2.0]) for _ in options["vocabulary"]]
    if mode not in ("int",):
        if "max_tokens" in options:
            maybe(random, options, "pad_to_max_tokens", [True])
    elif random.random() < 0.25:
        options["invert"] = True
        options["num_oov_indices"] = 1
    return program


def resizing(random):
    name = random.choice(["Resizing", "Resizing", "CenterCrop"])
    options = {"height": random.choice([1, 2, 3, 5, 8]), "width": random.choice([1, 2, 3, 5, 8])}
    if name == "Resizing":
        maybe(random, options, "interpolation", INTERPOLATIONS, 0.8)
        maybe(random, options, "crop_to_aspect_ratio", [True], 0.3)
    shape = [random.choice([1, 2]), random.choice([2, 3, 6]), random.choice([2, 4, 7]), random.choice([1, 3])]
    return {
        "class": name,
        "options": options,
        "shape": shape if random.random() < 0.7 else shape[1:],
        "adapt": 0,
        "bytes": random.random() < 0.3,
    }


MAKERS = {
    "Normalization": normalization,
    "Discretization": discretization,
    "CategoryEncoding": category_encoding,
    "Hashing": hashing,
    "Lookup": lookup,
    "Resizing": resizing,
}


def generate(random):
    name = random.choice(list(MAKERS))
    program = MAKERS[name](random)
    if name == "Lookup":
        name = "StringLookup" if program["texts"] else "IntegerLookup"
    return {"class": name, **program, "seed": random.randint(0, 10**6)}


def values_of(program, numbers, shape):
    name, options = program["class"], program["options"]
    if name in ("Normalization", "Discretization"):
        # Boundaries and equal numbers are among them.
        return np.where(
            numbers.rand(*shape) < 0.3, numbers.choice([-1.0, 0.0, 0.5, 2.0], shape), 2 * numbers.randn(*shape)
        ).astype(np.float32)
    if name == "CategoryEncoding":
        return numbers.randint(0, options["num_tokens"], shape)
    if name in ("Resizing", "CenterCrop"):
        if program["bytes"]:
            return numbers.randint(0, 256, shape).astype(np.uint8)
        return numbers.rand(*shape).astype(np.float32)
    if program["texts"]:
        return np.array(TEXTS, object)[numbers.randint(0, len(TEXTS), shape)]
    return numbers.choice([7, 3, 11, -4, 0, 5, -1, 1000], shape).astype(np.int64)


def run(program):
    numbers = np.random.RandomState(program["seed"])
    name, options = program["class"], dict(program["options"])
    layer = getattr(tf.keras.layers, name)(**options)
    inputs, expected = {}, {}
    if program["adapt"]:
        rows = program["adapt"]
        learned = values_of({**program, "options": options}, numbers, [rows] + program["shape"][1:])
        inputs["adapt"] = learned
        layer.adapt(tf.constant(learned))
    if name == "Normalization" and program["adapt"]:
        expected["mean"] = np.asarray(layer.adapt_mean.numpy(), np.float32).reshape(-1)
        expected["variance"] = np.asarray(layer.adapt_variance.numpy(), np.float32).reshape(-1)
    if name == "Discretization" and program["adapt"]:
        expected["boundaries"] = np.asarray(layer.bin_boundaries, np.float32)
    if name.endswith("Lookup"):
        vocabulary = layer.get_vocabulary()
        expected["vocabulary"] = np.asarray(vocabulary, object if program["texts"] else np.int64)
    if options.get("invert") and name.endswith("Lookup"):
        given = numbers.randint(0, layer.vocabulary_size() + 2, program["shape"])
    else:
        given = values_of(program, numbers, program["shape"])
    inputs["input"] = given
    more = {}
    if program.get("count_weights"):
        inputs["count_weights"] = numbers.rand(*program["shape"]).astype(np.float32)
        more["count_weights"] = inputs["count_weights"]
    output = layer(tf.constant(given), **more)
    expected["output"] = output.numpy()
    if options.get("interpolation") == "bicubic":
        # TensorFlow takes weights from a table of 1024 places; Muster computes them. The formula's slope is at most
        # 1.2, so that half a place is 6e-4 in each of 8 weights, four on each axis.
        program["tolerance"] = {"output": 8 * 6e-4}
    return inputs, expected
