"""tf.data: the elements of chains of operations, in order; shapes, structure, cardinality, and where an error is."""

import numpy as np
import tensorflow as tf

Dataset = tf.data.Dataset
MOST = 40  # elements that are read of a data set, which may have no end
SOURCES = ("range", "slices", "slices", "tensors", "lists")
# What may look for an element without end in data that has none.
SEARCHES = ("filter", "take_while", "unique", "flat_map", "interleave", "group_by_window", "bucket", "fails")
MAPS = ("double", "key", "vector", "pair", "dict", "first", "float", "text")


def leaves(element):
    return tf.nest.flatten(element)


def key(element):
    """A whole number of an element: the sum of its first value, or the length of its texts."""
    value = leaves(element)[0]
    value = tf.strings.length(value) if value.dtype == tf.string else value
    return tf.reduce_sum(tf.cast(value, tf.int64))


def fails(element):
    with tf.control_dependencies([tf.debugging.assert_none_equal(key(element) % 5, tf.constant(3, tf.int64))]):
        return tf.nest.map_structure(tf.identity, element)


def twice(value):
    return tf.strings.join([value, "!"]) if value.dtype == tf.string else value * 2 + 1


def halved(value):
    return value if value.dtype == tf.string else tf.cast(value, tf.float32) / 2


FUNCTIONS = {
    "double": lambda element: tf.nest.map_structure(twice, element),
    "float": lambda element: tf.nest.map_structure(halved, element),
    "key": key,
    "vector": lambda element: tf.fill([1 + key(element) % 3], key(element)),
    "pair": lambda element: (element, key(element)),
    "dict": lambda element: {"b": element, "a": key(element)},
    "first": lambda element: leaves(element)[0],
    "text": lambda element: tf.strings.as_string(key(element)),
    "fails": fails,
}
OPENERS = {
    "range": lambda element: Dataset.range(key(element) % 4),
    "slices": Dataset.from_tensor_slices,
    "copies": lambda element: Dataset.from_tensors(element).repeat(key(element) % 3),
    "batched": lambda element: Dataset.range(key(element) % 5).batch(2),
}


def whole(function):
    """The function of a whole element, as the parts of a tuple that tf.data hands over."""
    return lambda *parts: function(parts[0] if len(parts) == 1 else parts)


def constant(array):
    return tf.constant(array["values"], array["dtype"], array["shape"])


def structure_of(nest, value):
    if isinstance(nest, dict):
        return {name: structure_of(part, value) for name, part in nest.items()}
    if isinstance(nest, list):
        return tuple(structure_of(part, value) for part in nest)
    return value(nest)


def source(given):
    kind = given["kind"]
    if kind == "range":
        return Dataset.range(*given["numbers"])
    if kind == "lists":
        rows = given["rows"]
        return Dataset.from_generator(lambda: iter(rows), output_signature=tf.TensorSpec([None], tf.int64))
    make = Dataset.from_tensor_slices if kind == "slices" else Dataset.from_tensors
    return make(structure_of(given["nest"], lambda i: constant(given["arrays"][i])))


