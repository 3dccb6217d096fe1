"""Canned estimators of tf.estimator: from a checkpoint of TensorFlow, the loss of each step, the variables at the end,
the metrics of an evaluation and the predictions. Columns and features are those of the kind "columns".

A case has files beside it: the checkpoint that both begin with, NAME.ckpt-0.index and NAME.ckpt-0.data-00000-of-00001.
"""

import itertools
import os
import re
import tempfile

import numpy as np
import tensorflow as tf

import head_parts
from cases import columns as table

v1 = tf.compat.v1
v1.logging.set_verbosity(v1.logging.ERROR)

CHECKPOINT = "ckpt-0"
FILES = [".index", ".data-00000-of-00001"]
ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.nn.tanh, "sigmoid": tf.nn.sigmoid, "elu": tf.nn.elu, "selu": tf.nn.selu,
               "softplus": tf.nn.softplus, "softsign": tf.nn.softsign, "relu6": tf.nn.relu6}
HEADS = ["BinaryClassHead", "MultiClassHead", "MultiLabelHead", "RegressionHead", "PoissonRegressionHead",
         "LogisticRegressionHead"]
NAMES = ["no", "yes", "may be"]


def optimizer_options(random, sparse):
    """An optimizer and its options. Adam, and RMSprop without momentum, change rows of a table that a batch does not
    name, and Muster's do not: these are drawn for models without tables alone."""
    name = random.choice(["SGD", "Adagrad", "Ftrl", "RMSprop"] + ([] if sparse else ["Adam", "Adam"]))
    options = {"name": name, "learning_rate": random.choice([0.01, 0.05, 0.2])}

    def maybe(key, *values):
        if random.random() < 0.5:
            options[key] = random.choice(values)

    if name == "SGD":
        maybe("momentum", 0.5, 0.9)
        maybe("nesterov", True, False)
    elif name == "Adagrad":
        maybe("initial_accumulator_value", 0.0, 0.5)
        maybe("epsilon", 1e-7, 1e-3)
    elif name == "Adam":
        # With steps of 0.2, or beta_1 = 0, rounding grew to 2e-5 in 8 steps.
        options["learning_rate"] = random.choice([0.01, 0.05])
        maybe("beta_1", 0.5)
        maybe("beta_2", 0.9)
        maybe("epsilon", 1e-3)
        maybe("amsgrad", True)
    elif name == "RMSprop":
        maybe("rho", 0.5)
        maybe("centered", True)
        maybe("epsilon", 1e-3)
        options["momentum"] = random.choice([0.3, 0.8]) if sparse else random.choice([0.0, 0.3, 0.8])
        options["learning_rate"] = 0.01
    else:
        maybe("learning_rate_power", -0.3, 0.0)
        maybe("initial_accumulator_value", 0.5)
        maybe("l1_regularization_strength", 0.02, 0.001)
        maybe("l2_regularization_strength", 0.05)
        maybe("l2_shrinkage_regularization_strength", 0.05)
        maybe("beta", 0.1)
    return options


def draw_optimizer(random, sparse):
    if random.random() < 0.3:
        return random.choice(["Adagrad", "Ftrl", "SGD"] + ([] if sparse else ["Adam", "RMSProp"]))
    return optimizer_options(random, sparse)


