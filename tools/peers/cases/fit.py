"""tf.keras.Model: compile(), fit() without shuffling from given weights, evaluate() and predict(): the History, and the
weights at the end. Models are chains of layers as layer_programs.py tells them.
"""

import numpy as np
import tensorflow as tf

from cases.layers import build

# Without nadam: in the graph of fit() Keras 2.15 multiplies its product of momenta once for each variable, not once a
# step.
OPTIMIZERS = ["sgd", "adam", "rmsprop", "adagrad", "adamax", "adadelta", "ftrl"]


def maybe(random, options, name, values, chance=0.4):
    if random.random() < chance:
        options[name] = random.choice(values)


def dense(units, activation=None, **more):
    return {"class": "Dense", "options": {"units": units, **({"activation": activation} if activation else {}), **more}}


def generate(random):
    task = random.choice(["binary", "classes", "one_hot", "numbers"])
    layers = []
    shape = [3]
    if random.random() < 0.3:
        shape = [5, 5, 2]
        layers = [
            {"class": "Conv2D", "options": {"filters": 2, "kernel_size": 3, "activation": "relu"}},
            {"class": "Flatten"},
        ]
    elif random.random() < 0.3:
        shape = [4, 2]
        layers = [{"class": random.choice(["LSTM", "GRU"]), "options": {"units": 3}}]
    hidden = {}
    maybe(random, hidden, "kernel_regularizer", [{"l1": 0.0, "l2": 0.05}, {"l1": 0.02, "l2": 0.0}], 0.3)
    maybe(random, hidden, "activity_regularizer", [{"l1": 0.0, "l2": 0.05}], 0.2)
    layers.append(dense(4, random.choice(["relu", "tanh"]), **hidden))
    if random.random() < 0.3:
        layers.append({"class": "BatchNormalization", "options": {"momentum": 0.8}})
    outputs = {"binary": 1, "classes": 3, "one_hot": 3, "numbers": 2}[task]
    layers.append(dense(outputs, {"binary": "sigmoid", "numbers": None}.get(task, "softmax")))
    losses = {
        "binary": ["binary_crossentropy", "mse", "hinge"],
        "classes": ["sparse_categorical_crossentropy"],
        "one_hot": ["categorical_crossentropy", "kld", "categorical_hinge"],
        "numbers": ["mse", "mae", "huber", "log_cosh", "cosine_similarity", "mape", "msle", "poisson"],
    }[task]
    metrics = {
        "binary": ["accuracy", "AUC", "Precision", "Recall", "mae"],
        "classes": ["accuracy", "ce"],
        "one_hot": ["accuracy", "ce", "mse"],
        "numbers": ["mae", "mse", "RootMeanSquaredError"],
    }[task]
    program = {
        "task": task,
        "shape": shape,
        "layers": layers,
        "loss": random.choice(losses),
        "optimizer": random.choice(OPTIMIZERS),
        "rows": random.choice([6, 10, 16]),
        "seed": random.randint(0, 10**6),
        "epochs": random.choice([1, 3, 6]),
        "batch_size": random.choice([4, 5, 32]),
        "metrics": [],
        "weighted_metrics": [],
    }
    if any(layer["class"] == "BatchNormalization" for layer in layers):
        # A bias in front of it has no gradient but what rounding leaves, of which an optimizer may make anything; and a
        # batch of one row has no variance.
        layers[-3]["options"]["use_bias"] = False
        program["batch_size"] = random.choice([4, 32])
    if program["loss"] == "poisson":
        layers[-1]["options"]["activation"] = "exponential"
    for metric in metrics:
        if random.random() < 0.4:
            program[random.choice(["metrics", "metrics", "weighted_metrics"])].append(metric)
    if random.random() < 0.3:
        program["sample_weight"] = True
    if random.random() < 0.2 and task in ("binary", "classes", "one_hot") and program["loss"] != "categorical_hinge":
        program["class_weight"] = [random.choice([0.5, 1.0, 3.0]) for _ in range(max(outputs, 2))]
    if random.random() < 0.5:
        program["validation_rows"] = random.choice([3, 7])
        maybe(random, program, "validation_freq", [2], 0.2)
    elif random.random() < 0.3:
        program["validation_split"] = 0.25
    monitored = (
        "val_loss"
        if ("validation_rows" in program or "validation_split" in program) and "validation_freq" not in program
        else "loss"
    )
    choice = random.random()
    if choice < 0.2:
        program["callback"] = {
            "class": "EarlyStopping",
            "monitor": monitored,
            "patience": random.choice([0, 1]),
            "min_delta": random.choice([0, 0.05]),
            "restore_best_weights": random.random() < 0.5,
        }
        maybe(random, program["callback"], "baseline", [0.5, 5.0], 0.3)
        maybe(random, program["callback"], "start_from_epoch", [1, 3], 0.3)
    elif choice < 0.4:
        program["callback"] = {
            "class": "ReduceLROnPlateau",
            "monitor": monitored,
            "patience": random.choice([0, 1]),
            "factor": 0.5,
            "min_delta": random.choice([0.0001, 0.05]),
            "cooldown": random.choice([0, 1]),
        }
        maybe(random, program["callback"], "min_lr", [0.004, 0.0004], 0.3)
    elif choice < 0.55:
        program["callback"] = {
            "class": "LearningRateScheduler",
            "rates": [random.choice([0.001, 0.01, 0.1]) for _ in range(6)],
        }
    if program["epochs"] > 1 and "validation_freq" not in program:
        maybe(random, program, "initial_epoch", [1], 0.2)
    return program


