"""tf.data.experimental.CsvDataset and make_csv_dataset: the rows of a file, or where an error is."""

import os
import tempfile

import numpy as np
import tensorflow as tf

KINDS = {"float32": tf.float32, "float64": tf.float64, "int64": tf.int64, "string": tf.string}


def text(value, digits=None):
    value = value.numpy()
    if isinstance(value, bytes):
        return '"' + value.decode() + '"'
    if value.dtype.kind == "i":
        return str(value)
    return f"{value:.{digits or (9 if value.dtype.name == 'float32' else 17)}g}"


def read(data, row_text):
    found = []
    iterator = iter(data)
    while len(found) < 50:
        try:
            found.append(row_text(next(iterator)))
        except StopIteration:
            break
        except Exception:
            found.append("error")
            break
    return found


def run(program):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, content in enumerate(program["files"]):
            paths.append(os.path.join(folder, f"{i}.csv"))
            with open(paths[-1], "w", encoding="utf-8", newline="") as file:
                file.write(content)
        marks = {"field_delim": program.get("delimiter", ","), "use_quote_delim": program.get("quotes", True),
                 "na_value": program.get("na", "")}
        if program["reader"] == "CsvDataset":
            columns = program["columns"]
            chosen = [column["index"] for column in columns]
            defaults = [KINDS[column["kind"]] if "missing" not in column else
                        tf.constant([column["missing"]], KINDS[column["kind"]]) for column in columns]
            data = tf.data.experimental.CsvDataset(
                paths, defaults, header=program.get("header", False),
                select_cols=chosen if len(chosen) < program["count"] else None, **marks)
            found = read(data, lambda row: "; ".join(text(value) for value in row))
        else:
            options = {"select_columns": program["select"]} if "select" in program else {}
            if "rows" in program:
                options["num_rows_for_inference"] = program["rows"]
            if "label" in program:
                options["label_name"] = program["label"]
            if "names" in program:
                options["column_names"] = program["names"]
            data = tf.data.experimental.make_csv_dataset(
                paths, 1, header=program.get("header", True), num_epochs=1, shuffle=False, **marks, **options)

            def row_text(row):
                features, label = row if "label" in program else (row, None)
                # Six digits: the two may choose another width of floating point numbers.
                parts = [f"{name}={text(value[0], 6)}" for name, value in sorted(features.items())]
                return "; ".join(parts + ([] if label is None else [text(label[0], 6)]))

            found = read(data, row_text)
    return {}, {"rows": np.array(found, object)}


# What the two read differently on purpose is left out: docs/coming_from_tf_estimator.md has the table. Lines that are
# empty, fields of blanks alone, labels that are missing, "+5", "0x10", "1e400", lines with further fields behind those
# that are read; and, where kinds are inferred, files without rows, damaged lines and whole numbers that int64 does not
# hold.


def random_field(random, kind, program, required):
    delimiter = program.get("delimiter", ",")
    quotes = program.get("quotes", True)
    typed = program["reader"] == "CsvDataset"
    if not required and random.random() < 0.1:
        return random.choice(["", "", "NA", "?"])
    if not required and random.random() < 0.03:
        return random.choice(["abc", "1 2", " 7", "8 ", "1e3", "1.0", ".5", "5.", "--1", "1.5.1", "-0.0", "-0", "true"]
                             + (["nan", "inf", "-inf", "99999999999999999999", "1_000"] if typed else []))
    if kind == "int64":
        # Where TensorFlow looks at a few rows, a later one does not fit into its int32.
        wide = [] if "rows" in program else [123456789012, -(1 << 63), (1 << 63) - 1]
        field = str(random.choice([0, 1, -7, 42, *wide]))
    elif kind in ("float32", "float64"):
        field = random.choice(["0", "1.5", "-2.25", "1e-3", "3.14159265358979", "1E+05", "123456789", "0.1"])
    else:
        field = random.choice(["a", "bc", " d", "e ", "f g", "\u00e9", "1", "'h'"])
        if quotes and random.random() < 0.3:
            return '"' + random.choice(["q", "a" + delimiter + "b", 'say ""so""', "two\nlines", "x\r\ny"]) + '"'
    if quotes and random.random() < 0.1:
        field = '"' + field + '"'
    return field


def random_line(random, kinds, program, required):
    fields = [random_field(random, kind, program, i == required or len(kinds) == 1) for i, kind in enumerate(kinds)]
    typed = program["reader"] == "CsvDataset"
    if typed and len(program["columns"]) == len(kinds) and random.random() < 0.015:
        fields.append("9")
    elif typed and len(program["columns"]) == len(kinds) > 1 and random.random() < 0.015:
        fields.pop()
    line = program.get("delimiter", ",").join(fields)
    if typed and program.get("quotes", True) and random.random() < 0.01:
        line = random.choice(['"open', 'a"b' + line, '"a"b' + line])
    return line


def generate(random):
    reader = random.choice(["CsvDataset", "CsvDataset", "make_csv_dataset"])
    count = random.randint(1, 4)
    kinds = [random.choice(list(KINDS)) for _ in range(count)]
    program = {"reader": reader, "count": count}
    delimiter = random.choice([",", ",", ",", ";", "\t", "|"])
    if delimiter != ",":
        program["delimiter"] = delimiter
    if random.random() < 0.15:
        program["quotes"] = False
    if random.random() < 0.3:
        program["na"] = random.choice(["NA", "?", "-1"])
    header = random.random() < (0.5 if reader == "CsvDataset" else 0.8)
    program["header"] = header
    names = ["a", "b", "c", "d"][:count]
    random.shuffle(names)
    required = None
    if reader == "CsvDataset":
        chosen = sorted(random.sample(range(count), random.randint(1, count)))
        program["columns"] = []
        for index in chosen:
            column = {"index": index, "kind": kinds[index]}
            if random.random() < 0.5:
                column["missing"] = {"string": "none", "int64": -5, "float32": 0.5, "float64": 0.25}[kinds[index]]
            program["columns"].append(column)
    else:
        if not header:
            program["names"] = names
        if count > 1 and random.random() < 0.4:
            program["select"] = random.sample(names, random.randint(1, count))
        chosen = program.get("select", names)
        if len(chosen) > 1 and random.random() < 0.4:
            program["label"] = random.choice(chosen)
            required = names.index(program["label"])
            if program.get("na") == "-1":
                del program["na"]
        if random.random() < 0.3:
            program["rows"] = random.choice([1, 2, 3])
    end = random.choice(["\n", "\n", "\r\n"])
    program["files"] = []
    for i in range(random.choice([1, 1, 1, 2])):
        rows = random.randint(0 if reader == "CsvDataset" or i else 1, 6)
        lines = [delimiter.join(names)] if header else []
        lines += [random_line(random, kinds, program, required) for _ in range(rows)]
        program["files"].append(end.join(lines) + (end if lines and random.random() < 0.8 else ""))
    return program
