"""Keras's layers that change images at random: their distribution, by moments of each pixel over many draws, and the
identity outside of training.

Random numbers differ. Two means of n draws differ by 6 * sqrt(2 / n) deviations once in 10^9 times: that is the
tolerance of the moments. The largest of n uniform numbers is within 20 / n of the range from its end, except once in
10^8 times: that is the tolerance of the bounds, which layers have whose pixels are linear in the number that is drawn.
"""

import numpy as np
import tensorflow as tf

DRAWS = 4000
FILLS = ["reflect", "constant", "wrap", "nearest"]


def factor(random, low, high):
    """One number for both directions, or a range; 0 is the identity."""
    if random.random() < 0.5:
        return round(random.choice([0.0, random.uniform(0, high)]), 2)
    return sorted([round(random.uniform(low, high), 2), round(random.uniform(low, high), 2)])


def generate(random):
    name = random.choice(["RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomCrop",
                          "RandomContrast", "RandomBrightness"])
    options = {}
    if name == "RandomFlip":
        options["mode"] = random.choice(["horizontal", "vertical", "horizontal_and_vertical"])
    elif name == "RandomCrop":
        options.update(height=random.randint(1, 7), width=random.randint(1, 6))
    elif name == "RandomContrast":
        options["factor"] = random.choice([0.3, 1.0, [0.2, 0.7], [0.0, 0.5], [0.5, 0.0]])
    elif name == "RandomBrightness":
        options["factor"] = factor(random, -1, 1)
        if random.random() < 0.4:
            options["value_range"] = [0, 300]
    else:
        if name == "RandomRotation":
            options["factor"] = factor(random, -0.5, 0.5)
        else:
            options["height_factor"] = factor(random, -0.7, 0.9)
            if name == "RandomTranslation" or random.random() < 0.5:
                options["width_factor"] = factor(random, -0.7, 0.9)
        if random.random() < 0.7:
            options["fill_mode"] = random.choice(FILLS)
            if options["fill_mode"] == "constant" and random.random() < 0.5:
                options["fill_value"] = 20.0
        if random.random() < 0.5:
            options["interpolation"] = random.choice(["bilinear", "nearest"])
    shape = [random.randint(4, 6), random.randint(4, 6), random.choice([1, 3])]
    return {"layer": name, "options": options, "shape": shape, "seed": random.randrange(10**6)}


def run(program):
    tf.keras.utils.set_random_seed(program["seed"])
    image = (np.random.RandomState(program["seed"]).rand(*program["shape"]) * 255).astype(np.float32)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in program["options"].items()}
    layer = getattr(tf.keras.layers, program["layer"])(**options)
    if program["layer"] == "RandomContrast":
        image = 100 + 50 / 255 * image  # Keras clips results to 0 and 255.
    if program["layer"] in ("RandomContrast", "RandomCrop"):  # Keras draws once for a batch.
        batches = tf.map_fn(lambda _: layer(image[None], training=True)[0], tf.range(DRAWS),
                            fn_output_signature=tf.float32)
    else:
        batches = layer(np.repeat(image[None], DRAWS, 0), training=True)
    many = batches.numpy().astype(np.float64)
    expected = {"inference": layer(image[None], training=False).numpy(), "mean": many.mean(0),
                "square": (many**2).mean(0)}
    tolerance = {}
    for name, values in (("mean", many), ("square", many**2)):
        tolerance[name] = 1e-5 + 6 * np.sqrt(2 / DRAWS) * values.std(0).max() / max(1, np.abs(expected[name]).max())
    if program["layer"] in ("RandomContrast", "RandomBrightness", "RandomFlip"):
        for name, values in (("least", many.min(0)), ("most", many.max(0))):
            expected[name] = values
            # Each is near the end of the range, on its side.
            tolerance[name] = 1e-5 + 20 / DRAWS * np.ptp(many, 0).max() / max(1, np.abs(values).max())
    program["tolerance"] = {name: float(number) for name, number in tolerance.items()}
    return {"image": image}, expected