def head_options(random, kind, name=None):
    head = {"type": kind}
    if name:
        head["name"] = name
    elif random.random() < 0.2:
        head["name"] = "one"
    if kind in ("BinaryClassHead", "MultiLabelHead") and random.random() < 0.4:
        head["thresholds"] = random.choice([[0.5], [0.3, 0.75]])
    classes = {"BinaryClassHead": 2, "MultiClassHead": 3, "MultiLabelHead": random.choice([2, 3])}.get(kind)
    if classes and kind != "BinaryClassHead":
        head["n_classes"] = classes
    if classes and random.random() < 0.3:
        head["label_vocabulary"] = NAMES[:classes]
        if kind == "MultiLabelHead":
            head["label_vocabulary"] = ["no", "yes", "may be"][:classes]
    if kind == "MultiLabelHead" and random.random() < 0.4:
        head["classes_for_class_based_metrics"] = [head["label_vocabulary"][1] if "label_vocabulary" in head else 1]
    if kind in ("RegressionHead", "PoissonRegressionHead"):
        head["label_dimension"] = random.choice([1, 1, 2])
    if kind == "PoissonRegressionHead" and random.random() < 0.4:
        head["compute_full_loss"] = False
    if random.random() < 0.4:
        head["weight_column"] = "weight"
    if random.random() < 0.4:
        head["loss_reduction"] = random.choice(["sum", "sum_over_batch_size"])
    return head


def draw_labels(random, head, rows):
    kind = head["type"]
    if kind == "MultiHead":
        return {each["name"]: draw_labels(random, each, rows) for each in head["heads"]}
    if kind == "MultiLabelHead":
        names = head.get("label_vocabulary")
        if names or random.random() < 0.3:
            lists = [random.sample(names or range(head["n_classes"]), random.randint(0, head["n_classes"]))
                     for _ in range(rows)]
            return {"dtype": "string" if names else "int64", "rows": lists}
        return {"dtype": "int64", "dense": True,
                "rows": [[random.randrange(2) for _ in range(head["n_classes"])] for _ in range(rows)]}
    if kind in ("BinaryClassHead", "MultiClassHead"):
        classes = head.get("n_classes", 2)
        names = head.get("label_vocabulary")
        if names:
            return {"dtype": "string", "dense": True, "rows": [[random.choice(names)] for _ in range(rows)]}
        if kind == "BinaryClassHead" and random.random() < 0.3:
            return {"dtype": "float32", "dense": True, "rows": [[random.choice([0, 1, 1, 0.3])] for _ in range(rows)]}
        single = random.random() < 0.1
        return {"dtype": random.choice(["int64", "int32"]) if kind == "BinaryClassHead" else "int64", "dense": True,
                "rows": [[1 if single else random.randrange(classes)] for _ in range(rows)]}
    if kind == "LogisticRegressionHead":
        return {"dtype": "float32", "dense": True, "rows": [[random.choice([0.0, 1.0, 0.25])] for _ in range(rows)]}
    values = [0, 1, 2, 3, 5] if kind == "PoissonRegressionHead" else [-1.5, -0.2, 0.0, 0.7, 1.0]
    return {"dtype": "float32", "dense": True,
            "rows": [[random.choice(values) for _ in range(head["label_dimension"])] for _ in range(rows)]}


def weighted(head):
    return "weight_column" in head or any(weighted(each) for each in head.get("heads", []))


def has_table(columns):
    """Whether the network has a variable of which a batch changes some rows alone."""
    return any(column["type"] in ("embedding_column", "shared_embeddings") for column in columns)


def dense_columns(random, count):
    columns = []
    for _ in range(count):
        draw = random.random()
        if draw < 0.35:
            columns.append({"type": "numeric_column", "key": random.choice(["x", "x2"])})
            columns[-1]["shape"] = [2] if columns[-1]["key"] == "x2" else [1]
        elif draw < 0.5:
            columns.append({"type": "bucketized_column", "source": {"type": "numeric_column", "key": "x", "shape": [1]},
                            "boundaries": [-1.0, 0.0, 0.5]})
        else:
            column = table.any_categorical(random, False)
            if draw < 0.7:
                columns.append({"type": "indicator_column", "categorical_column": column})
            else:
                columns.append(table.embedding(random, column))
    return table.distinct(columns)


def linear_columns(random, count):
    columns = [table.any_categorical(random, False) if random.random() < 0.6 else dense_columns(random, 1)[0]
               for _ in range(count)]
    return table.distinct(columns)