def apply(data, stage):
    op = stage["op"]
    get = stage.get
    if op == "map":
        return data.map(whole(FUNCTIONS[stage["fn"]]), num_parallel_calls=get("parallel"))
    if op == "fails":
        failing = data.map(whole(fails))
        return failing.ignore_errors() if get("ignore") else failing
    if op == "filter":
        return data.filter(whole(lambda e: key(e) % stage["by"] != stage["not"]))
    if op == "take_while":
        return data.take_while(whole(lambda e: key(e) % stage["by"] != stage["not"]))
    if op == "batch":
        return data.batch(stage["size"], drop_remainder=get("drop", False))
    if op == "padded_batch":
        shapes = get("shapes")
        values = get("values")
        spec = data.element_spec
        if shapes is not None:
            shapes = tf.nest.pack_sequence_as(spec, [tf.TensorShape([None if n < 0 else n for n in s]) for s in shapes])
        if values is not None:
            kinds = [part.dtype for part in leaves(spec)]
            values = tf.nest.pack_sequence_as(
                spec, [tf.constant("" if kind == tf.string else value, kind) for value, kind in zip(values, kinds)])
        return data.padded_batch(stage["size"], shapes, values, drop_remainder=get("drop", False))
    if op == "unbatch":
        return data.unbatch()
    if op == "rebatch":
        return data.rebatch(stage["sizes"], drop_remainder=get("drop", False))
    if op in ("repeat", "take", "skip", "enumerate"):
        return getattr(data, op)(stage["n"])
    if op == "shard":
        return data.shard(stage["n"], stage["i"])
    if op == "zip":
        others = [build(other) for other in stage["others"]]
        return Dataset.zip((data, *others))
    if op == "zip_dict":
        return Dataset.zip({"y": data, "x": build(stage["other"])})
    if op == "concatenate":
        return data.concatenate(build(stage["other"]))
    if op == "self":
        return data.concatenate(data.skip(1))
    if op == "choose":
        datasets = [data, *[apply(data, one) for one in stage["ways"]]]
        choices = Dataset.from_tensor_slices(tf.constant(stage["choices"], tf.int64))
        return Dataset.choose_from_datasets(datasets, choices, stop_on_empty_dataset=stage["stop"])
    if op == "flat_map":
        return data.flat_map(whole(OPENERS[stage["fn"]]))
    if op == "interleave":
        return data.interleave(whole(OPENERS[stage["fn"]]), cycle_length=stage["cycle"], block_length=stage["block"],
                               num_parallel_calls=get("parallel"), deterministic=True)
    if op == "window":
        size = stage["size"]

        def joined(*parts):
            nest = parts[0] if len(parts) == 1 else parts
            return Dataset.zip(tf.nest.map_structure(lambda one: one.batch(size), nest))

        windows = data.window(size, get("shift"), get("stride", 1), get("drop", False))
        return windows.flat_map(joined)
    if op == "prefetch":
        return data.prefetch(stage["n"])
    if op == "cache":
        return data.cache()
    if op == "unique":
        return data.unique()
    if op == "scan":
        def step(state, element):
            total = state + key(element)
            return total, ((total, element) if stage["both"] else total)

        # scan hands over a tuple as one element.
        return data.scan(tf.constant(stage["start"], tf.int64), step)
    if op == "group_by_window":
        by = stage["by"]
        size = stage["size"]
        reduce = {"batch": lambda _, window: window.batch(stage["inner"]),
                  "take": lambda _, window: window.take(stage["inner"])}[stage["reduce"]]
        arguments = {"window_size": size} if size else {"window_size_func": lambda k: k + 1}
        return data.group_by_window(whole(lambda e: key(e) % by), reduce, **arguments)
    if op == "bucket":
        length = whole(lambda e: tf.cast(tf.size(leaves(e)[0]), tf.int32))
        return data.bucket_by_sequence_length(
            length, stage["boundaries"], stage["sizes"], drop_remainder=get("drop", False),
            pad_to_bucket_boundary=get("to_boundary", False), no_padding=get("no_padding", False))
    if op == "cardinality":
        return data.apply(tf.data.experimental.assert_cardinality(stage["n"]))
    raise ValueError(op)


def build(program):
    data = source(program["source"])
    for stage in program["stages"]:
        data = apply(data, stage)
    return data


def random_array(random, rows):
    dtype = random.choice(["int64", "float32", "string", "int64"])
    # TensorFlow 2.15 crashes where it unbatches or pads rows of which an axis but the first is 0.
    shape = [rows] if random.random() < 0.6 else [rows, random.choice([1, 2, 3])]
    count = 1
    for size in shape:
        count *= size
    draw = {"int64": lambda: random.randint(-3, 9), "float32": lambda: random.randint(-6, 12) / 2,
            "string": lambda: random.choice(["", "a", "b", "cc", "a b", "ddd"])}[dtype]
    return {"dtype": dtype, "shape": shape, "values": [draw() for _ in range(count)]}


def random_source(random):
    kind = random.choice(SOURCES)
    if kind == "range":
        numbers = random.choice([[random.randint(0, 15)], [random.randint(-4, 4), random.randint(-4, 12)],
                                 [random.randint(-4, 9), random.randint(-6, 12), random.choice([-3, -1, 2, 3])]])
        return {"kind": "range", "numbers": numbers}
    if kind == "lists":
        return {"kind": "lists", "rows": [[random.randint(0, 9) for _ in range(random.randint(1, 5))]
                                          for _ in range(random.randint(0, 9))]}
    rows = random.choice([0, 1, 3, 5, 8, 8, 11, 11])
    nest, count = random.choice([(0, 1), (0, 1), ([0, 1], 2), ({"u": 0, "t": 1}, 2), ([0, {"w": 1, "v": 2}], 3),
                                 ([[0, 1], 2], 3)])
    return {"kind": kind, "nest": nest, "arrays": [random_array(random, rows) for _ in range(count)]}


