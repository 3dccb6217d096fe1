"""Programs of layers that read sequences, and of chains of layers."""

from program_parts import ACTIVATIONS, batch_of, layer_of, maybe, regularized


def cell_options(random, name):
    options = {"units": random.choice([1, 2, 3])}
    maybe(random, options, "activation", ["relu", "sigmoid", "linear", "softsign"], 0.3)
    if name[0] != "S":
        maybe(random, options, "recurrent_activation", ["hard_sigmoid", "tanh"], 0.3)
    maybe(random, options, "use_bias", [False], 0.2)
    if name[0] == "G":
        maybe(random, options, "reset_after", [False], 0.4)
    return options


def recurrent_layer(random, wrapped=False):
    name = random.choice(["SimpleRNN", "LSTM", "GRU"])
    options = cell_options(random, name)
    maybe(random, options, "return_sequences", [True], 0.5)
    if not wrapped:
        maybe(random, options, "return_state", [True], 0.4)
        maybe(random, options, "time_major", [True], 0.1)
        maybe(random, options, "zero_output_for_mask", [True], 0.2)
    maybe(random, options, "go_backwards", [True], 0.3)
    return name, options


def recurrent(random):
    kind = random.random()
    batch, steps, features = batch_of(random), random.choice([1, 2, 4, 6]), random.choice([1, 3])
    shape = [batch, steps, features]
    if kind < 0.25:
        names = [random.choice(["SimpleRNNCell", "LSTMCell", "GRUCell"]) for _ in range(random.choice([1, 2]))]
        options = {"cells": [{"class": n, "options": cell_options(random, n)} for n in names]}
        for key in ("return_sequences", "return_state", "go_backwards"):
            maybe(random, options, key, [True], 0.4)
        program = layer_of("RNN", options, shape)
    else:
        name, options = recurrent_layer(random)
        program = layer_of(name, options, [steps, batch, features] if options.get("time_major") else shape)
        if random.random() < 0.25 and not options.get("time_major"):
            program["states"] = [[batch, options["units"]] for _ in range(2 if name == "LSTM" else 1)]
        elif random.random() < 0.25 and not options.get("time_major"):
            options["stateful"] = True
            program.update(calls=3, training=True)
        # Keras divides a penalty on what the layer gives by its first axis, which are steps where time_major is set.
        if not options.get("time_major"):
            regularized(
                random,
                program,
                ["kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "activity_regularizer"],
            )
        if program.get("calls"):
            program.pop("losses", None)
    if random.random() < 0.4:
        program["mask"] = "all"
    return program


def bidirectional(random):
    name, options = recurrent_layer(random, wrapped=True)
    maybe(random, options, "return_state", [True], 0.3)
    around = {"layer": {"class": name, "options": options}}
    maybe(random, around, "merge_mode", ["concat", "sum", "mul", "ave", None], 0.7)
    if random.random() < 0.25:
        _, other = name, dict(options)
        other["go_backwards"] = not options.get("go_backwards", False)
        around["backward_layer"] = {"class": name, "options": other}
    program = layer_of("Bidirectional", around, [batch_of(random), random.choice([1, 3, 5]), 2])
    if random.random() < 0.4:
        program["mask"] = "all"
    return program


def time_distributed(random):
    inner = random.choice(
        [
            ("Dense", {"units": 2}, [3]),
            ("Conv2D", {"filters": 2, "kernel_size": 2}, [3, 3, 2]),
            ("Flatten", {}, [2, 3]),
            ("LSTM", {"units": 2}, [3, 2]),
            ("MaxPooling1D", {}, [4, 2]),
            ("BatchNormalization", {}, [3]),
        ]
    )
    program = layer_of(
        "TimeDistributed",
        {"layer": {"class": inner[0], "options": dict(inner[1])}},
        [batch_of(random), random.choice([1, 3])] + inner[2],
    )
    if random.random() < 0.3 and inner[0] == "Dense":
        program.update(mask="all", mask_of_outputs=True)
    return program


def attention(random):
    batch, queries, values, width = (
        batch_of(random),
        random.choice([1, 3]),
        random.choice([1, 4]),
        random.choice([1, 3]),
    )
    options = {}
    maybe(random, options, "use_scale", [True])
    maybe(random, options, "score_mode", ["dot", "concat"], 0.5)
    maybe(random, options, "causal", [True])
    maybe(random, options, "return_attention_scores", [True])
    shapes = [[batch, queries, width], [batch, values, width]]
    if random.random() < 0.4:
        shapes = [shapes[0], [batch, values, 2], shapes[1]]
    program = layer_of("Attention", options, *shapes)
    if random.random() < 0.4:
        program["mask"] = random.choice(["all", [0], [1]])
        if program["mask"] == "all":
            program["mask"] = [0, 1]
    return program


def multi_head_attention(random):
    batch, queries, values, width = (
        batch_of(random),
        random.choice([1, 3]),
        random.choice([1, 4]),
        random.choice([1, 4]),
    )
    options = {"num_heads": random.choice([1, 2]), "key_dim": random.choice([1, 3])}
    maybe(random, options, "value_dim", [1, 2])
    maybe(random, options, "use_bias", [False])
    maybe(random, options, "output_shape", [3, [2, 2]])
    maybe(random, options, "use_causal_mask", [True])
    maybe(random, options, "return_attention_scores", [True])
    shapes = [[batch, queries, width], [batch, values, width]]
    if random.random() < 0.4:
        shapes = [shapes[0], [batch, values, 2], shapes[1]]
    if shapes[-1] == [batch, queries, values] and len(shapes) == 3 and shapes[1][-1] != width:
        shapes = shapes[:2]  # Muster asks there whether the third is a key or a mask of numbers.
    if random.random() < 0.2:
        # [batch, axes..., features], of which attention is over one axis or both.
        options.pop("use_causal_mask", None)
        options["attention_axes"] = random.choice([[1], [2], [1, 2]])
        shape = [batch, 2, 3, width]
        return layer_of("MultiHeadAttention", options, shape, list(shape))
    program = layer_of("MultiHeadAttention", options, *shapes)
    if random.random() < 0.3:
        program["mask"] = random.choice(["all", [0], [1]])
    if random.random() < 0.3:
        program["attention_mask"] = random.choice(
            [
                [batch, queries, values],
                [batch, options["num_heads"], queries, values],
                [1, queries, values],
                [batch, 1, values],
            ]
        )
    return program


def text_chain(random, batch):
    layers = [{"class": "Embedding", "options": {"input_dim": 4, "output_dim": 3, "mask_zero": random.random() < 0.8}}]
    for _ in range(random.choice([0, 1, 2])):
        name, options = recurrent_layer(random, wrapped=True)
        options["return_sequences"] = True
        options.pop("go_backwards", None)
        part = {"class": name, "options": options}
        layers.append(part if random.random() < 0.6 else {"class": "Bidirectional", "options": {"layer": part}})
    layers += [
        random.choice(
            [
                {"class": "Dense", "options": {"units": 3, "activation": random.choice(ACTIVATIONS)}},
                {"class": "LayerNormalization", "options": {}},
                {"class": "TimeDistributed", "options": {"layer": {"class": "Dense", "options": {"units": 2}}}},
                {"class": "Activation", "options": {"activation": "tanh"}},
            ]
        )
    ]
    end = random.choice(["pool", "last", "all"])
    if end == "pool":
        layers.append({"class": "GlobalAveragePooling1D", "options": {}})
    elif end == "last":
        layers.append({"class": "LSTM", "options": {"units": 2}})
    return layer_of(
        "Sequential",
        {"layers": layers},
        {"shape": [batch, random.choice([2, 5])], "ids": 4},
        mask_of_outputs=end == "all",
    )


def image_chain(random, batch):
    layers = []
    for _ in range(random.choice([1, 2])):
        options = {
            "filters": random.choice([2, 3]),
            "kernel_size": random.choice([1, 3]),
            "padding": random.choice(["same", "valid"]),
            "use_bias": random.random() < 0.5,
        }
        maybe(random, options, "activation", ["relu", "tanh"])
        layers.append({"class": random.choice(["Conv2D", "Conv2D", "SeparableConv2D"]), "options": options})
        if random.random() < 0.5:
            layers.append({"class": "BatchNormalization", "options": {"epsilon": random.choice([1e-3, 1e-5])}})
        if random.random() < 0.4:
            layers.append({"class": "Activation", "options": {"activation": random.choice(["relu", "relu", "elu"])}})
        if random.random() < 0.5:
            layers.append(
                {
                    "class": random.choice(["MaxPooling2D", "MaxPooling2D", "AveragePooling2D"]),
                    "options": {"padding": "same"},
                }
            )
    layers.append({"class": random.choice(["Flatten", "GlobalMaxPooling2D", "GlobalAveragePooling2D"]), "options": {}})
    layers.append({"class": "Dense", "options": {"units": 2}})
    return layer_of("Sequential", {"layers": layers}, [batch, 6, 7, 2], training=False)


def chain(random):
    """Layers one after another: masks go along, and some become one."""
    kind = random.choice(["text", "text", "images", "images", "steps"])
    batch = batch_of(random)
    if kind == "text":
        return text_chain(random, batch)
    if kind == "images":
        return image_chain(random, batch)
    name, options = recurrent_layer(random, wrapped=True)
    layers = [
        {"class": "Masking", "options": {}},
        {"class": name, "options": options},
        {"class": "Dense", "options": {"units": 2}},
    ]
    return layer_of("Sequential", {"layers": layers}, {"shape": [batch, 4, 1], "values": [0.0, 0.0, 1.0, -1.0]})