def safe(columns):
    """With ids that every lookup has: one that is too large is an error of a training step."""
    if isinstance(columns, dict):
        if columns.get("type", "").endswith("_identity"):
            columns.setdefault("default_value", 0)
        for part in columns.values():
            safe(part)
    elif isinstance(columns, list):
        for part in columns:
            safe(part)


def keeps_noise_small(optimizer):
    """Whether a gradient of the size of rounding makes a step of that size."""
    name = optimizer_name(optimizer)
    options = optimizer if isinstance(optimizer, dict) else {}
    return name == "SGD" or (name in ("Adagrad", "Ftrl") and options.get("initial_accumulator_value", 0.1) > 0)


def updates_without_gradient(optimizer):
    """Whether a weight changes where its gradient is 0."""
    if isinstance(optimizer, dict):
        return optimizer["name"] not in ("SGD", "Adagrad") or optimizer.get("momentum", 0) > 0
    return optimizer not in ("SGD", "Adagrad")


def fill(columns, features):
    """Gives each example an id that counts. TensorFlow takes an example without one as a use of row 0 of the table,
    with a gradient of 0, which Muster does not."""
    for column in columns:
        crossed = [key for key in column.get("keys", []) if isinstance(key, dict)]
        for part in [column] + column.get("categorical_columns", []) + crossed:
            for name in ("categorical_column", "source"):
                if name in part:
                    fill([part[name]], features)
            if part.get("type", "").split("_")[-2:-1] == ["vocabulary"]:
                part["default_value"] = 0
                part.pop("num_oov_buckets", None)
            if part is not column:
                fill([part], features)
    for key, feature in features.items():
        if feature["dtype"] not in ("string", "int64") and not key.endswith("_weights"):
            continue
        for row in feature["rows"]:
            if not row:
                row.append({"string": "a", "int64": 0}.get(feature["dtype"], 1.0))
            for i, value in enumerate(row):
                if key.endswith("_weights"):
                    row[i] = value if value > 0 else 1.5
                elif value in ("", -1) and feature.get("dense"):
                    row[i] = "a" if value == "" else 0


def draw_features(random, columns, rows, head):
    keys = set().union(*[table.keys_of(column) for column in columns]) if columns else set()
    features = table.draw_features(random, columns, rows, False) if columns else {}
    for key, width in (("x", 1), ("x2", 2)):
        if key in keys:
            features[key] = {"dtype": "float32", "dense": True,
                             "rows": [[round(random.uniform(-2, 2), 2) for _ in range(width)] for _ in range(rows)]}
    for key, feature in features.items():
        if feature["dtype"] == "string" or key.startswith(("i", "q")):
            continue
        # Numbers that a network is trained on.
        feature["rows"] = [[value if not isinstance(value, str) and abs(value) < 4 else 2 for value in row]
                           for row in feature["rows"]]
    if weighted(head):
        features["weight"] = {"dtype": "float32", "dense": True,
                              "rows": [[random.choice([0.0, 0.5, 1.0, 1.0, 2.0])] for _ in range(rows)]}
    if not columns:  # Baselines count the rows of a feature that is not the weight.
        features["x"] = {"dtype": "float32", "dense": True, "rows": [[0.5]] * rows}
    return features


def draw_head(random, kind):
    if kind.endswith("Estimator"):
        if random.random() < 0.2:
            heads = [head_options(random, one, name=one[:6]) for one in random.sample(HEADS, 2)]
            reduction = random.choice([None, "sum"])
            for head in heads:
                head.pop("loss_reduction", None)
                if reduction:
                    head["loss_reduction"] = reduction
            multi = {"type": "MultiHead", "heads": heads}
            if random.random() < 0.5:
                multi["head_weights"] = [0.5, 2.0]
            return multi
        return head_options(random, random.choice(HEADS))
    # The head that a classifier or a regressor makes of its options.
    head = head_options(random, "RegressionHead" if kind.endswith("Regressor") else
                        random.choice(["BinaryClassHead", "MultiClassHead"]))
    head.pop("name", None)
    head.pop("thresholds", None)
    return head


