"""tf.keras.optimizers and tf.keras.optimizers.legacy: weights and slots after some steps with given gradients.

Where the two have different formulas under one name (RMSprop, Adagrad, Nadam) Muster has both: docs/optimizers.md tells
how.
"""

import numpy as np
import tensorflow as tf

NEW = ["SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta", "Ftrl", "Adafactor", "Lion"]
LEGACY = ["SGD", "Adam", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta", "Ftrl"]
# Those that change the rows used alone, with gradients of rows, as Muster does.
OF_ROWS = {"legacy": ["Adagrad", "Adadelta", "Ftrl", "SGD"], "new": ["SGD", "Adagrad"]}
# Muster's names of slots, in the order of Keras's lists.
SLOTS = {
    "SGD": ["momentum"],
    "Adam": ["m", "v", "vhat"],
    "AdamW": ["m", "v", "vhat"],
    "Adamax": ["m", "v"],
    "Nadam": ["m", "v"],
    "RMSprop": ["rms", "momentum", "mg"],
    "Adagrad": ["accumulator"],
    "Adadelta": ["accum_grad", "accum_var"],
    "Ftrl": ["accumulator", "linear"],
    "Lion": ["m"],
}
NEW_SLOTS = {
    "SGD": {"momentum": "momentums"},
    "Nadam": {"m": "_momentums", "v": "_velocities"},
    "RMSprop": {"rms": "_velocities", "momentum": "_momentums", "mg": "_average_gradients"},
    "Adagrad": {"accumulator": "_accumulators"},
    "Adam": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "AdamW": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "Adamax": {"m": "_m", "v": "_u"},
    "Adadelta": {"accum_grad": "_accumulated_grads", "accum_var": "_accumulated_delta_vars"},
    "Ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
    "Lion": {"m": "momentums"},
}


def maybe(random, options, name, values, chance=0.5):
    if random.random() < chance:
        options[name] = random.choice(values)


def generate(random):
    which = random.choice(["legacy", "new"])
    name = random.choice(LEGACY if which == "legacy" else NEW)
    options = {}
    maybe(random, options, "learning_rate", [0.0, 0.001, 0.01, 0.1, 1.0], 0.8)
    if name == "Ftrl" and options.get("learning_rate") == 0:
        options["learning_rate"] = 0.5
    if name == "SGD":
        maybe(random, options, "momentum", [0.5, 0.9, 1.0])
        maybe(random, options, "nesterov", [True, False])
    elif name in ("Adam", "AdamW", "Adamax", "Nadam"):
        maybe(random, options, "beta_1", [0.0, 0.5, 0.95])
        maybe(random, options, "beta_2", [0.5, 0.9, 0.9999])
        maybe(random, options, "epsilon", [1e-8, 1e-3, 0.1])
        if name in ("Adam", "AdamW"):
            maybe(random, options, "amsgrad", [True])
    elif name == "RMSprop":
        maybe(random, options, "rho", [0.0, 0.5, 0.99])
        maybe(random, options, "momentum", [0.5, 0.9])
        maybe(random, options, "epsilon", [1e-8, 1e-3, 0.1])
        maybe(random, options, "centered", [True])
        if options.get("centered") and options.get("rho") == 0:
            del options["rho"]  # it divides by the difference of equal numbers
    elif name == "Adagrad":
        maybe(random, options, "initial_accumulator_value", [0.0, 0.01, 1.0])
        maybe(random, options, "epsilon", [1e-8, 1e-3, 0.1])
    elif name == "Adadelta":
        maybe(random, options, "rho", [0.0, 0.5, 0.99])
        maybe(random, options, "epsilon", [1e-8, 1e-3, 0.1])
    elif name == "Ftrl":
        maybe(random, options, "learning_rate_power", [0.0, -0.3, -1.0])
        maybe(random, options, "initial_accumulator_value", [0.0, 0.01, 1.0])
        maybe(random, options, "l1_regularization_strength", [0.01, 0.5])
        maybe(random, options, "l2_regularization_strength", [0.01, 0.5])
        maybe(random, options, "l2_shrinkage_regularization_strength", [0.01, 0.5])
        maybe(random, options, "beta", [0.1, 1.0])
        if options.get("initial_accumulator_value") == 0 and options.get("learning_rate_power") == 0:
            del options["initial_accumulator_value"]
    elif name == "Adafactor":
        maybe(random, options, "beta_2_decay", [-0.5, -1.0])
        maybe(random, options, "epsilon_2", [1e-2, 0.5])
        maybe(random, options, "clip_threshold", [0.1, 2.0])
        maybe(random, options, "relative_step", [True])
    elif name == "Lion":
        maybe(random, options, "beta_1", [0.5, 1.0])
        maybe(random, options, "beta_2", [0.0, 0.5])
    around = {}
    if random.random() < 0.4:
        key = random.choice(["clipnorm", "clipvalue", "global_clipnorm"])
        around[key] = random.choice([0.01, 0.5, 3.0])
    if which == "new":
        if name == "AdamW":
            maybe(random, around, "weight_decay", [0.0, 0.01, 0.5])
        else:
            maybe(random, around, "weight_decay", [0.01, 0.5], 0.3)
        if random.random() < 0.3:
            around["use_ema"] = True
            maybe(random, around, "ema_momentum", [0.0, 0.5, 0.9])
            maybe(random, around, "ema_overwrite_frequency", [1, 2, 3])
    rows = (
        name in OF_ROWS[which]
        and not (name == "SGD" and "momentum" in options)
        and not around
        and random.random() < 0.5
    )
    schedule = random.random() < 0.2
    if schedule and name not in ("Nadam", "Ftrl"):
        options["learning_rate"] = {"initial_learning_rate": 0.1, "decay_steps": 3, "decay_rate": 0.5}
    return {
        "which": which,
        "name": name,
        "options": options,
        "around": around,
        "rows": rows,
        "steps": random.choice([1, 2, 20]),
        "shapes": random.choice([[[3]], [[2, 3], [4]], [[3, 2, 4], [2, 2], [1]]]),
        "seed": random.randint(0, 10**6),
        "scale": random.choice([1.0, 1.0, 1e-3, 100.0]),
        "zeros": random.random() < 0.2,
    }


def slot_values(optimizer, program, names, variables):
    values = {}
    for slot in SLOTS.get(program["name"], []):
        for name, variable in zip(names, variables):
            if program["which"] == "legacy":
                if slot in optimizer.get_slot_names():
                    values[f"{slot}/{name}"] = optimizer.get_slot(variable, slot).numpy()
            else:
                slots = getattr(optimizer, NEW_SLOTS[program["name"]][slot], None)
                # The new ones have this slot where there is no momentum, too.
                if slots and (slot != "momentum" or program["options"].get("momentum")):
                    values[f"{slot}/{name}"] = slots[optimizer._index_dict[optimizer._var_key(variable)]].numpy()
    return values


def run(program):
    numbers = np.random.RandomState(program["seed"])
    options = {**program["options"], **program["around"]}
    if isinstance(options.get("learning_rate"), dict):
        options["learning_rate"] = tf.keras.optimizers.schedules.ExponentialDecay(**options["learning_rate"])
    family = tf.keras.optimizers.legacy if program["which"] == "legacy" else tf.keras.optimizers
    optimizer = getattr(family, program["name"])(**options)
    names = [f"v{i}" for i in range(len(program["shapes"]))]
    variables = [
        tf.Variable(numbers.randn(*shape).astype(np.float32), name=name)
        for name, shape in zip(names, program["shapes"])
    ]
    inputs = {name: variable.numpy() for name, variable in zip(names, variables)}
    if program["rows"]:
        names.append("table")
        variables.append(tf.Variable(numbers.randn(5, 2).astype(np.float32), name="table"))
        inputs["table"] = variables[-1].numpy()
    if program["which"] == "new":
        optimizer.build(variables)
    for step in range(program["steps"]):
        gradients = []
        for name, variable in zip(names, variables):
            if name == "table":
                ids = numbers.randint(0, 5, [random_length(numbers)])
                values = (program["scale"] * numbers.randn(len(ids), 2)).astype(np.float32)
                gradients.append(
                    tf.IndexedSlices(tf.constant(values), tf.constant(ids, tf.int64), tf.constant([5, 2], tf.int64))
                )
                inputs[f"ids_{step}"] = ids
                inputs[f"values_{step}"] = values
                continue
            gradient = (program["scale"] * numbers.randn(*variable.shape)).astype(np.float32)
            if program["zeros"] and numbers.rand() < 0.5:
                gradient = gradient * 0
            gradients.append(tf.constant(gradient))
            inputs[f"gradient_{step}/{name}"] = gradient
        optimizer.apply_gradients(zip(gradients, variables))
    expected = {name: variable.numpy() for name, variable in zip(names, variables)}
    expected.update(slot_values(optimizer, program, names, variables))
    program["tolerance"] = {
        name: rounding(program, len(name.split("/")) > 1) for name in expected if not name.startswith("average")
    }
    if program["around"].get("use_ema"):
        for name, variable in zip(names, variables):
            average = optimizer._model_variables_moving_average[optimizer._index_dict[optimizer._var_key(variable)]]
            expected[f"average/{name}"] = average.numpy()
    return inputs, expected


def rounding(program, of_slot):
    """Legacy's Adam, Adamax and Nadam compute 1 - beta in float32, which is off by 6e-8 / (1 - beta) of itself: so are
    moments, by which updates are made. Muster computes it in float64.
    """
    options = program["options"]
    if program["name"] not in ("Adam", "Adamax", "Nadam", "AdamW"):
        return 1e-5
    off = 6e-8 / (1 - options.get("beta_2", 0.999)) + 6e-8 / (1 - options.get("beta_1", 0.9))
    if of_slot:
        return 1e-5 + off
    rate = options.get("learning_rate", 0.001)
    rate = rate["initial_learning_rate"] if isinstance(rate, dict) else rate
    # Each step is the rate at most, but where a gradient is rare.
    return 1e-5 + off * rate * program["steps"] * max(
        1, (1 - options.get("beta_1", 0.9)) / (1 - options.get("beta_2", 0.999)) ** 0.5
    )


def random_length(numbers):
    return numbers.randint(1, 5)
