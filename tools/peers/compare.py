"""Runs generated programs in TensorFlow and in Muster, and makes those that differ smaller. ./dev check peers calls it.

    python tools/peers/compare.py TEST [--kinds=A,B] [--seeds=FIRST:END] [--keep=FOLDER]

TEST is the program peers_test, which runs cases in Muster. Each kind is a module of tools/peers/cases. --keep writes every
case into FOLDER: golden cases are made so. Ends with 1 if a program differs.
"""

import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import pathlib
import pkgutil
import random
import re
import subprocess
import sys
import tempfile
import traceback

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np

import cases


def kinds():
    return [module.name for module in pkgutil.iter_modules(cases.__path__)]


def value(number):
    if isinstance(number, (bytes, str)):
        return number.decode() if isinstance(number, bytes) else number
    if isinstance(number, (float, np.floating)) and not np.isfinite(number):
        return "nan" if np.isnan(number) else ("inf" if number > 0 else "-inf")
    return number


def array(numbers):
    numbers = np.asarray(numbers)
    dtype = "string" if numbers.dtype.kind in "OSU" else numbers.dtype.name
    if dtype == "float32":  # The fewest digits that say which float32 it is.
        numbers = np.array([float(str(n)) for n in numbers.reshape(-1)]).reshape(numbers.shape)
    return {"dtype": dtype, "shape": list(numbers.shape), "values": [value(n) for n in numbers.reshape(-1).tolist()]}


def case(kind, program):
    """The program and what the peer made of it, as peers_test reads them. run() may set program["tolerance"]."""
    ran = copy.deepcopy(program)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            inputs, expected, *files = importlib.import_module("cases." + kind).run(ran)
        refusal = None
    except Exception as error:  # What a peer refuses is part of what is compared.
        inputs, expected, files, refusal = {}, {}, [], "".join(traceback.format_exception_only(error)).strip()[:300]
    if "tolerance" in ran:
        program = {**program, "tolerance": ran["tolerance"]}
    written = {"kind": kind, "program": program, "inputs": {name: array(n) for name, n in inputs.items()},
               "expected": {name: array(n) for name, n in expected.items()}}
    if refusal is not None:
        written.update(refused=True, why=refusal)
    if files:
        written["files"] = files[0]
    return written


def write(written, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    for end, content in written.pop("files", {}).items():
        (path.parent / (path.stem + end)).write_bytes(content)
    path.write_text(json.dumps(written, separators=(",", ":")) + "\n")


def differences(test, folder):
    """What peers_test says of the cases in the folder: {name of the case: text}."""
    result = folder / "result.xml"
    environment = dict(os.environ, MUSTER_PEER_CASES=str(folder))
    run = subprocess.run([test, f"--gtest_output=json:{result}"], env=environment, capture_output=True, text=True)
    if not result.exists():
        sys.exit(f"error: {test} wrote no result:\n{run.stdout}{run.stderr}")
    found = {}
    for suite in json.loads(result.read_text())["testsuites"]:
        for one in suite["testsuite"]:
            if one.get("failures"):
                path = re.search(r"GetParam\(\) = \"(.*)\"|$", one.get("value_param", "")).group(1) or one["value_param"]
                found[pathlib.Path(path.strip('"')).stem] = one["failures"][0]["failure"]
    result.unlink()
    if run.returncode != 0 and not found:
        sys.exit(f"error: {test} ended with {run.returncode}:\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return found


def smaller(node):
    """Each value that is one thing less than the node."""
    if isinstance(node, dict):
        for key in node:
            yield {k: v for k, v in node.items() if k != key}
        for key, part in node.items():
            for less in smaller(part):
                yield {**node, key: less}
    elif isinstance(node, list):
        for i in range(len(node)):
            yield node[:i] + node[i + 1:]
        for i, part in enumerate(node):
            for less in smaller(part):
                yield node[:i] + [less] + node[i + 1:]
    elif isinstance(node, bool):
        if node:
            yield False
    elif isinstance(node, int) and node > 1:
        yield 1
        if node > 2:
            yield node // 2


def first_word(text):
    """Of what peers_test says of a case: the name of the first array that differs, or "Muster" where one side refuses."""
    return re.search(r'Actual: \{ "(\S+)|$', text).group(1)


def shrink(test, kind, program, tries=150):
    """The smallest program found that still differs in the same way: in the same array first, or one alone refuses."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def differs(candidate):
            written = case(kind, candidate)
            write(written, folder / "case.json")
            return differences(test, folder).get("case"), written.get("refused", False)

        text, refused = differs(program)
        if text is None:
            return program, "", False
        again = True
        while again and tries > 0:
            again = False
            for candidate in smaller(program):
                tries -= 1
                if tries <= 0:
                    break
                new_text, new_refused = differs(candidate)
                same = new_text is not None and new_refused == refused and first_word(new_text) == first_word(text)
                if same:
                    program, text, again = candidate, new_text, True
                    break
        return program, text, True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test")
    parser.add_argument("--kinds", default=",".join(kinds()))
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--keep")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    first, end = (int(part) for part in options.seeds.split(":"))
    failed = 0
    for kind in options.kinds.split(","):
        module = importlib.import_module("cases." + kind)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(options.keep or name) / kind
            programs = {}
            refused = 0
            for seed in range(first, end):
                program = json.loads(json.dumps(module.generate(random.Random(seed))))
                programs[f"seed_{seed}"] = program
                written = case(kind, program)
                refused += written.get("refused", False)
                write(written, folder / f"seed_{seed}.json")
            found = differences(options.test, folder)
        print(f"{kind}: {len(programs)} programs, {refused} refused by the peer, {len(found)} differ", flush=True)
        for seed, text in found.items():
            failed += 1
            program = programs[seed]
            if not options.no_shrink:
                program, smaller_text, still = shrink(options.test, kind, program)
                text = smaller_text if still else text
            print(f"  {seed}: {json.dumps(program)}\n    {text.strip()}".replace("\n", "\n    "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
