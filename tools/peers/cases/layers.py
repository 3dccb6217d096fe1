"""tf.keras.layers with given weights: what they give, masks, states, losses, moving statistics, and the gradients of
inputs and weights. tools/peers/layer_programs.py makes the programs.
"""

import numpy as np
import tensorflow as tf

from layer_programs import generate  # noqa: F401  (compare.py calls it)

MERGES = ["Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot"]


def penalty(given):
    return None if given is None else tf.keras.regularizers.L1L2(**given)


def constraint(given):
    given = dict(given)
    return getattr(tf.keras.constraints, given.pop("class"))(**given)


def build(described):
    name, options = described["class"], dict(described.get("options", {}))
    for key in list(options):
        if key.endswith("_regularizer"):
            options[key] = penalty(options[key])
    if name in ("Bidirectional", "TimeDistributed"):
        if options.get("backward_layer") is not None:
            options["backward_layer"] = build(options["backward_layer"])
        return getattr(tf.keras.layers, name)(build(options.pop("layer")), **options)
    if name == "Sequential":
        return tf.keras.Sequential([build(part) for part in options["layers"]])
    if name == "RNN":
        cells = [build(cell) for cell in options.pop("cells")]
        return tf.keras.layers.RNN(cells if len(cells) > 1 else cells[0], **options)
    if name == "Attention":
        options.pop("causal", None), options.pop("return_attention_scores", None)
    if name == "MultiHeadAttention":
        options.pop("use_causal_mask", None), options.pop("return_attention_scores", None)
    return getattr(tf.keras.layers, name)(**options)


def arguments_of(program):
    """What a call is given beside its inputs."""
    name, options = program["layer"]["class"], program["layer"].get("options", {})
    arguments = {}
    if name == "Attention":
        arguments["use_causal_mask"] = options.get("causal", False)
        arguments["return_attention_scores"] = options.get("return_attention_scores", False)
    if name == "MultiHeadAttention":
        arguments["use_causal_mask"] = options.get("use_causal_mask", False)
        arguments["return_attention_scores"] = options.get("return_attention_scores", False)
    return arguments


def input_of(described, numbers, dtype):
    shape = described["shape"]
    if "ids" in described:
        return numbers.randint(0, described["ids"], shape).astype(np.int64)
    values = numbers.randn(*shape)
    if "values" in described:
        values = numbers.choice(described["values"], shape)
    return (values * described.get("scale", 1.0)).astype(dtype)


def weight_values(layer, numbers, scale):
    values = []
    for weight in layer.trainable_weights + layer.non_trainable_weights:
        value = np.asarray(scale * numbers.randn(*weight.shape))
        if "variance" in weight.name:
            value = np.abs(value) + 0.1
        values.append(value.astype(weight.dtype.as_numpy_dtype))
    return values


def call(layer, program, tensors, masks, states, attention_mask):
    name = program["layer"]["class"]
    arguments = arguments_of(program)
    several = len(tensors) > 1 or name in MERGES
    if name == "MultiHeadAttention":
        # Keras's layers read masks of steps from the tensors.
        for tensor, mask in zip(tensors, masks):
            if mask is not None:
                tensor._keras_mask = mask
        if attention_mask is not None:
            arguments["attention_mask"] = attention_mask
        key = tensors[2] if len(tensors) > 2 else None
        outputs = layer(tensors[0], tensors[1], key=key, training=program["training"], **arguments)
        return outputs, masks[0]
    given = list(tensors) if several else tensors[0]
    if any(mask is not None for mask in masks):
        arguments["mask"] = list(masks) if several else masks[0]
    if states:
        arguments["initial_state"] = states if len(states) > 1 else states[0]
    if takes_training(layer):
        arguments["training"] = program["training"]
    mask_given = arguments.get("mask")
    if mask_given is not None and not takes_mask(layer):
        del arguments["mask"]
    outputs = layer(given, **arguments)
    if name == "Sequential":
        return outputs, getattr(outputs, "_keras_mask", None) if program["mask_of_outputs"] else None
    if program["mask_of_outputs"]:
        return outputs, layer.compute_mask(given, mask_given)
    return outputs, None