def generate(random):
    kind = random.choice(["Linear", "DNN", "DNN", "DNNLinearCombined", "DNNLinearCombined", "Baseline"])
    kind += random.choice(["Classifier", "Regressor", "Estimator"])
    if random.random() < 0.15:
        kind = random.choice(["RNNClassifier", "RNNEstimator"])
    head = draw_head(random, kind)
    rows = random.choice([4, 7, 12])
    program = {"estimator": kind, "head": head, "batch": random.choice([1, 3, 4, 12]), "steps": 50,
               "seed": random.randrange(1000)}
    program["eval_batch"] = rows if kind.startswith("Baseline") else random.choice([1, 3, 12])
    columns = []
    if kind.startswith("Linear"):
        plain = random.random() < 0.3
        program["columns"] = columns = [{"type": "numeric_column", "key": "x2", "shape": [2]}] if plain else (
            linear_columns(random, random.randint(1, 3)))
        program["optimizer"] = draw_optimizer(random, sparse=not plain)
        if program["optimizer"] == "SGD" or random.random() < 0.1:
            program["optimizer"] = None  # Ftrl with the rate of the number of columns
        if random.random() < 0.5:
            program["sparse_combiner"] = random.choice(["sum", "mean", "sqrtn"])
    elif kind.startswith("RNN"):
        columns = generate_recurrent(random, program, rows)
    elif kind.startswith("Baseline"):
        program["optimizer"] = draw_optimizer(random, sparse=False)
    else:
        program["dnn_columns"] = dense_columns(random, random.randint(1, 3))
        columns = list(program["dnn_columns"])
        program["hidden_units"] = random.choice([[3], [4, 3], [2, 2, 2]])
        program["optimizer"] = draw_optimizer(random, sparse=has_table(columns))
        if random.random() < 0.6:
            program["activation_fn"] = random.choice(sorted(ACTIVATIONS))
        # The mean that is subtracted takes a bias with it where the activation is linear. Its gradient is then rounding
        # alone, which some optimizers divide by its own size.
        if random.random() < 0.4 and keeps_noise_small(program["optimizer"]):
            program["batch_norm"] = True
        if kind.startswith("DNNLinear"):
            program["columns"] = linear_columns(random, random.randint(1, 2))
            columns += program["columns"]
            program["linear_optimizer"] = draw_optimizer(random, sparse=True)
            if random.random() < 0.5:
                program["sparse_combiner"] = random.choice(["sum", "mean", "sqrtn"])
    # Rounding grows from step to step: quickly where it is divided by the deviation of a small batch, or by the root of
    # the mean of few squares. These agree for 8 steps.
    if program.get("batch_norm") or not all(
            keeps_noise_small(program[key]) for key in ("optimizer", "linear_optimizer") if program.get(key)):
        program["steps"] = 8
    safe(columns)
    if columns and random.random() < 0.5 and table.consistent(columns, {}):
        program["resolved"] = True
    program["features"] = draw_features(random, columns, rows, head)
    program["labels"] = draw_labels(random, head, rows)
    if (program.get("columns") and updates_without_gradient(program.get("linear_optimizer", program["optimizer"]))) or (
            has_table(program.get("dnn_columns", [])) and updates_without_gradient(program["optimizer"])):
        fill(columns, program["features"])
    return program


def generate_recurrent(random, program, rows):
    """Adds to a program of an RNNClassifier or RNNEstimator what it has beside a head."""
    program["sequence_columns"] = table.distinct(
        [table.sequence_column(random, False) for _ in range(random.randint(1, 2))])
    program["context_columns"] = dense_columns(random, 1) if random.random() < 0.4 else []
    program["units"] = random.choice([[1], [3], [2, 3]])
    program["cell_type"] = random.choice(["simple_rnn", "lstm", "gru"])
    # The steps after the end of a sequence are ones without an id: see fill().
    plain = not has_table(program["sequence_columns"] + program["context_columns"])
    program["optimizer"] = draw_optimizer(random, sparse=False) if plain else random.choice(
        ["Adagrad", {"name": "SGD", "learning_rate": 0.05}])
    # A batch whose longest sequence is shorter than that of the data set ends TensorFlow's with an error.
    program["batch"] = program["eval_batch"] = rows
    return program["sequence_columns"] + program["context_columns"]


