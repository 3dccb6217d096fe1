"""Feature columns: what DenseFeatures, the linear model of the estimators and SequenceFeatures compute of a batch.

A column is a dict {"type": a function of tf.feature_column, ...its arguments}. A feature is {"dtype", "rows"}, and
"dense" where rows have equal lengths; a row of null is a feature that an example lacks, which "examples" alone have:
there the features are written as tf.Examples, and parsed by make_parse_example_spec().
"""

import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow_estimator.python.estimator.canned.linear import LinearModel

v1 = tf.compat.v1
fc = tf.feature_column

WORDS = ["a", "b", "c", "d", "e"]
TEXTS = WORDS + ["zz", "", " a", "A", "-1", "7", "\u00e4\u00f6", "0123456789" * 4]
INTEGERS = [-1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 9, 100, -7, 12345678901]
NUMBERS = [0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 10.0, 1e6, -0.0]
NORMALIZERS = {
    "shift": lambda x: (tf.cast(x, tf.float32) - 2.0) / 3.0,
    "log1p": lambda x: tf.math.log1p(tf.maximum(tf.cast(x, tf.float32), 0.0)),
}
# The features of a program: kind of values, dense width (None: rows of any length), their column of weights.
FEATURES = {
    "n": ("float32", 1), "n2": ("float32", 2), "d": ("float64", 1), "k": ("int64", 1), "j": ("int32", 1),
    "s": ("string", None), "s1": ("string", 1), "s2": ("string", 2), "t": ("string", None),
    "i": ("int64", None), "i1": ("int64", 1), "i2": ("int64", 2),
}
NUMERIC = ["n", "n2", "d", "k", "j"]


def number(value):
    return {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}.get(value, value) if isinstance(value, str) else value


def draw_number(random, dtype):
    if dtype in ("int64", "int32"):
        return random.choice([-3, 0, 1, 2, 5, 17, 1000])
    if random.random() < 0.04:
        return random.choice(["nan", "inf", "-inf"])
    return random.choice(NUMBERS) if random.random() < 0.5 else round(random.uniform(-3, 3), 3)


def draw_value(random, dtype):
    if dtype == "string":
        return random.choice(WORDS) if random.random() < 0.6 else random.choice(TEXTS)
    return random.randrange(6) if random.random() < 0.6 else random.choice(INTEGERS)


def dtype_of(key):
    return "string" if key[:1] in ("s", "t") or key.startswith("qs") else "int64"


def numeric_column(random, examples, plain=False):
    key = random.choice(["n", "n2", "k"] if examples else NUMERIC)
    dtype, width = FEATURES[key]
    column = {"type": "numeric_column", "key": key, "dtype": dtype, "shape": [width]}
    if examples and random.random() < 0.7:
        values = [2, -1] if dtype == "int64" else [0.5, -1.5]
        column["default_value"] = values[:width] if random.random() < 0.5 else values[0]
    if not plain and random.random() < 0.3:
        column["normalizer_fn"] = random.choice(["shift", "log1p"])
    return column


def bucketized_column(random, examples):
    boundaries = sorted(random.sample([-2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 10.0], random.randint(1, 4)))
    return {"type": "bucketized_column", "source": numeric_column(random, examples, plain=random.random() < 0.7),
            "boundaries": boundaries}


