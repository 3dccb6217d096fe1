"""What programs of layers are put together from."""

ACTIVATIONS = [
    "linear",
    "relu",
    "tanh",
    "sigmoid",
    "softmax",
    "elu",
    "selu",
    "gelu",
    "swish",
    "softplus",
    "softsign",
    "hard_sigmoid",
    "exponential",
]


def maybe(random, options, name, values, chance=0.4):
    if random.random() < chance:
        options[name] = random.choice(values)


def size(random, axes, values):
    """A number, or one for each axis."""
    if axes == 1 or random.random() < 0.5:
        return random.choice(values)
    return [random.choice(values) for _ in range(axes)]


def batch_of(random):
    return random.choice([1, 2, 3])


def volume(random, axes, low=4, high=7, channels=(1, 2, 3, 4)):
    high = min(high, {1: 9, 2: 7, 3: 5}[axes])
    return [batch_of(random)] + [random.randint(min(low, high), high) for _ in range(axes)] + [random.choice(channels)]


def layer_of(name, options, *inputs, **more):
    inputs = [shape if isinstance(shape, dict) else {"shape": shape} for shape in inputs]
    return {"layer": {"class": name, "options": options}, "inputs": inputs, **more}


def regularized(random, program, names):
    if random.random() < 0.2:
        for name in names:
            maybe(
                random,
                program["layer"]["options"],
                name,
                [{"l1": 0.1, "l2": 0.0}, {"l1": 0.0, "l2": 0.2}, {"l1": 0.1, "l2": 0.3}],
                0.6,
            )
        program["losses"] = True
    return program
