"""What the kind "heads" adds to estimators: loss functions and link functions of a head, by name, and the signatures of
an exported model.
"""

import os

import numpy as np
import tensorflow as tf

from cases import columns as table

v1 = tf.compat.v1
LINKS = {"exp": tf.exp, "softplus": tf.nn.softplus}


def loss_fn(head):
    """The loss of each example, [batch, 1]; for RegressionHead [batch, label_dimension]."""
    kind, name = head["type"], head["loss_fn"]

    def loss(labels, logits, features):
        if kind == "MultiClassHead":
            labels = tf.one_hot(tf.squeeze(labels, -1), head["n_classes"])
        y = tf.cast(labels, tf.float32)
        if name == "poisson":
            each = tf.exp(logits) - y * logits
        elif kind == "RegressionHead":
            each = tf.abs(y - logits)
        elif name == "hinge":
            each = tf.nn.relu(1 - (2 * y - 1) * logits)
        else:
            each = tf.square(y - (tf.nn.softmax(logits) if kind == "MultiClassHead" else tf.sigmoid(logits)))
        if kind in ("MultiClassHead", "MultiLabelHead"):
            each = tf.reduce_mean(each, -1, keepdims=True)
        return each * (1 + features["scale"]) if head.get("scaled") else each

    return loss


def functions_of(head):
    """The options of a head that are functions."""
    found = {}
    if "loss_fn" in head:
        found["loss_fn"] = loss_fn(head)
    if "inverse_link_fn" in head:
        found["inverse_link_fn"] = LINKS[head["inverse_link_fn"]]
    return found


def serialized(program, row):
    features = {}
    for key, feature in program["features"].items():
        values = feature["rows"][row]
        if feature["dtype"] == "string":
            made = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode() for value in values]))
        elif feature["dtype"] == "int64":
            made = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        else:
            made = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        features[key] = made
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def signatures(program, estimator, columns, folder):
    """What the signatures of an export answer: (inputs, expected)."""
    spec = tf.feature_column.make_parse_example_spec(columns)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    path = estimator.export_saved_model(os.path.join(folder, "export"), receiver)
    rows = len(next(iter(program["features"].values()))["rows"])
    examples = [serialized(program, row) for row in range(rows)]
    expected = {}
    with v1.Session(graph=tf.Graph()) as session:
        found = v1.saved_model.load(session, ["serve"], path.decode()).signature_def
        expected["signatures"] = np.array(
            sorted(f"{name} {one.method_name.rsplit('/', 1)[1]}" for name, one in found.items()))
        for name, one in found.items():
            [given] = one.inputs.values()
            for key, output in one.outputs.items():
                # Muster's "predict" has numbers alone.
                if output.dtype == tf.string.as_datatype_enum and one.method_name.endswith("predict"):
                    continue
                expected[f"signature {name}/{key}"] = session.run(output.name, {given.name: examples})
    return {"examples": np.array([example.hex() for example in examples])}, expected


def draw_functions(random, program):
    """Gives heads functions, and the examples what a loss reads."""
    heads = program["head"].get("heads", [program["head"]])
    for head in heads:
        kind = head["type"]
        if kind not in ("BinaryClassHead", "MultiClassHead", "MultiLabelHead", "RegressionHead"):
            continue
        if random.random() < 0.8:
            names = ["absolute", "poisson"] if kind == "RegressionHead" else ["hinge", "squared"]
            head["loss_fn"] = random.choice(names)
            if random.random() < 0.4:
                head["scaled"] = True
        if kind == "RegressionHead" and random.random() < 0.7:
            head["inverse_link_fn"] = random.choice(sorted(LINKS))
    if any(head.get("scaled") for head in heads):
        rows = len(next(iter(program["features"].values()))["rows"])
        program["features"]["scale"] = {"dtype": "float32", "dense": True,
                                        "rows": [[random.choice([0.0, 0.5, 2.0])] for _ in range(rows)]}