def takes_training(layer):
    return layer._expects_training_arg


def takes_mask(layer):
    return layer._expects_mask_arg


def run(program):
    numbers = np.random.RandomState(program["seed"])
    dtype = program["dtype"]
    tf.keras.backend.set_floatx(dtype)
    try:
        return run_layer(program, numbers, dtype)
    finally:
        tf.keras.backend.set_floatx("float32")


def run_layer(program, numbers, dtype):
    if program["layer"]["class"] in ("constraint", "regularizer"):
        return run_rule(program, numbers, dtype)
    layer = build(program["layer"])
    inputs, expected = {}, {}
    calls = program.get("calls", 1)
    for step in range(calls):
        tensors = [input_of(described, numbers, dtype) for described in program["inputs"]]
        masks = [None] * len(tensors)
        if program.get("mask"):
            for i, described in enumerate(program["inputs"]):
                if program["mask"] == "all" or i in program["mask"]:
                    axes = described.get("mask_axes", 2)
                    masks[i] = numbers.rand(*described["shape"][:axes]) < 0.6
        attention_mask = None
        if program.get("attention_mask"):
            attention_mask = numbers.rand(*program["attention_mask"]) < 0.6
        states = [numbers.randn(*shape).astype(dtype) for shape in program.get("states", [])]
        given = [tf.convert_to_tensor(tensor) for tensor in tensors]
        mask_tensors = [None if mask is None else tf.constant(mask) for mask in masks]
        if step == 0:
            # Weights exist after a first call, which must leave no trace.
            call(
                layer,
                program,
                [tf.identity(t) for t in given],
                mask_tensors,
                [tf.constant(s) for s in states],
                attention_mask,
            )
            values = weight_values(layer, numbers, program.get("weight_scale", 1.0))
            for weight, value in zip(layer.trainable_weights + layer.non_trainable_weights, values):
                weight.assign(value)
            if hasattr(layer, "reset_states") and program["layer"].get("options", {}).get("stateful"):
                layer.reset_states()
            for i, value in enumerate(values):
                inputs[f"weight_{i}"] = value
        for i, tensor in enumerate(tensors):
            inputs[f"input_{step}_{i}"] = tensor
        for i, mask in enumerate(masks):
            if mask is not None:
                inputs[f"mask_{step}_{i}"] = mask
        for i, state in enumerate(states):
            inputs[f"state_{step}_{i}"] = state
        if attention_mask is not None:
            inputs[f"attention_mask_{step}"] = attention_mask
        state_tensors = [tf.constant(state) for state in states]
        with tf.GradientTape(watch_accessed_variables=True) as tape:
            for tensor in given + state_tensors:
                tape.watch(tensor)
            outputs, mask = call(layer, program, given, mask_tensors, state_tensors, attention_mask)
            outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            # Cells with several states give them as a list of lists.
            flat = []
            for output in outputs:
                flat.extend(output if isinstance(output, (list, tuple)) else [output])
            loss = tf.zeros([], dtype)
            for i, output in enumerate(flat):
                if not output.dtype.is_floating:
                    continue
                upstream = np.asarray(numbers.randn(*output.shape), dtype)
                inputs[f"upstream_{step}_{i}"] = upstream
                loss += tf.reduce_sum(output * upstream)
        for i, output in enumerate(flat):
            expected[f"output_{step}_{i}"] = output.numpy()
        if mask is not None:
            masks_given = mask if isinstance(mask, (list, tuple)) else [mask]
            if masks_given[0] is not None:
                expected[f"output_mask_{step}"] = masks_given[0].numpy()
        trainable = layer.trainable_weights
        floating = [i for i, tensor in enumerate(given) if tensor.dtype.is_floating]
        sources = [given[i] for i in floating] + state_tensors + trainable
        names = (
            [f"input_gradient_{step}_{i}" for i in floating]
            + [f"state_gradient_{step}_{i}" for i in range(len(state_tensors))]
            + [f"weight_gradient_{step}_{i}" for i in range(len(trainable))]
        )
        if program.get("no_gradients"):
            names = []
        for name, source, gradient in zip(names, sources, tape.gradient(loss, sources) if names else []):
            if gradient is None:
                gradient = tf.zeros_like(source)
            expected[name] = tf.convert_to_tensor(gradient).numpy()
        if program.get("losses"):
            expected[f"losses_{step}"] = np.asarray(sum(loss.numpy() for loss in layer.losses), dtype)
    for i, weight in enumerate(layer.non_trainable_weights):
        expected[f"moving_{i}"] = weight.numpy()
    if program["layer"]["class"] == "BatchNormalization" and program["training"]:
        without_bessel(program, inputs, expected)
    if program["layer"]["class"] in ("LayerNormalization", "GroupNormalization") and dtype == "float32":
        # LibTorch computes x / s - mean / s, with s the root of variance + epsilon: it rounds in proportion to |x| / s,
        # where x - mean may be 0. As little as s may be is the root of epsilon.
        largest = max(np.abs(value).max() for name, value in inputs.items() if name.startswith("input"))
        epsilon = program["layer"]["options"].get("epsilon", 1e-3)
        program["tolerance"] = {name: float(1e-5 + 1.2e-7 * 4 * largest / np.sqrt(epsilon)) for name in expected}
    if program["layer"]["class"] == "UnitNormalization" and dtype == "float32":
        # The gradient is a difference of numbers as large as upstream / norm.
        norm = np.sqrt(np.square(inputs["input_0_0"]).sum(axis_of(program), keepdims=True)).min()
        largest = np.abs(inputs["upstream_0_0"]).max()
        program["tolerance"] = {"input_gradient_0_0": float(1e-5 + 1.2e-7 * 4 * largest / norm)}
    if program["layer"].get("options", {}).get("interpolation") == "bicubic":
        # TensorFlow takes weights from a table of 1024 places; Muster computes them. The formula's slope is at most 1.2,
        # so that half a place is 6e-4 in each of 8 weights, four on each axis.
        program["tolerance"] = {name: 8 * 6e-4 for name in expected}
    return inputs, expected


