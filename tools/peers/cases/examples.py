"""tf.io.parse_example and its likes, and files of TFRecords: what is in them, or that it is refused."""

import gzip
import os
import struct
import tempfile
import zlib

import numpy as np
import tensorflow as tf

DTYPES = {"float32": tf.float32, "int64": tf.int64, "string": tf.string}
LISTS = {"string": 1, "float32": 2, "int64": 3}  # their fields in a tf.Feature
NAMES = ("a", "b", "c", "d")


def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def feature(given):
    """A tf.Feature in wire format: {"kind", "values", "packed"}; None has no list at all."""
    if given is None:
        return b""
    kind = given["kind"]
    values = given["values"]
    if kind == "string":
        inside = b"".join(field(1, text.encode()) for text in values)
    else:
        one = (lambda v: struct.pack("<f", float(v))) if kind == "float32" else varint
        if given.get("packed", True):
            inside = field(1, b"".join(one(v) for v in values)) if values else b""
        else:
            inside = b"".join(varint(1 << 3 | (5 if kind == "float32" else 0)) + one(v) for v in values)
    return field(LISTS[kind], inside)


def features(entries):
    return b"".join(field(1, field(1, name.encode()) + field(2, feature(given))) for name, given in entries)


def lists(entries):
    return b"".join(field(1, field(1, name.encode()) + field(2, b"".join(field(1, feature(step)) for step in steps)))
                    for name, steps in entries)


def example(given):
    data = field(1, features(given["context"]))
    if "lists" in given:
        data += field(2, lists(given["lists"]))
    for hurt in given.get("damage", []):
        data = damaged(data, hurt)
    return data


def damaged(data, hurt):
    at = hurt["at"] % (len(data) + 1)
    if hurt["how"] == "cut":
        return data[:at]
    if hurt["how"] == "insert":
        return data[:at] + bytes.fromhex(hurt["bytes"]) + data[at:]
    if at == len(data):
        return data
    return data[:at] + bytes([data[at] ^ hurt["bits"]]) + data[at + 1:]


def specification(given):
    spec = {}
    for name, one in given.items():
        dtype = DTYPES[one["dtype"]]
        if one["type"] == "fixed":
            spec[name] = tf.io.FixedLenFeature(one["shape"], dtype, one.get("default"))
        elif one["type"] == "sequence":
            padding = {"default_value": one["padding"]} if "padding" in one else {}
            spec[name] = tf.io.FixedLenSequenceFeature(one["shape"], dtype, one["allow_missing"], **padding)
        else:
            spec[name] = tf.io.VarLenFeature(dtype)
    return spec


def dense(value):
    """A sparse tensor as Muster has it: filled up, and how many values each row has."""
    filled = tf.sparse.to_dense(value, "" if value.dtype == tf.string else 0).numpy()
    lengths = np.zeros(filled.shape[:-1], np.int64)
    for index in value.indices.numpy():
        lengths[tuple(index[:-1])] += 1
    return filled, lengths


def collect(parsed, arrays, prefix, suffix):
    for name, value in parsed.items():
        if isinstance(value, tf.SparseTensor):
            arrays[prefix + name], arrays[prefix + name + suffix] = dense(value)
        else:
            arrays[prefix + name] = np.asarray(value.numpy())


def records(program):
    data = b""
    for text in program["records"]:
        one = text.encode()
        length = struct.pack("<Q", len(one))
        data += length + masked(length) + one + masked(one)
    compression = program["compression"]
    if compression == "GZIP":
        data = gzip.compress(data, mtime=0)
    elif compression == "ZLIB":
        data = zlib.compress(data)
    for hurt in program["damage"]:
        data = damaged(data, hurt)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "records")
        with open(path, "wb") as file:
            file.write(data)
        iterator = iter(tf.data.TFRecordDataset(path, compression))
        while True:
            try:
                found.append(next(iterator).numpy().hex())
            except StopIteration:
                break
            except Exception:
                found.append("error")
                break
    # TensorFlow takes the end of a file that is cut in the head of a record, and damage in a compressed one, for the
    # end of the records. Muster says that it is damaged.
    if not is_whole(data, compression):
        found = [*found, "error"] if found[-1:] != ["error"] else found
        # How many records of a damaged stream come before the error is a matter of buffers.
        found = ["error"] if compression else found
    return {"file": np.array([data.hex()], object)}, {"records": np.array(found, object)}