def random_stage(random, data, depth):
    spec = data.element_spec
    values = leaves(spec)
    ranks = [value.shape.rank for value in values]
    ops = ["map", "map", "filter", "take_while", "batch", "batch", "repeat", "take", "skip", "enumerate", "shard",
           "self", "choose", "flat_map", "interleave", "window", "prefetch", "cache", "scan", "group_by_window",
           "fails"]
    if all(rank is not None for rank in ranks):
        ops += ["padded_batch", "padded_batch", "bucket", "bucket"]
        if all(rank > 0 for rank in ranks):
            ops += ["unbatch", "unbatch", "rebatch"]
    if len(values) == 1 and values[0] is spec and values[0].dtype in (tf.int64, tf.string):
        ops.append("unique")
    if depth == 0:
        ops += ["zip", "zip_dict", "concatenate"]
    op = random.choice(ops)
    small = lambda: random.choice([1, 2, 3, 4, 7])
    stage = {"op": op}
    if op == "map":
        stage["fn"] = random.choice(MAPS)
        if random.random() < 0.3:
            stage["parallel"] = random.choice([2, 3])
    elif op == "fails":
        stage["ignore"] = random.random() < 0.6
    elif op in ("filter", "take_while"):
        stage["by"] = random.choice([2, 3, 5, 7])
        stage["not"] = random.choice([0, 1, 2])
    elif op in ("batch", "rebatch", "padded_batch", "bucket"):
        if random.random() < 0.4:
            stage["drop"] = True
        if op == "rebatch":
            stage["sizes"] = random.choice([[2], [3], [1, 2], [5, 1]])
        else:
            stage["size"] = small()
        if op == "padded_batch":
            if random.random() < 0.4:
                stage["shapes"] = [[random.choice([-1, n if n is not None else -1, 4, 6]) for n in value.shape]
                                   for value in values]
            if random.random() < 0.4:
                stage["values"] = [random.choice([0, -1, 7]) for _ in values]
        if op == "bucket":
            del stage["size"]
            stage["boundaries"] = random.choice([[2], [1, 3], [2, 4, 6]])
            stage["sizes"] = [small() for _ in range(len(stage["boundaries"]) + 1)]
            # Known sizes stay as they are in tf.data; the shapes of elements are not known here.
            if random.random() < 0.5 and all(size is None for value in values for size in value.shape):
                stage["to_boundary"] = True
            elif random.random() < 0.3:
                stage["no_padding"] = True
    elif op == "repeat":
        stage["n"] = random.choice([-1, 0, 1, 2, 3])
    elif op in ("take", "skip"):
        stage["n"] = random.choice([-1, 0, 1, 2, 3, 5, 9, 100])
    elif op == "enumerate":
        stage["n"] = random.choice([0, 5])
    elif op == "shard":
        stage["n"] = random.choice([1, 2, 3])
        stage["i"] = random.randrange(stage["n"])
    elif op == "zip":
        stage["others"] = [random_program(random, 1)[0] for _ in range(random.choice([1, 1, 2]))]
    elif op in ("zip_dict", "concatenate"):
        stage["other"] = random_program(random, 1)[0]
    elif op == "choose":
        stage["ways"] = random.sample([{"op": "take", "n": 2}, {"op": "skip", "n": 1}, {"op": "repeat", "n": 2}], 2)
        stage["choices"] = [random.choice([0, 1, 2]) for _ in range(random.choice([0, 4, 9]))]
        if random.random() < 0.1:
            stage["choices"].append(3)
        stage["stop"] = random.random() < 0.5
    elif op in ("flat_map", "interleave"):
        stage["fn"] = random.choice(["range", "copies", "batched", "slices"])
        if stage["fn"] == "slices" and not all(rank is not None and rank > 0 for rank in ranks):
            stage["fn"] = "range"
        if op == "interleave":
            stage["cycle"] = small()
            stage["block"] = random.choice([1, 1, 2, 3])
            if random.random() < 0.4:
                stage["parallel"] = min(stage["cycle"], random.choice([2, 3]))
    elif op == "window":
        stage["size"] = small()
        if random.random() < 0.6:
            stage["shift"] = small()
        if random.random() < 0.4:
            stage["stride"] = random.choice([1, 2, 3])
        if random.random() < 0.4:
            stage["drop"] = True
    elif op == "prefetch":
        stage["n"] = random.choice([0, 1, 3])
    elif op == "scan":
        stage["start"] = random.randint(-2, 3)
        stage["both"] = random.random() < 0.5
    elif op == "group_by_window":
        stage["by"] = random.choice([1, 2, 3])
        stage["size"] = random.choice([0, 1, 2, 5])
        stage["reduce"] = random.choice(["batch", "take"])
        stage["inner"] = random.choice([1, 2, 10])
    return stage


