"""Compares muster board with TensorBoard on the same files: the numbers, and with --bench the time to the first paint of all
runs and the memory. ./dev check board calls it without --bench.

    python tools/peers/board_compare.py BIN FOLDER [DATA]
    python tools/peers/board_compare.py --bench BIN FOLDER [RUNS POINTS]

BIN has muster-board and board_runs; FOLDER takes the runs; DATA is ../shared/data. Ends with 1 if a number differs.
"""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

READY = 120  # seconds until a server has read the runs


class Server:
    """A program with an HTTP port, and the processes it starts."""

    def __init__(self, command, url):
        self.started = time.monotonic()
        self.url = url
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def get(self, path, **query):
        url = f"{self.url}/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.loads(answer.read())

    def wait_until(self, ready):
        end = time.monotonic() + READY
        while time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError):
                if ready():
                    return
            time.sleep(0.2)
        sys.exit(f"error: {self.url} has not read the runs within {READY} s")

    def memory(self):
        """MiB of the program and of what it started, without what they share."""
        return sum(memory_of(pid) for pid in family(self.process.pid))

    def stop(self):
        for pid in family(self.process.pid)[::-1]:
            with contextlib.suppress(ProcessLookupError):
                subprocess.run(["kill", str(pid)], check=False)
        self.process.wait()


def family(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [each for child in children for each in family(int(child))]


def memory_of(pid):
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start_board(bin_folder, folder):
    port = free_port()
    return Server([str(bin_folder / "muster-board"), str(folder), f"--port={port}"], f"http://127.0.0.1:{port}")


def start_tensorboard(folder, *flags):
    port = free_port()
    program = str(pathlib.Path(sys.executable).parent / "tensorboard")
    return Server([program, f"--logdir={folder}", "--host=127.0.0.1", f"--port={port}", *flags], f"http://127.0.0.1:{port}")


def is_read(board):
    state = board.get("api/state")
    return state["runs"] and state["read_bytes"] == state["bytes"]


def as_number(value):
    return value if isinstance(value, (int, float)) else str(value)


def same(mine, theirs):
    return mine == theirs or (isinstance(mine, float) and abs(mine - theirs) <= 1e-6 * abs(theirs))


def compare(bin_folder, folder):
    """Returns how many scalars are the same, and what is not."""
    board = start_board(bin_folder, folder)
    other = start_tensorboard(folder, "--samples_per_plugin=scalars=1000000,images=1000,histograms=1000,text=1000", "--reload_interval=5")
    same_tags, differing = 0, []
    try:
        board.wait_until(lambda: is_read(board))
        state = board.get("api/state")
        names = {run["name"] for run in state["runs"]}
        other.wait_until(lambda: names <= set(other.get("data/runs")))
        theirs = {}
        for plugin, kind in {"scalars": "scalar", "histograms": "histogram", "images": "image", "audio": "audio", "pr_curves": "curve"}.items():
            with contextlib.suppress(OSError):
                theirs[kind] = other.get(f"data/plugin/{plugin}/tags")
        for tag in state["tags"]:
            for number in tag["runs"]:
                name = state["runs"][number]["name"]
                place = f"{name} {tag['name']}"
                if tag["kind"] in theirs and tag["name"] not in theirs[tag["kind"]].get(name, {}):
                    differing.append(f"{place}: TensorBoard has no such {tag['kind']}")
                elif tag["kind"] == "scalar":
                    mine = [(each["step"], as_number(each["value"])) for each in board.get("api/points", tag=tag["number"], runs=number, format="json")]
                    points = [(step, as_number(value)) for _, step, value in other.get("data/plugin/scalars/scalars", run=name, tag=tag["name"])]
                    if len(mine) == len(points) and all(a[0] == b[0] and same(a[1], b[1]) for a, b in zip(mine, points)):
                        same_tags += 1
                    else:
                        differing.append(f"{place}: {mine[:3]}… ({len(mine)}), TensorBoard {points[:3]}… ({len(points)})")
                elif tag["kind"] == "histogram":
                    mine = board.get("api/histograms", tag=tag["number"], run=number, most=500)
                    points = other.get("data/plugin/histograms/histograms", run=name, tag=tag["name"])
                    steps = [each["step"] for each in mine] == [each[1] for each in points]
                    counts = [sum(each["counts"]) for each in mine], [sum(row[2] for row in each[2]) for each in points]
                    if steps and all(abs(a - b) <= 1e-6 * abs(b) for a, b in zip(*counts)):
                        same_tags += 1
                    else:
                        differing.append(f"{place}: histograms of {counts[0]}, TensorBoard {counts[1]}")
        shown = {(state["runs"][number]["name"], tag["name"]) for tag in state["tags"] for number in tag["runs"]}
        for kind, runs in theirs.items():
            differing += [f"{run} {tag}: only TensorBoard has this {kind}" for run, tags in runs.items() for tag in tags if (run, tag) not in shown]
    finally:
        board.stop()
        other.stop()
    return same_tags, differing


def damaged_points(bin_folder, folder):
    board = start_board(bin_folder, folder)
    other = start_tensorboard(folder)
    try:
        board.wait_until(lambda: is_read(board))
        state = board.get("api/state")
        run = next(number for number, run in enumerate(state["runs"]) if run["name"] == "damaged")
        tag = next(tag["number"] for tag in state["tags"] if tag["name"] == "loss")
        mine = len(board.get("api/points", tag=tag, runs=run, format="json"))
        other.wait_until(lambda: "loss" in other.get("data/plugin/scalars/tags").get("damaged", {}))
        return mine, len(other.get("data/plugin/scalars/scalars", run="damaged", tag="loss"))
    finally:
        board.stop()
        other.stop()


def check(bin_folder, folder, data):
    shutil.rmtree(folder, ignore_errors=True)
    runs = folder / "kinds"
    subprocess.run([bin_folder / "board_runs", "kinds", runs], check=True)
    hostile = folder / "hostile"
    subprocess.run([bin_folder / "board_runs", "hostile", hostile], check=True)
    print("        of a damaged file of 100 points, the board shows %d and TensorBoard %d" % damaged_points(bin_folder, hostile), flush=True)
    written = []
    tensorflow = pathlib.Path("build/peers/tensorflow/bin/python")
    if tensorflow.exists():
        written = [folder / "written_by_tensorflow"]
        subprocess.run([tensorflow, pathlib.Path(__file__).parent / "board_writer.py", written[0]], check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""})
    else:
        print("        skipped: files of TensorFlow 2.15, which ./dev peers tensorflow installs")
    failed = 0
    for each in [runs] + written + ([pathlib.Path(data) / "tensorflow"] if data else []):
        same_tags, differing = compare(bin_folder, each)
        print(f"{'ok      ' if same_tags and not differing else 'DIFFERS '}{each.name}: {same_tags} tags have TensorBoard's numbers", flush=True)
        for line in differing:
            print(f"DIFFERS {line}")
        failed += bool(differing) or not same_tags
    return 1 if failed else 0