def categorical_column(random, examples, sequence=False, keys=None):
    key = random.choice(keys or [name for name, (dtype, _) in FEATURES.items() if name not in NUMERIC])
    dtype = dtype_of(key)
    prefix = "sequence_categorical_column_with_" if sequence else "categorical_column_with_"
    kinds = ["hash_bucket", "vocabulary_list", "vocabulary_file"]
    kind = random.choice(kinds + ["identity", "identity"] if dtype == "int64" else kinds)
    column = {"type": prefix + kind, "key": key}
    if kind == "hash_bucket":
        column.update(hash_bucket_size=random.choice([1, 2, 5, 10]), dtype=dtype)
    elif kind == "identity":
        column["num_buckets"] = random.choice([1, 4, 8])
        if random.random() < 0.7:
            column["default_value"] = random.randrange(column["num_buckets"])
    else:
        vocabulary = random.sample(WORDS, random.randint(1, 4)) if dtype == "string" else random.sample(range(7), 3)
        if random.random() < 0.15 and kind == "vocabulary_list":  # A file with an empty line is refused there.
            vocabulary.insert(0, "" if dtype == "string" else -1)
        column["vocabulary_list" if kind == "vocabulary_list" else "lines"] = vocabulary
        column["dtype"] = dtype
        option = random.random()
        if option < 0.3:
            column["num_oov_buckets"] = random.choice([1, 3])
        elif option < 0.6:
            column["default_value"] = random.choice([-1, 0, len(vocabulary) - 1])
        if kind == "vocabulary_file" and random.random() < 0.4:
            column["vocabulary_size"] = random.randint(1, len(vocabulary))
            if "default_value" in column:
                column["default_value"] = min(column["default_value"], column["vocabulary_size"] - 1)
    return column


def crossed_column(random, examples):
    keys = []
    while len(keys) < random.choice([2, 2, 3]):
        draw = random.random()
        if draw < 0.4:
            # A raw key is parsed as texts.
            keys.append(random.choice(["s", "s1", "s2", "t"] if examples else ["s", "s1", "s2", "t", "i", "i1", "i2"]))
        elif draw < 0.6:
            keys.append(bucketized_column(random, examples))
        elif draw < 0.95:
            column = categorical_column(random, examples)
            if column["type"] != "categorical_column_with_hash_bucket":
                keys.append(column)
        elif len(keys) == 0:
            keys.append(crossed_column(random, examples))
    # A key that is crossed with a column of the same key is read as texts and as integers: resolve() refuses it.
    own = set().union(*[keys_of(key) for key in keys if isinstance(key, dict)])
    keys = [key for key in keys if isinstance(key, dict) or key not in own]
    if len(keys) < 2:
        return crossed_column(random, examples)
    column = {"type": "crossed_column", "keys": keys, "hash_bucket_size": random.choice([2, 5, 10])}
    if random.random() < 0.3:
        column["hash_key"] = random.choice([0, 1, 1234567, 2**40])
    return column


def any_categorical(random, examples):
    draw = random.random()
    if draw < 0.2:
        return crossed_column(random, examples)
    if draw < 0.4:
        column = categorical_column(random, examples)
        weighted = {"type": "weighted_categorical_column", "categorical_column": column,
                    "weight_feature_key": column["key"] + "_weights"}
        return weighted
    return categorical_column(random, examples)


def embedding(random, categorical):
    column = {"type": "embedding_column", "categorical_column": categorical, "dimension": random.choice([1, 2, 3])}
    if random.random() < 0.7:
        column["combiner"] = random.choice(["mean", "sqrtn", "sum"])
    if random.random() < 0.3:
        column["max_norm"] = random.choice([0.3, 1.0])
    return column


def dense_column(random, examples):
    draw = random.random()
    if draw < 0.15:
        return numeric_column(random, examples)
    if draw < 0.3:
        return bucketized_column(random, examples)
    if draw < 0.55:
        return {"type": "indicator_column", "categorical_column": any_categorical(random, examples)}
    if draw < 0.9:
        return embedding(random, any_categorical(random, examples))
    keys = random.sample(["s", "s1", "s2", "t"], 2)
    size = random.choice([2, 5])
    shared = {"type": "shared_embeddings", "dimension": 2, "categorical_columns": [
        {"type": "categorical_column_with_hash_bucket", "key": key, "hash_bucket_size": size, "dtype": "string"}
        for key in keys]}
    if random.random() < 0.7:
        shared["combiner"] = random.choice(["mean", "sqrtn", "sum"])
    if random.random() < 0.3:
        shared["max_norm"] = 0.5
    return shared


