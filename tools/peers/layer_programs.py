"""Makes programs of the kind layers: a layer with options, and the shapes of its inputs."""

from program_parts import ACTIVATIONS, batch_of, layer_of, maybe, regularized, size, volume
from sequence_programs import attention, bidirectional, chain, multi_head_attention, recurrent, time_distributed

INTERPOLATIONS = ["nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"]


def dense(random):
    options = {"units": random.choice([1, 2, 5])}
    maybe(random, options, "activation", ACTIVATIONS)
    maybe(random, options, "use_bias", [False])
    shape = [batch_of(random)] + [random.choice([1, 2, 3]) for _ in range(random.randint(1, 3))]
    return regularized(
        random, layer_of("Dense", options, shape), ["kernel_regularizer", "bias_regularizer", "activity_regularizer"]
    )


def convolution(random):
    axes = random.choice([1, 1, 2, 2, 2, 3])
    groups = random.choice([1, 1, 1, 1, 2]) if axes < 3 else 1
    options = {"filters": groups * random.choice([1, 2, 3]), "kernel_size": size(random, axes, [1, 2, 3])}
    maybe(random, options, "padding", ["valid", "same"] + (["causal"] if axes == 1 else []), 0.6)
    if random.random() < 0.4:
        options["strides"] = size(random, axes, [1, 2, 3])
    elif random.random() < 0.4:
        options["dilation_rate"] = size(random, axes, [1, 2])
        if axes == 3:
            options.pop("dilation_rate")
    if groups > 1:
        options["groups"] = groups
        options.pop("dilation_rate", None)
    maybe(random, options, "activation", ACTIVATIONS)
    maybe(random, options, "use_bias", [False])
    # A dilated kernel larger than the image gives nothing in Keras, and is refused by Muster.
    shape = volume(random, axes, low=5 if "dilation_rate" in options else 4)
    shape[-1] *= groups
    return regularized(
        random,
        layer_of(f"Conv{axes}D", options, shape),
        ["kernel_regularizer", "bias_regularizer", "activity_regularizer"],
    )


def transposed(random):
    options = {"filters": random.choice([1, 2]), "kernel_size": size(random, 2, [1, 2, 3, 4])}
    maybe(random, options, "padding", ["valid", "same"], 0.6)
    if random.random() < 0.6:
        options["strides"] = size(random, 2, [1, 2, 3])
    if random.random() < 0.3 and "strides" in options:
        strides = options["strides"] if isinstance(options["strides"], list) else [options["strides"]] * 2
        if min(strides) > 1:
            options["output_padding"] = [random.randint(0, s - 1) for s in strides]
    if "strides" not in options:
        maybe(random, options, "dilation_rate", [2], 0.3)
    maybe(random, options, "activation", ACTIVATIONS, 0.2)
    maybe(random, options, "use_bias", [False])
    return layer_of("Conv2DTranspose", options, volume(random, 2, 1, 4))


def depthwise(random):
    name = random.choice(["DepthwiseConv2D", "SeparableConv2D"])
    options = {"kernel_size": size(random, 2, [1, 2, 3])}
    if name[0] == "S":
        options["filters"] = random.choice([1, 3])
    maybe(random, options, "padding", ["valid", "same"], 0.6)
    if random.random() < 0.4:
        options["strides"] = random.choice([1, 2])
    elif random.random() < 0.3:
        options["dilation_rate"] = 2
    maybe(random, options, "depth_multiplier", [1, 2, 3])
    maybe(random, options, "activation", ACTIVATIONS, 0.2)
    maybe(random, options, "use_bias", [False])
    return layer_of(name, options, volume(random, 2, 5))


def pooling(random):
    axes = random.choice([1, 2, 2, 3])
    name = random.choice(["MaxPooling", "AveragePooling"]) + f"{axes}D"
    options = {}
    if random.random() < 0.7:
        options["pool_size"] = size(random, axes, [1, 2, 3])
    if random.random() < 0.5:
        options["strides"] = size(random, axes, [1, 2, 3])
    maybe(random, options, "padding", ["valid", "same"], 0.6)
    shape = {"shape": volume(random, axes)}
    # Of equal ones the first has the gradient; in three dimensions TensorFlow's kernel gives it to each of them.
    if random.random() < 0.3 and name != "MaxPooling3D":
        shape["values"] = [0.0, 1.0, 2.0]
    return layer_of(name, options, shape, dtype="float32")


def global_pooling(random):
    axes = random.choice([1, 2, 3])
    name = random.choice(["GlobalMaxPooling", "GlobalAveragePooling"]) + f"{axes}D"
    options = {}
    maybe(random, options, "keepdims", [True, False], 0.5)
    program = layer_of(
        name, options, {"shape": volume(random, axes), **({"values": [0.0, 1.0]} if random.random() < 0.3 else {})}
    )
    if name == "GlobalAveragePooling1D" and random.random() < 0.6:
        program["mask"] = "all"
    return program