def reduction(head):
    if "loss_reduction" not in head:
        return {}
    return {"loss_reduction": {"sum": tf.losses.Reduction.SUM,
                               "sum_over_batch_size": tf.losses.Reduction.SUM_OVER_BATCH_SIZE}[head["loss_reduction"]]}


def make_head(head):
    names = ("type", "loss_reduction", "heads", "scaled")
    options = {key: value for key, value in head.items() if key not in names}
    options.update(head_parts.functions_of(head))
    if "heads" in head:
        options["heads"] = [make_head(each) for each in head["heads"]]
    return getattr(tf.estimator, head["type"])(**options, **reduction(head))


def make_optimizer(given):
    if given is None or isinstance(given, str):
        return given
    options = {key: value for key, value in given.items() if key != "name"}
    # Made where the graph is.
    return lambda: getattr(tf.keras.optimizers.legacy, given["name"])(**options)


def make_estimator(program, folder, model_dir):
    kind, head = program["estimator"], program["head"]
    options = {}
    if kind.endswith("Estimator"):
        options["head"] = make_head(head)
    else:
        for key in ("n_classes", "label_vocabulary", "label_dimension", "weight_column"):
            if key in head:
                options[key] = head[key]
        options.update(reduction(head))
    columns = table.make_columns(program.get("columns", []), folder)
    dnn = table.make_columns(program.get("dnn_columns", []), folder)
    combined = kind.startswith("DNNLinear")
    if combined:
        options["linear_optimizer"] = make_optimizer(program["linear_optimizer"])
        options["linear_feature_columns"] = columns
        options["dnn_feature_columns"] = dnn
        options["dnn_optimizer"] = make_optimizer(program["optimizer"])
        options["dnn_hidden_units"] = program["hidden_units"]
    else:
        options["optimizer"] = make_optimizer(program["optimizer"])
        if columns or dnn:
            options["feature_columns"] = columns or dnn
        if "hidden_units" in program:
            options["hidden_units"] = program["hidden_units"]
    if "activation_fn" in program:
        options["dnn_activation_fn" if combined else "activation_fn"] = ACTIVATIONS[program["activation_fn"]]
    if "batch_norm" in program:
        options["batch_norm"] = program["batch_norm"]
    if "sparse_combiner" in program:
        options["linear_sparse_combiner" if combined else "sparse_combiner"] = program["sparse_combiner"]
    config = tf.estimator.RunConfig(save_checkpoints_steps=1000, save_summary_steps=1000, log_step_count_steps=1000)
    if "units" in program:
        options.update({key: program[key] for key in ("units", "cell_type")})
        options["sequence_feature_columns"] = table.make_columns(program["sequence_columns"], folder)
        options["context_feature_columns"] = table.make_columns(program["context_columns"], folder)
    module = tf.estimator.experimental if kind.startswith("RNN") else tf.estimator
    return getattr(module, kind)(model_dir=model_dir, config=config, **options)


def make_labels(labels):
    return table.tensor(labels) if "rows" in labels else {key: make_labels(each) for key, each in labels.items()}


def input_fn(program, training):
    def make():
        features = {key: table.tensor(feature) for key, feature in program["features"].items()}
        data = tf.data.Dataset.from_tensor_slices((features, make_labels(program["labels"])))
        # Baselines ask for batches whose size is known.
        fixed = program["estimator"].startswith("Baseline")
        if training:
            return data.repeat().batch(program["batch"], drop_remainder=fixed)
        return data.batch(program["eval_batch"], drop_remainder=fixed)
    return make