def sequence_column(random, examples):
    if random.random() < 0.3:
        column = {"type": "sequence_numeric_column", "key": random.choice(["q", "q2"])}
        column["shape"] = [2] if column["key"] == "q2" else [1]
        if random.random() < 0.4:
            column["default_value"] = 1.5
        if random.random() < 0.3:
            column["normalizer_fn"] = "shift"
        return column
    keys = ["qs", "qi"] if examples or random.random() < 0.7 else ["qs3", "qi3"]
    categorical = categorical_column(random, examples, sequence=True, keys=[keys[0]] if random.random() < 0.6 else keys)
    if random.random() < 0.4:
        return {"type": "indicator_column", "categorical_column": categorical}
    return embedding(random, categorical)


def name_of(column):
    """The name of a column, as TensorFlow makes it."""
    if isinstance(column, str):
        return column
    if column["type"] == "crossed_column":
        return "_X_".join(sorted(name_of(key) for key in column["keys"]))
    for part, suffix in (("source", "_bucketized"), ("categorical_column", "_" + column["type"][:-len("_column")])):
        if part in column:
            return name_of(column[part]) + suffix
    return column.get("key", "")


def distinct(columns):
    """Without columns whose name another one has: a layer has each name once."""
    found = {}
    for column in columns:
        found.setdefault(name_of(column), column)
    return list(found.values())


def consistent(column, known):
    """Whether columns of one name are one column: resolve() makes the entries of a name once."""
    if isinstance(column, list):
        return all([consistent(part, known) for part in column])
    if not isinstance(column, dict):
        return True
    same = "type" not in column or known.setdefault(name_of(column), column) == column
    return all([consistent(part, known) for part in column.values()]) and same


def keys_of(column, found=None):
    """The features that a column reads."""
    found = set() if found is None else found
    if isinstance(column, str):
        found.add(column)
    elif isinstance(column, dict):
        if "key" in column:
            found.add(column["key"])
        if "weight_feature_key" in column:
            found.add(column["weight_feature_key"])
        for name in ("categorical_column", "source"):
            if name in column:
                keys_of(column[name], found)
        for part in column.get("keys", []) + column.get("categorical_columns", []):
            keys_of(part, found)
    return found


def defaults_of(column, found):
    if isinstance(column, dict):
        if column.get("type") == "numeric_column":
            found[column["key"]] = found.get(column["key"], True) and "default_value" in column
        for part in column.values():
            defaults_of(part, found)
    elif isinstance(column, list):
        for part in column:
            defaults_of(part, found)
    return found


def draw_features(random, columns, batch, examples):
    keys = set().union(*[keys_of(column) for column in columns])
    lengths = [random.choice([0, 1, 1, 2, 3]) for _ in range(batch)]
    steps = [random.choice([0, 1, 2, 3]) for _ in range(batch)]
    default = defaults_of(columns, {})
    features = {}
    for key in sorted(keys):
        if key.startswith("q"):
            dtype = {"s": "string", "i": "int64"}.get(key[1:2], "float32")
            if key.endswith("3"):
                width = random.choice([1, 2])
                rows = [[[draw_value(random, dtype) for _ in range(random.randint(1, width))] for _ in range(length)]
                        for length in steps]
            elif dtype == "float32":
                rows = [[round(random.uniform(-2, 2), 3) for _ in range(length * (2 if key == "q2" else 1))]
                        for length in steps]
            else:
                rows = [[draw_value(random, dtype) for _ in range(length)] for length in steps]
            features[key] = {"dtype": dtype, "rows": rows}
        elif key in FEATURES:
            dtype, width = FEATURES[key]
            if key in NUMERIC:
                features[key] = {"dtype": dtype, "dense": True,
                                 "rows": [[draw_number(random, dtype) for _ in range(width)] for _ in range(batch)]}
                if examples and default.get(key):
                    for row in range(batch):
                        if random.random() < 0.3:
                            features[key]["rows"][row] = None
            else:
                feature = {"dtype": dtype, "rows": [[draw_value(random, dtype) for _ in range(width or length)]
                                                    for length in lengths]}
                if width and not examples:
                    feature["dense"] = True
                features[key] = feature
    for key in sorted(keys):
        if key.endswith("_weights"):
            source = features[key[:-len("_weights")]]
            feature = {"dtype": "float32", "rows": [[random.choice([0.5, 1.0, 2.0, -1.0, 0.0, 0.25]) for _ in row]
                                                    for row in source["rows"]]}
            if source.get("dense"):
                # The weights of a dense feature must be missing, 0, where its values are, and nowhere else.
                feature = {"dtype": "float32", "dense": True, "rows": [
                    [0.0 if value in ("", -1) else random.choice([0.5, 1.0, 2.0, -1.0]) for value in row]
                    for row in source["rows"]]}
            features[key] = feature
    return features