def random_program(random, depth):
    while True:
        program = {"source": random_source(random), "stages": []}
        try:
            data = source(program["source"])
        except Exception:  # Such as rows of a scalar.
            continue
        endless = False
        for _ in range(random.randint(0, 2) if depth else random.randint(1, 6)):
            stage = random_stage(random, data, depth)
            if endless and stage["op"] in SEARCHES:
                continue
            try:
                data = apply(data, stage)
            except Exception:  # tf.data refuses at once what an error says here where it happens.
                continue
            number = int(data.cardinality())
            endless = (number == tf.data.experimental.INFINITE_CARDINALITY
                       or endless and number == tf.data.experimental.UNKNOWN_CARDINALITY)
            program["stages"].append(stage)
        return program, data


def generate(random):
    program, data = random_program(random, 0)
    if random.random() < 0.3:
        program["stop"] = random.choice([0, 1, 2, 4])
    if random.random() < 0.3:
        program["reduce"] = True
    try:
        iter(data)
    except Exception:  # Shapes that tf.data takes for others than they are, in data sets that are chosen from.
        return generate(random)
    # A number that is known to be wrong is an error before the first element here, and behind it in tf.data.
    if random.random() < 0.3 and int(data.cardinality()) == tf.data.experimental.UNKNOWN_CARDINALITY:
        program["stages"].append({"op": "cardinality", "n": random.choice([0, 1, 3, 5])})
    return program


def nest_text(nest):
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{name}: {nest_text(nest[name])}" for name in sorted(nest)) + "}"
    if isinstance(nest, tuple):
        return "(" + ", ".join(nest_text(part) for part in nest) + ")"
    return "*"


def value_text(value):
    dtype = value.dtype.name
    shape = ", ".join(str(size) for size in value.shape)
    numbers = np.asarray(value.numpy(), object if dtype == "string" else None).reshape(-1).tolist()
    one = {"string": lambda v: '"' + v.decode() + '"', "float32": lambda v: f"{v:g}"}.get(dtype, str)
    return f"{dtype}[{shape}] " + " ".join(one(number) for number in numbers)


def text(element):
    return nest_text(element) + " " + "; ".join(value_text(value) for value in leaves(element))


def read(data):
    found = []
    iterator = iter(data)
    while len(found) < MOST:
        try:
            found.append(text(next(iterator)))
        except StopIteration:
            break
        except Exception:
            found.append("error")
            break
    return found


def stages_of(program):
    """Its own, and those of the data sets that it joins."""
    for stage in program["stages"]:
        yield stage
        for other in [*stage.get("others", []), *([stage["other"]] if "other" in stage else [])]:
            yield from stages_of(other)
        for way in stage.get("ways", []):
            yield way


def passes_over_errors(stage):
    """Whether it leaves out an element that is an error, which tf.data reads; or knows sooner that it is one."""
    return stage["op"] in ("skip", "self", "shard") or stage.get("drop") or stage.get("to_boundary")


def run(program):
    data = build(program)
    found = read(data)
    expected = {}
    if "error" not in found or not any(passes_over_errors(stage) for stage in stages_of(program)):
        expected["elements"] = found
    cardinality = int(data.cardinality())
    asserted = any(stage["op"] == "cardinality" for stage in program["stages"])
    # Of a data set without elements, repeated without end, tf.data says that it is infinite.
    empty = cardinality == tf.data.experimental.INFINITE_CARDINALITY and len(found) < MOST
    if cardinality != tf.data.experimental.UNKNOWN_CARDINALITY and not asserted and not empty:
        expected["cardinality"] = cardinality
    # A cache of tf.data that an error has ended is taken for whole by the next iterator.
    if program.get("reduce") and "error" not in found:
        state = data.take(MOST).reduce(tf.constant(1, tf.int64), lambda s, *e: (s * 31 + key(e)) % 1000003)
        expected["reduced"] = int(state)
    return {}, {name: np.array(value, dtype=object if name == "elements" else np.int64)
                for name, value in expected.items()}