def is_whole(data, compression):
    if compression and data:
        packed = zlib.decompressobj(31 if compression == "GZIP" else 15)
        try:
            data = packed.decompress(data)
        except zlib.error:
            return False
        if not packed.eof or packed.unused_data:
            return False
    at = 0
    while at < len(data):
        if at + 12 > len(data):
            return False
        at += 16 + struct.unpack("<Q", data[at:at + 8])[0]
    return at == len(data)


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def run(program):
    if program["what"] == "records":
        return records(program)
    serialized = [example(one) for one in program["examples"]]
    for one in serialized:
        # What is not a message is refused, also where TensorFlow's own parser reads over the end of one inside of another.
        (tf.train.Example if program["what"] == "examples" else tf.train.SequenceExample).FromString(one)
    inputs = {"serialized": np.array([one.hex() for one in serialized], object)}
    arrays = {}
    one = program.get("single", False)
    context = specification(program["context"])
    if program["what"] == "examples":
        parsed = tf.io.parse_single_example(serialized[0], context) if one else tf.io.parse_example(serialized, context)
        collect(parsed, arrays, "", "/row_lengths")
    else:
        sequences = specification(program["sequences"])
        if one:
            context, steps = tf.io.parse_single_sequence_example(serialized[0], context, sequences)
        else:
            context, steps, lengths = tf.io.parse_sequence_example(serialized, context, sequences)
            for name, value in lengths.items():
                arrays["steps/" + name + "/row_lengths"] = value.numpy()
        collect(context, arrays, "", "/row_lengths")
        collect(steps, arrays, "steps/", "/step_lengths")
    return inputs, {name: value.astype(object) if value.dtype.kind in "OSU" else value
                    for name, value in arrays.items()}


def draw(random, dtype):
    if dtype == "string":
        return random.choice(["", "x", "yy", "a b", "zzz\n", "é"])
    if dtype == "int64":
        return random.choice([0, 1, -1, 7, 300, -(1 << 63), (1 << 63) - 1])
    return random.choice([0, 0.5, -2.5, 1e10, "nan", "inf"])


def random_spec(random, what):
    given = {}
    steps = what == "steps"
    kinds = {"examples": ["fixed", "fixed", "sequence", "var"], "sequences": ["fixed", "var"],
             "steps": ["sequence", "sequence", "var"]}[what]
    for name in random.sample(NAMES, random.randint(1, 3)):
        dtype = random.choice(list(DTYPES))
        kind = random.choice(kinds)
        one = {"type": kind, "dtype": dtype}
        if kind != "var":
            one["shape"] = random.choice([[], [], [1], [2], [2, 2], [3]])
        if kind == "fixed" and random.random() < 0.6:
            count = int(np.prod(one["shape"]))
            values = [{"string": "def", "int64": 5, "float32": 1.5}[dtype]] * count
            one["default"] = np.array(values).reshape(one["shape"]).tolist()
        if kind == "sequence":
            one["allow_missing"] = not steps or random.random() < 0.5
            if not steps and random.random() < 0.4:
                one["padding"] = {"string": "pad", "int64": -1, "float32": 0.25}[dtype]
        given[name] = one
    return given


def random_feature(random, one, count):
    if random.random() < 0.04:
        return None
    dtype = one["dtype"] if random.random() < 0.98 else random.choice(list(DTYPES))
    given = {"kind": dtype, "values": [draw(random, dtype) for _ in range(count)]}
    if dtype != "string" and random.random() < 0.2:
        given["packed"] = False
    return given


def size_of(random, one):
    size = int(np.prod(one.get("shape", [])))
    if one["type"] == "fixed":
        return size if random.random() < 0.98 else random.choice([0, size + 1])
    if one["type"] == "sequence":
        return size * random.randint(0, 3) + (random.random() < 0.03)
    return random.randint(0, 3)


def random_damage(random, likely):
    if random.random() >= likely:
        return []
    how = random.choice(["cut", "flip", "insert"])
    hurt = {"how": how, "at": random.randint(0, 200)}
    if how == "flip":
        hurt["bits"] = 1 << random.randrange(8)
    if how == "insert":
        hurt["bytes"] = random.choice(["00", "ff", "1801", "2203616263", "0a00", "0b0c"])
    return [hurt]


def generate(random):
    what = random.choice(["examples", "examples", "sequences", "records"])
    if what == "records":
        texts = [random.choice(["", "a", "hello", "x" * 40]) for _ in range(random.randint(0, 4))]
        return {"what": what, "records": texts, "compression": random.choice(["", "", "GZIP", "ZLIB"]),
                "damage": random_damage(random, 0.7)}
    program = {"what": what, "context": random_spec(random, what), "examples": []}
    if what == "sequences":
        program["sequences"] = random_spec(random, "steps")
    if random.random() < 0.3:
        program["single"] = True
    for _ in range(1 if program.get("single") else random.randint(1, 4)):
        entries = [[name, random_feature(random, one, size_of(random, one))]
                   for name, one in program["context"].items() if random.random() < 0.95]
        if random.random() < 0.2:
            entries.append(["other", random_feature(random, {"dtype": "int64"}, 2)])
        if entries and random.random() < 0.05:
            entries.append(random.choice(entries))
        given = {"context": entries}
        if what == "sequences":
            given["lists"] = []
            for name, one in program["sequences"].items():
                if random.random() < 0.93:
                    size = int(np.prod(one.get("shape", []))) if one["type"] == "sequence" else None
                    steps = [random_feature(random, one, random.randint(0, 3) if size is None else
                                            size + (random.random() < 0.02)) for _ in range(random.randint(0, 3))]
                    given["lists"].append([name, steps])
        damage = random_damage(random, 0.06)
        if damage:
            given["damage"] = damage
        program["examples"].append(given)
    return program