def keep_inside(columns, features):
    """Makes ids of identity columns without a default_value small enough: what is too large is an error of Muster's,
    and nothing where TensorFlow does not look it up."""
    if isinstance(columns, list):
        for column in columns:
            keep_inside(column, features)
    elif isinstance(columns, dict):
        keep_inside(list(columns.values()), features)
        if columns.get("type", "").endswith("_identity") and "default_value" not in columns:
            feature = features.get(columns["key"], {"rows": []})

            def inside(value):
                if isinstance(value, list):
                    return [inside(each) for each in value]
                return value % columns["num_buckets"] if value >= columns["num_buckets"] else value
            feature["rows"] = inside(feature["rows"])


def generate(random):
    layer = random.choice(["DenseFeatures", "DenseFeatures", "LinearModel", "SequenceFeatures"])
    examples = random.random() < 0.3
    columns = []
    for _ in range(random.randint(1, 3)):
        if layer == "SequenceFeatures":
            columns.append(sequence_column(random, examples))
        elif layer == "DenseFeatures" or random.random() < 0.3:
            columns.append(dense_column(random, examples))
        else:
            columns.append(any_categorical(random, examples))
    program = {"layer": layer, "columns": columns, "batch": random.choice([1, 2, 4]), "seed": random.randrange(1000)}
    program["columns"] = columns = distinct(columns)
    if layer == "LinearModel":
        program["units"] = random.choice([1, 1, 3])
        if random.random() < 0.6:
            program["sparse_combiner"] = random.choice(["sum", "mean", "sqrtn"])
        program["columns"] = [column for column in columns if column["type"] != "shared_embeddings"] or [
            numeric_column(random, examples)]
    if examples:
        program["examples"] = True
    if random.random() < 0.5 and consistent(program["columns"], {}):
        program["resolved"] = True  # in the input pipeline; else the layer resolves the batch
    program["features"] = draw_features(random, program["columns"], program["batch"], examples)
    keep_inside(program["columns"], program["features"])
    return program