def margins(random):
    axes = random.choice([1, 2, 3])
    name = random.choice(["ZeroPadding", "Cropping"])
    key = "padding" if name[0] == "Z" else "cropping"
    pair = lambda: [random.choice([0, 1, 2]), random.choice([0, 1])]  # noqa: E731
    if axes == 1:
        value = random.choice([1, 2, pair()])
    else:
        value = random.choice([1, 2, [random.choice([0, 1, 2]) for _ in range(axes)], [pair() for _ in range(axes)]])
    shape = volume(random, axes, 5)
    if axes == 3:
        shape[1:4] = [random.randint(5, 6) for _ in range(3)]
    return layer_of(f"{name}{axes}D", {key: value} if random.random() < 0.9 else {}, shape)


def upsampling(random):
    axes = random.choice([1, 2, 2, 3])
    options = {"size": size(random, axes, [1, 2, 3])}
    if axes == 2:
        maybe(random, options, "interpolation", INTERPOLATIONS, 0.8)
    # TensorFlow has no gradient of area, and lanczos3 in float32 alone.
    more = {"no_gradients": True} if options.get("interpolation") == "area" else {}
    return layer_of(f"UpSampling{axes}D", options, volume(random, axes, 2, 4), dtype="float32", **more)


def reshaping(random):
    name = random.choice(
        ["Flatten", "Reshape", "Permute", "RepeatVector", "Rescaling", "ActivityRegularization", "Masking"]
    )
    shape = [batch_of(random), 2, 3, 4]
    if name == "Flatten":
        return layer_of(name, {}, shape[: random.randint(1, 4)])
    if name == "Reshape":
        return layer_of(
            name, {"target_shape": random.choice([[24], [-1], [6, 4], [-1, 3], [4, 3, 2], [1, -1, 1]])}, shape
        )
    if name == "Permute":
        dims = [1, 2, 3]
        random.shuffle(dims)
        return layer_of(name, {"dims": dims}, shape)
    if name == "RepeatVector":
        return layer_of(name, {"n": random.choice([1, 3])}, shape[:2])
    if name == "Rescaling":
        options = {"scale": random.choice([0.5, -2.0, 1 / 255])}
        maybe(random, options, "offset", [1.0, -0.5])
        return layer_of(name, options, shape)
    if name == "ActivityRegularization":
        options = {}
        maybe(random, options, "l1", [0.1])
        maybe(random, options, "l2", [0.3])
        return layer_of(name, options, shape, losses=True)
    options = {}
    maybe(random, options, "mask_value", [0.0, 1.0])
    return layer_of(name, options, {"shape": shape[:3], "values": [0.0, 1.0]}, mask_of_outputs=True)


def embedding(random):
    options = {"input_dim": random.choice([2, 5]), "output_dim": random.choice([1, 3])}
    maybe(random, options, "mask_zero", [True])
    shape = [batch_of(random), random.choice([1, 4])] if random.random() < 0.8 else [batch_of(random)]
    return layer_of("Embedding", options, {"shape": shape, "ids": options["input_dim"]}, mask_of_outputs=True)


def merge(random):
    name = random.choice(["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot", "Dot"])
    shape = [batch_of(random), 2, 3]
    if name == "Dot":
        options = {}
        kind = random.choice(["vectors", "matrices", "pair", "mixed"])
        maybe(random, options, "normalize", [True])
        batch = shape[0]
        if kind == "vectors":
            return layer_of(name, {"axes": random.choice([1, -1]), **options}, [batch, 4], [batch, 4])
        if kind == "matrices":
            return layer_of(name, {"axes": random.choice([2, -1]), **options}, [batch, 2, 3], [batch, 5, 3])
        if kind == "pair":
            return layer_of(name, {"axes": [1, 2], **options}, [batch, 3, 2], [batch, 5, 3])
        return layer_of(name, {"axes": [2, 1], **options}, [batch, 2, 3], [batch, 3])
    count = 2 if name == "Subtract" else random.choice([2, 3])
    if name == "Concatenate":
        options = {}
        maybe(random, options, "axis", [1, -1, 2, -2], 0.7)
        axis = options.get("axis", -1) % 3
        shapes = [[random.choice([1, 2]) if i == axis else n for i, n in enumerate(shape)] for _ in range(count)]
        program = layer_of(name, options, *shapes, mask_of_outputs=True)
    else:
        shapes = [list(shape) for _ in range(count)]
        if random.random() < 0.4:
            shapes[-1] = random.choice([[shape[0], 2, 1], [shape[0], 1, 3], [shape[0], 3]])
        values = {"values": [0.0, 1.0, 2.0]} if random.random() < 0.3 and name in ("Maximum", "Minimum", "Add") else {}
        program = layer_of(name, {}, *[{"shape": s, **values} for s in shapes], mask_of_outputs=True)
    if random.random() < 0.3 and all(
        len(one["shape"]) == 3 and one["shape"][1] == shape[1] for one in program["inputs"]
    ):
        program["mask"] = random.choice(["all", "all", [0]])
    return program