def data(program, numbers, rows):
    x = numbers.randn(rows, *program["shape"]).astype(np.float32)
    task = program["task"]
    if task == "binary":
        y = numbers.randint(0, 2, [rows, 1]).astype(np.float32)
    elif task == "classes":
        y = numbers.randint(0, 3, [rows])
    elif task == "one_hot":
        y = np.eye(3, dtype=np.float32)[numbers.randint(0, 3, [rows])]
    else:
        y = numbers.rand(rows, 2).astype(np.float32)
    return x, y


def callback_of(described):
    described = dict(described)
    name = described.pop("class")
    if name == "LearningRateScheduler":
        return tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: described["rates"][epoch])
    return getattr(tf.keras.callbacks, name)(**described)


def run(program):
    tf.keras.backend.clear_session()
    numbers = np.random.RandomState(program["seed"])
    model = tf.keras.Sequential(
        [tf.keras.layers.InputLayer(program["shape"])] + [build(layer) for layer in program["layers"]]
    )
    inputs, expected = {}, {}
    weights = [weight for layer in model.layers for weight in layer.weights]
    for i, weight in enumerate(weights):
        # Small, for Keras takes what is in front of a softmax or sigmoid where its loss asks for probabilities, and
        # Muster does not: they differ where a probability is near 0.
        value = 0.3 * numbers.randn(*weight.shape).astype(np.float32)
        if "variance" in weight.name:
            value = np.abs(value) + 0.1
        weight.assign(value)
        inputs[f"weight_{i}"] = value
    model.compile(
        program["optimizer"],
        program["loss"],
        metrics=program["metrics"] or None,
        weighted_metrics=program["weighted_metrics"] or None,
    )
    x, y = data(program, numbers, program["rows"])
    inputs.update(x=x, y=y)
    options = {"epochs": program["epochs"], "batch_size": program["batch_size"], "shuffle": False, "verbose": 0}
    if program.get("sample_weight"):
        inputs["sample_weight"] = options["sample_weight"] = numbers.rand(program["rows"]).astype(np.float32)
    if "class_weight" in program:
        options["class_weight"] = dict(enumerate(program["class_weight"]))
    options["initial_epoch"] = program.get("initial_epoch", 0)
    if "validation_rows" in program:
        inputs["val_x"], inputs["val_y"] = options["validation_data"] = data(
            program, numbers, program["validation_rows"]
        )
        options["validation_freq"] = program.get("validation_freq", 1)
    if "validation_split" in program:
        options["validation_split"] = program["validation_split"]
    if "callback" in program:
        options["callbacks"] = [callback_of(program["callback"])]
    history = model.fit(x, y, **options)
    for name, values in history.history.items():
        # Keras 3 and Muster call the rate by its whole name.
        expected["history/" + ("learning_rate" if name == "lr" else name)] = np.asarray(values, np.float64)
    for i, weight in enumerate(weights):
        expected[f"weight_{i}"] = weight.numpy()
    evaluated = model.evaluate(x, y, batch_size=program["batch_size"], verbose=0, return_dict=True)
    for name, value in evaluated.items():
        expected["evaluate/" + name] = np.asarray(value, np.float64)
    expected["predict"] = model.predict(x, batch_size=program["batch_size"], verbose=0)
    return inputs, expected