def make_column(spec, folder):
    """The columns that a dict describes; several of shared_embeddings."""
    spec = dict(spec)
    kind = spec.pop("type")
    for name in ("categorical_column", "source"):
        if name in spec:
            spec[name] = make_column(spec[name], folder)[0]
    if kind == "bucketized_column":
        return [fc.bucketized_column(spec["source"], spec["boundaries"])]
    if "categorical_columns" in spec:
        spec["categorical_columns"] = [make_column(part, folder)[0] for part in spec["categorical_columns"]]
        return fc.shared_embeddings(**spec)
    if "keys" in spec:
        spec["keys"] = [part if isinstance(part, str) else make_column(part, folder)[0] for part in spec["keys"]]
    if "normalizer_fn" in spec:
        normalizer = NORMALIZERS[spec["normalizer_fn"]]
        # That of a sequence is given the SparseTensor.
        spec["normalizer_fn"] = normalizer
        if kind != "numeric_column":
            spec["normalizer_fn"] = lambda x: x.with_values(normalizer(x.values))
    if "lines" in spec:
        spec["vocabulary_file"] = os.path.join(folder, f"vocabulary_{len(os.listdir(folder))}.txt")
        with open(spec["vocabulary_file"], "w") as file:
            file.writelines(f"{line}\n" for line in spec.pop("lines"))
    if "dtype" in spec:
        spec["dtype"] = tf.as_dtype(spec["dtype"])
    if "shape" in spec:
        spec["shape"] = tuple(spec["shape"])
    return [getattr(fc, kind)(**spec)]


def make_columns(specs, folder):
    return [column for spec in specs for column in make_column(spec, folder)]


def tensor(feature):
    """What TensorFlow is given for a feature: a tensor, or a SparseTensor of its rows."""
    dtype = tf.as_dtype(feature["dtype"])
    rows = feature["rows"]
    if feature.get("dense"):
        return tf.constant([[number(value) if dtype != tf.string else value for value in row] for row in rows], dtype)
    deep = any(isinstance(value, list) for row in rows for value in row)
    width = max([len(row) for row in rows] + [0])
    indices, values = [], []
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if deep:
                # Lists in steps have no lengths in Muster, and "" and -1 fill them up.
                there = [k for k in range(len(value)) if value[k] not in ("", -1)]
                indices += [[i, j, k] for k in there]
                values += [value[k] for k in there]
            else:
                indices.append([i, j])
                values.append(number(value) if dtype != tf.string else value)
    shape = [len(rows), width]
    if deep:
        shape.append(max([len(step) for row in rows for step in row] + [0]))
    values = tf.constant(values, dtype) if values else tf.zeros([0], dtype) if dtype != tf.string else tf.constant(
        [], dtype, shape=[0])
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, len(shape)), values, shape)


def parsed(program, columns):
    serialized = []
    for row in range(program["batch"]):
        feature = {}
        for key, given in program["features"].items():
            values = given["rows"][row]
            if values is None:
                continue
            if given["dtype"] == "string":
                feature[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[v.encode() for v in values]))
            elif given["dtype"] == "int64":
                feature[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            else:
                feature[key] = tf.train.Feature(float_list=tf.train.FloatList(value=[number(v) for v in values]))
        serialized.append(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return tf.io.parse_example(serialized, fc.make_parse_example_spec(columns))


def run(program):
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        columns = make_columns(program["columns"], folder)
        if program.get("examples"):
            features = parsed(program, columns)
        else:
            features = {key: tensor(feature) for key, feature in program["features"].items()}
        if program["layer"] == "LinearModel":
            layer = LinearModel(columns, program["units"], program.get("sparse_combiner", "sum"), name="layer")
        elif program["layer"] == "SequenceFeatures":
            layer = tf.keras.experimental.SequenceFeatures(columns, name="layer")
        else:
            layer = tf.keras.layers.DenseFeatures(columns, name="layer")
        given = layer(features)
        random = np.random.RandomState(program["seed"])
        inputs = {}
        with v1.Session() as session:
            session.run(v1.tables_initializer())
            for variable in sorted(v1.global_variables(), key=lambda v: v.name):
                value = random.uniform(-1, 1, variable.shape).round(3).astype(np.float32)
                variable.load(value, session)
                parts = variable.op.name.split("/")
                shared = "layer" not in parts
                name = [parts[-1], "embedding_weights"] if shared else parts[parts.index("layer") + 1:]
                inputs["/".join(name)] = value
            given = session.run(given)
    if program["layer"] == "SequenceFeatures":
        return inputs, {"values": given[0], "lengths": given[1].astype(np.int64)}
    return inputs, {"values": given}
