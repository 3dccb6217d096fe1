"""tf.keras.optimizers.schedules: the rate of each step."""

import numpy as np
import tensorflow as tf

STEPS = [0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 19, 20, 21, 40, 99, 100, 101, 1000]


def generate(random):
    name = random.choice(["PiecewiseConstantDecay", "ExponentialDecay", "InverseTimeDecay", "PolynomialDecay",
                          "CosineDecay", "CosineDecayRestarts"])
    steps = random.choice([1, 2, 7, 10, 20, 100])
    rate = random.choice([0.0, 0.001, 0.1, 1.5])
    if name == "PiecewiseConstantDecay":
        boundaries = sorted(random.sample(range(1, 120), random.randint(1, 4)))
        options = {"boundaries": boundaries, "values": [random.choice([0.5, 0.1, 0.02]) for _ in range(len(boundaries) + 1)]}
    elif name in ("ExponentialDecay", "InverseTimeDecay"):
        options = {"initial_learning_rate": rate, "decay_steps": steps, "decay_rate": random.choice([0.5, 0.96, 1.0, 1.1])}
        if options["decay_rate"] > 1:
            options["decay_steps"] = 20  # of step 1000 on float32 has no such rate else, which Muster has
        if random.random() < 0.5:
            options["staircase"] = random.random() < 0.5
    elif name == "PolynomialDecay":
        options = {"initial_learning_rate": rate, "decay_steps": steps}
        if random.random() < 0.5:
            options["end_learning_rate"] = random.choice([0.0, 0.01])
        if random.random() < 0.5:
            options["power"] = random.choice([0.5, 2.0, 3.0])
        if random.random() < 0.5:
            options["cycle"] = random.random() < 0.5
    elif name == "CosineDecay":
        options = {"initial_learning_rate": rate, "decay_steps": steps}
        if random.random() < 0.5:
            options["alpha"] = random.choice([0.0, 0.1, 1.0])
        if random.random() < 0.4:
            options["warmup_target"] = random.choice([0.2, 2.0])
            options["warmup_steps"] = random.choice([1, 5, 20])
    else:
        options = {"initial_learning_rate": rate, "first_decay_steps": steps}
        for key, values in (("t_mul", [1.0, 1.5, 2.0]), ("m_mul", [0.5, 1.0]), ("alpha", [0.0, 0.2])):
            if random.random() < 0.5:
                options[key] = random.choice(values)
    return {"name": name, "options": options}


def run(program):
    schedule = getattr(tf.keras.optimizers.schedules, program["name"])(**program["options"])
    rates = [float(schedule(tf.constant(step, tf.int64))) for step in STEPS]
    return {"steps": np.array(STEPS, np.int64)}, {"rates": np.array(rates, np.float32)}