class Watch(tf.estimator.SessionRunHook):
    """Begins with variables of its own, saves them, and notes the loss of each step."""

    def __init__(self, seed, prefix):
        self.seed, self.prefix, self.losses = seed, prefix, []

    def begin(self):
        self.loss = v1.get_collection(v1.GraphKeys.LOSSES)[-1]
        self.saver = v1.train.Saver(v1.global_variables() + [
            one for one in v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS) if isinstance(one, tf.Variable)])
        self.begins = []
        random = np.random.RandomState(self.seed)
        for variable in sorted(v1.global_variables(), key=lambda v: v.name):
            name = variable.op.name
            if name.startswith("training") or name == "global_step":
                continue
            low, high = (0.5, 1.5) if name.endswith(("moving_variance", "gamma")) else (-0.6, 0.6)
            value = random.uniform(low, high, variable.shape).round(3).astype(np.float32)
            self.begins.append(variable.assign(value))

    def after_create_session(self, session, coordinator):
        session.run(self.begins)
        self.saver.save(session, self.prefix, write_meta_graph=False, write_state=False)

    def before_run(self, context):
        return tf.estimator.SessionRunArgs(self.loss)

    def after_run(self, context, values):
        self.losses.append(float(values.results))


def optimizer_name(optimizer):
    return {"RMSProp": "RMSprop"}.get(optimizer, optimizer) if isinstance(optimizer, str) else optimizer["name"]


def muster_name(name, program):
    """The name that a variable of TensorFlow's checkpoint has in Muster; none for numbers that options give."""
    if not name.startswith("training"):
        if name.startswith(("dense_features/", "sequence_features/")):
            return "rnn_model/" + name
        return re.sub("^rnn_model/rnn/(stacked_rnn_cells/)?(simple_rnn|lstm|gru)_cell", "rnn_model/rnn", name)
    _, optimizer, *path = name.split("/")
    if len(path) < 2:
        return None
    if program.get("linear_optimizer") and optimizer_name(program["linear_optimizer"]) == optimizer_name(
            program["optimizer"]):
        optimizer = path[0] + "_" + optimizer.removesuffix("_1")
    return "/".join([optimizer, path[-1], muster_name("/".join(path[:-1]), program)])


def run(program):
    with tempfile.TemporaryDirectory() as folder:
        model_dir, prefix = os.path.join(folder, "model"), os.path.join(folder, "begin", CHECKPOINT)
        os.makedirs(os.path.dirname(prefix))
        vocabularies = os.path.join(folder, "vocabularies")
        os.makedirs(vocabularies)
        estimator = make_estimator(program, vocabularies, model_dir)
        watch = Watch(program["seed"], prefix)
        estimator.train(input_fn(program, True), max_steps=program["steps"], hooks=[watch])
        expected = {"losses": np.array(watch.losses, np.float32)}
        if not np.isfinite(watch.losses).all():
            raise ArithmeticError("a loss is not a number")
        for name in estimator.get_variable_names():
            there = muster_name(name, program)
            if there and name != "global_step":
                expected["variable " + there] = estimator.get_variable_value(name)
        for name, value in estimator.evaluate(input_fn(program, False)).items():
            if name != "global_step":
                expected["metric " + name] = np.float64(value)
        # A baseline whose batches have a known size never asks for one, and predicts without end.
        rows = len(next(iter(program["features"].values()))["rows"])
        predictions = list(itertools.islice(estimator.predict(input_fn(program, False)), rows))
        for key in predictions[0]:
            name = "/".join(key) if isinstance(key, tuple) else key
            expected["prediction " + name] = np.stack([each[key] for each in predictions])
        inputs = {}
        if program.get("export"):
            made = table.make_columns(program.get("columns", []) + program.get("dnn_columns", []), vocabularies)
            inputs, answers = head_parts.signatures(program, estimator, made, folder)
            expected.update(answers)
        files = {}
        for end in FILES:
            with open(prefix + end, "rb") as file:
                files["." + CHECKPOINT + end] = file.read()
    return inputs, expected, files