def activation_layer(random):
    name = random.choice(["Activation", "ReLU", "LeakyReLU", "PReLU", "ELU", "ThresholdedReLU", "Softmax"])
    options = {}
    shape = [batch_of(random), 3, 4]
    if name == "Activation":
        options["activation"] = random.choice(ACTIVATIONS)
    elif name == "ReLU":
        maybe(random, options, "max_value", [0.0, 0.5, 6.0])
        maybe(random, options, "negative_slope", [0.0, 0.2])
        maybe(random, options, "threshold", [0.0, 0.5])
    elif name in ("LeakyReLU", "ELU"):
        maybe(random, options, "alpha", [0.0, 0.1, 2.0], 0.6)
    elif name == "ThresholdedReLU":
        maybe(random, options, "theta", [0.0, 0.5], 0.6)
    elif name == "PReLU":
        maybe(random, options, "shared_axes", [[1], [2], [1, 2]], 0.6)
    elif name == "Softmax":
        maybe(random, options, "axis", [-1, 1, -2], 0.6)
        if random.random() < 0.4:
            return layer_of(name, options, {"shape": shape, "mask_axes": 3}, mask="all")
    values = {"values": [0.0, 0.5, 1.0, -1.0, 6.0, 8.0, -3.0]} if random.random() < 0.4 else {}
    return layer_of(name, options, {"shape": shape, **values})


def normalization(random):
    name = random.choice(
        ["BatchNormalization", "BatchNormalization", "LayerNormalization", "GroupNormalization", "UnitNormalization"]
    )
    options = {}
    axes = random.choice([0, 1, 1, 2])
    shape = [random.choice([1, 2, 4])] + [random.choice([1, 2, 3]) for _ in range(axes)] + [random.choice([1, 2, 4, 6])]
    if name != "UnitNormalization":
        maybe(random, options, "epsilon", [1e-5, 0.1])
        maybe(random, options, "center", [False])
        maybe(random, options, "scale", [False])
    if name == "BatchNormalization":
        maybe(random, options, "momentum", [0.0, 0.5, 0.9, 1.0])
        return layer_of(name, options, {"shape": shape}, training=random.random() < 0.6, calls=random.choice([1, 2]))
    if name == "GroupNormalization":
        options["groups"] = random.choice([1, shape[-1], -1] + ([2] if shape[-1] % 2 == 0 else []))
        if len(shape) < 3:
            shape.insert(1, 3)
    elif len(shape) > 2:
        maybe(random, options, "axis", [-1, [1, 2], [-2, -1], 1])
    return layer_of(name, options, {"shape": shape, "scale": random.choice([1.0, 1.0, 100.0])})


def rule(random):
    if random.random() < 0.5:
        name = random.choice(["MaxNorm", "NonNeg", "UnitNorm", "MinMaxNorm"])
        options = {"class": name}
        if name in ("MaxNorm", "MinMaxNorm"):
            maybe(random, options, "max_value", [1.0, 2.0])
        if name == "MinMaxNorm":
            maybe(random, options, "min_value", [0.1, 0.9])
            maybe(random, options, "rate", [0.0, 0.5])
        if name != "NonNeg":
            maybe(random, options, "axis", [[0], [1], [0, 1]], 0.6)
        return layer_of("constraint", options, {"shape": [3, 4], "scale": random.choice([1.0, 0.0, 5.0])})
    name = random.choice(["L1", "L2", "L1L2"])
    options = {"class": name}
    if name != "L2":
        maybe(random, options, "l1", [0.0, 0.5])
    if name != "L1":
        maybe(random, options, "l2", [0.0, 0.5])
    return layer_of("regularizer", options, [3, 4])


def at_rest(random):
    """Layers that draw, where nothing trains."""
    name, options = random.choice(
        [
            ("Dropout", {"rate": 0.5}),
            ("SpatialDropout1D", {"rate": 0.5}),
            ("AlphaDropout", {"rate": 0.3}),
            ("GaussianNoise", {"stddev": 2.0}),
            ("GaussianDropout", {"rate": 0.5}),
        ]
    )
    return layer_of(name, options, [batch_of(random), 3, 2], training=False)


MAKERS = [
    at_rest,
    chain,
    chain,
    dense,
    convolution,
    convolution,
    transposed,
    depthwise,
    pooling,
    pooling,
    global_pooling,
    margins,
    upsampling,
    reshaping,
    embedding,
    merge,
    activation_layer,
    normalization,
    normalization,
    recurrent,
    recurrent,
    bidirectional,
    time_distributed,
    attention,
    multi_head_attention,
    rule,
]


def generate(random):
    program = random.choice(MAKERS)(random)
    program.setdefault("training", random.random() < 0.5)
    program.setdefault("mask_of_outputs", False)
    program.setdefault("dtype", random.choice(["float32", "float32", "float64"]))
    program["seed"] = random.randint(0, 10**6)
    return program