def axis_of(program):
    axis = program["layer"]["options"].get("axis", -1)
    return tuple(axis) if isinstance(axis, list) else axis


def without_bessel(program, inputs, expected):
    """Keras's fused kernel, of float32 inputs of four and five axes, multiplies the variance of the batch by n / (n -
    1) on its way into the moving one. Muster does not, nor does Keras of other inputs, nor Keras 3: docs/layers.md.
    """
    shape = program["inputs"][0]["shape"]
    if len(shape) not in (4, 5) or program["dtype"] != "float32":
        return
    count = np.prod(shape[:-1])
    momentum = program["layer"]["options"].get("momentum", 0.99)
    variance = inputs[f"weight_{len([name for name in inputs if name.startswith('weight')]) - 1}"]
    for step in range(program.get("calls", 1)):
        variance = momentum * variance + (1 - momentum) * inputs[f"input_{step}_0"].var(tuple(range(len(shape) - 1)))
    # Whether that is Keras's number but for the factor is looked at here, since Muster's is compared with this one.
    begun = (
        momentum ** program.get("calls", 1) * inputs[f"weight_{len([n for n in inputs if n.startswith('weight')]) - 1}"]
    )
    np.testing.assert_allclose(
        begun + (variance - begun) * count / max(count - 1, 1), expected["moving_1"], rtol=2e-5, atol=1e-6
    )
    expected["moving_1"] = variance.astype(expected["moving_1"].dtype)


def run_rule(program, numbers, dtype):
    weight = input_of(program["inputs"][0], numbers, dtype)
    if program["layer"]["class"] == "constraint":
        return {"input_0_0": weight}, {
            "output_0_0": constraint(program["layer"]["options"])(tf.constant(weight)).numpy()
        }
    options = dict(program["layer"]["options"])
    rule = getattr(tf.keras.regularizers, options.pop("class"))(**options)
    return {"input_0_0": weight}, {"output_0_0": np.asarray(rule(tf.constant(weight)).numpy())}