def open_browser():
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    for flag in ["--headless=new", "--no-sandbox", "--enable-unsafe-swiftshader", "--no-first-run", "--disable-background-networking", "--disable-component-update",
                 "--disable-sync", "--window-size=1280,900", "--disable-dev-shm-usage", "--enable-precise-memory-info"]:
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


NODES = """
    const nodes = [];
    const walk = (node) => { nodes.push(node); if (node.shadowRoot) walk(node.shadowRoot); node.childNodes.forEach(walk); };
    walk(document.body);"""
# Both charts are drawn with all runs.
BOARD_SHOWN = "return document.querySelectorAll('.card canvas').length === 2;"
# TensorBoard shows no run where there are more than 40: the box that chooses all, then the answers and the charts.
CHOOSE_ALL = NODES + """
    const box = nodes.find((n) => n.nodeName === 'INPUT' && n.type === 'checkbox');
    if (!box) return false;
    if (!box.checked) box.click();
    return box.checked;"""
TENSORBOARD_SHOWN = """
    const answers = performance.getEntriesByType('resource').filter((each) => each.name.includes('timeSeries') && each.responseEnd > 0);
    const drawn = [...document.querySelectorAll('line-chart')].filter((each) => each.querySelector('.series-view canvas, .series-view svg path')).length;
    return answers.length >= 2 && drawn >= 2;"""


def until(driver, script, end):
    while time.monotonic() < end:
        if driver.execute_script(script):
            return
        time.sleep(0.02)
    sys.exit(f"error: {driver.current_url} did not show all runs within {READY} s")


def measure(start, ready, page, scripts, picture):
    """Starts a server, waits until it has read all, and opens its page: (seconds to read, seconds until all runs are
    drawn, MiB of the server, MiB of the page)."""
    driver = open_browser()
    server = start()
    try:
        server.wait_until(lambda: ready(server))
        read = time.monotonic() - server.started
        begin = time.monotonic()
        driver.get(server.url + page)
        for script in scripts:
            until(driver, script, begin + READY)
        # The next picture of the screen is drawn.
        driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));")
        drawn = time.monotonic() - begin
        driver.save_screenshot(str(picture))
        heap = driver.execute_script("return performance.memory.usedJSHeapSize") / 2**20
        return read, drawn, server.memory(), heap
    finally:
        driver.quit()
        server.stop()


def bench(bin_folder, folder, runs, points):
    many = folder / f"many_{runs}_{points}"
    if not many.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([bin_folder / "board_runs", "many", many, str(runs), str(points)], check=True)

    def has_read(server):
        if len(server.get("data/runs")) < runs:
            return False
        tags = server.get("data/plugin/scalars/tags")
        last = [server.get("data/plugin/scalars/scalars", run=run, tag="loss")[-1][1] for run in list(tags)[::7] + list(tags)[-1:]]
        return len(tags) == runs and min(last) == points

    print(f"{runs} runs of {points} steps with two scalars each: medians of 3", flush=True)
    rows = {"muster board": [], "TensorBoard": []}
    for _ in range(3):
        rows["muster board"].append(measure(lambda: start_board(bin_folder, many), is_read, "/", [BOARD_SHOWN], folder / "board.png"))
        rows["TensorBoard"].append(measure(lambda: start_tensorboard(many), has_read, "/#timeseries", [CHOOSE_ALL, TENSORBOARD_SHOWN], folder / "tensorboard.png"))
    medians = {name: [statistics.median(column) for column in zip(*row)] for name, row in rows.items()}
    for name, (read, drawn, server, page) in medians.items():
        print(f"{name:13} read in {read:6.2f} s   drawn in {drawn:5.2f} s   server {server:6.1f} MiB   page {page:5.1f} MiB")
    ratios = [theirs / mine for mine, theirs in zip(medians["muster board"], medians["TensorBoard"])]
    print("TensorBoard takes %.1f times as long to read and %.1f times to draw; %.1f and %.1f times as much memory" % tuple(ratios))
    return 0


def main():
    words = sys.argv[1:]
    if words[:1] == ["--bench"]:
        runs, points = (int(each) for each in (words[3:] + [100, 100000])[:2]) if len(words) >= 5 else (100, 100000)
        return bench(pathlib.Path(words[1]), pathlib.Path(words[2]), runs, points)
    return check(pathlib.Path(words[0]), pathlib.Path(words[1]), words[2] if len(words) > 2 else None)


if __name__ == "__main__":
    sys.exit(main())
