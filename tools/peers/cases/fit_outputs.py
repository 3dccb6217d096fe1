"""tf.keras.Model with several inputs and outputs: losses, loss weights and metrics by output; fit() without shuffling,
evaluate() and predict(). A layer reads each input, the results are concatenated, and each output has a layer.
"""

import numpy as np
import tensorflow as tf

from cases.fit import OPTIMIZERS, data

TASKS = {"binary": (1, "sigmoid"), "classes": (3, "softmax"), "one_hot": (3, "softmax"), "numbers": (2, None)}
LOSSES = {"binary": ["binary_crossentropy", "mse", "hinge"], "classes": ["sparse_categorical_crossentropy"],
          "one_hot": ["categorical_crossentropy", "kld"], "numbers": ["mse", "mae", "huber", "log_cosh"]}
METRICS = {"binary": ["accuracy", "AUC", "mae"], "classes": ["accuracy", "ce"], "one_hot": ["accuracy", "mse"],
           "numbers": ["mae", "mse", "RootMeanSquaredError"]}


def generate(random):
    outputs = []
    for i in range(random.choice([2, 2, 3])):
        task = random.choice(sorted(TASKS))
        output = {"name": f"out_{'abc'[i]}", "task": task, "loss": random.choice(LOSSES[task]), "metrics": []}
        if random.random() < 0.6:
            output["metrics"] = random.sample(METRICS[task], random.choice([1, 1, 2]))
        if random.random() < 0.5:
            output["loss_weight"] = random.choice([0.0, 0.3, 2.0])
        outputs.append(output)
    if random.random() < 0.15:
        outputs[0]["loss"] = None
        outputs[0].pop("loss_weight", None)
        outputs[0]["metrics"] = []
    return {
        "inputs": [{"name": f"in_{name}", "size": random.choice([1, 2, 4])}
                   for name in "abc"[: random.choice([1, 2, 3])]],
        "outputs": outputs,
        "by_name": random.random() < 0.5,
        "sample_weight": random.random() < 0.3,
        "optimizer": random.choice(OPTIMIZERS),
        "rows": random.choice([6, 10, 16]),
        "validation_rows": random.choice([0, 0, 7]),
        "seed": random.randint(0, 10**6),
        "epochs": random.choice([1, 3]),
        "batch_size": random.choice([4, 5, 32]),
    }


def draw(program, numbers, rows):
    x = [numbers.randn(rows, each["size"]).astype(np.float32) for each in program["inputs"]]
    y = [data({"task": each["task"], "shape": [1]}, numbers, rows)[1] for each in program["outputs"]]
    return x, y


def given(program, x, y):
    """As fit() takes them: dicts by name, or lists in their order."""
    if not program["by_name"]:
        return x, y
    return ({each["name"]: one for each, one in zip(program["inputs"], x)},
            {each["name"]: one for each, one in zip(program["outputs"], y)})


def run(program):
    tf.keras.backend.clear_session()
    numbers = np.random.RandomState(program["seed"])
    ins = [tf.keras.Input([each["size"]], name=each["name"]) for each in program["inputs"]]
    seen = [tf.keras.layers.Dense(3, "tanh", name="read_" + one.name)(one) for one in ins]
    joined = tf.keras.layers.Concatenate(name="joined")(seen) if len(seen) > 1 else seen[0]
    outs = [tf.keras.layers.Dense(*TASKS[each["task"]], name=each["name"])(joined) for each in program["outputs"]]
    model = tf.keras.Model(ins, outs)
    inputs, expected = {}, {}
    weights = [(layer.name + "/" + ("kernel" if weight.shape.rank == 2 else "bias"), weight)
               for layer in model.layers for weight in layer.weights]
    for name, weight in weights:
        inputs["weight " + name] = 0.3 * numbers.randn(*weight.shape).astype(np.float32)
        weight.assign(inputs["weight " + name])
    outputs = program["outputs"]
    model.compile(
        program["optimizer"],
        {each["name"]: each["loss"] for each in outputs},
        loss_weights={each["name"]: each["loss_weight"] for each in outputs if "loss_weight" in each} or None,
        metrics={each["name"]: each["metrics"] for each in outputs if each["metrics"]} or None,
    )
    x, y = draw(program, numbers, program["rows"])
    options = {"epochs": program["epochs"], "batch_size": program["batch_size"], "shuffle": False, "verbose": 0}
    if program["sample_weight"]:
        inputs["sample_weight"] = options["sample_weight"] = numbers.rand(program["rows"]).astype(np.float32)
    if program["validation_rows"]:
        val_x, val_y = draw(program, numbers, program["validation_rows"])
        options["validation_data"] = given(program, val_x, val_y)
        inputs.update({f"val_x {i}": one for i, one in enumerate(val_x)})
        inputs.update({f"val_y {i}": one for i, one in enumerate(val_y)})
    inputs.update({f"x {i}": one for i, one in enumerate(x)}, **{f"y {i}": one for i, one in enumerate(y)})
    x, y = given(program, x, y)
    history = model.fit(x, y, **options)
    for name, values in history.history.items():
        expected["history/" + name] = np.asarray(values, np.float64)
    for name, weight in weights:
        expected["weight " + name] = weight.numpy()
    for name, value in model.evaluate(x, y, batch_size=program["batch_size"], verbose=0, return_dict=True).items():
        expected["evaluate/" + name] = np.asarray(value, np.float64)
    for each, one in zip(outputs, model.predict(x, batch_size=program["batch_size"], verbose=0)):
        expected["predict " + each["name"]] = one
    return inputs, expected
