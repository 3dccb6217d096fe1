"""Starts TensorBoard over the runs that bin/summaries_program writes, asks its HTTP interface for each kind of data,
opens each page in Chromium, and looks at a run that is going on. ./dev check tensorboard calls it.

    python tools/peers/tensorboard_pages.py PROGRAM FOLDER

Screenshots go to FOLDER/pages. Ends with 1 if something is not shown.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

READY, LIVE = 60, 25  # seconds: until TensorBoard has read the runs; that the third run lasts
# Page: words that must stand on it.
PAGES = {
    "timeseries": ["first", "second", "loss", "weight", "grey"],
    "scalars": ["first/eval", "loss", "band", "größe"],
    "custom_scalars": ["together", "loss and mean", "with a band"],
    "images": ["grey", "rgb", "rgba"],
    "audio": ["mono", "stereo"],
    "graphs": ["net"],
    "distributions": ["weight", "odd"],
    "histograms": ["weight", "odd"],
    "text": ["note", "bold", "table"],
    "hparams": ["units", "rate", "loss of the evaluation", "first", "second"],
}


# Every node of the page, through the shadow roots of its elements.
NODES = """
    const nodes = [];
    const walk = (node) => {
      nodes.push(node);
      if (node.shadowRoot) walk(node.shadowRoot);
      node.childNodes.forEach(walk);
    };
    walk(document.body);"""
TEXT = NODES + """
    const code = ['SCRIPT', 'STYLE'];
    const shown = nodes.filter((n) => n.nodeType === Node.TEXT_NODE && !code.includes(n.parentNode.nodeName));
    return shown.map((node) => node.textContent).join(' ').replace(/\\s+/g, ' ');"""
EXPAND = NODES + """
    const group = nodes.find((n) => n.nodeName === 'g' && n.getAttribute('data-name') === arguments[0]);
    group.querySelector('rect').dispatchEvent(new MouseEvent('dblclick', {bubbles: true, composed: true}));"""
# Decodes what the players of the page would play.
SOUNDS = NODES + """
    const done = arguments[0];
    const decode = async (player) => {
      const bytes = await (await fetch(player.src || player.querySelector('source').src)).arrayBuffer();
      const sound = await new OfflineAudioContext(1, 1, 8000).decodeAudioData(bytes);
      return [sound.duration, sound.numberOfChannels];
    };
    const players = nodes.filter((node) => node.nodeName === 'AUDIO');
    Promise.all(players.map(decode)).then(done, (error) => done([[String(error)]]));"""


def text_of(driver):
    return driver.execute_script(TEXT)


def expand(driver, name):
    """Opens a node of the graph."""
    driver.execute_script(EXPAND, name)
    time.sleep(3)


class Board:
    def __init__(self, folder, log):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = [str(pathlib.Path(sys.executable).parent / "tensorboard"), f"--logdir={folder}", "--host=127.0.0.1",
                   f"--port={port}", "--reload_interval=2"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def get(self, path, body=None, **query):
        url = f"{self.url}/data/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=20) as answer:
            return answer.read()

    def json(self, path, body=None, **query):
        return json.loads(self.get(path, body, **query))

    def wait_for(self, runs):
        end = time.monotonic() + READY
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if runs <= set(self.json("runs")):
                    return
            time.sleep(0.5)
        sys.exit(f"error: TensorBoard did not show the runs {sorted(runs)} within {READY} s")


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, truth, what):
        self.failed += not truth
        print(("ok      " if truth else "MISSING ") + what, flush=True)


def check_data(board, check):
    run = {"run": "first"}
    scalars = board.json("plugin/scalars/tags")
    for tag in ["loss", "mean", "odd/not_a_number", "odd/infinite", "größe", "global_step/sec", "examples/sec",
                "band/lower"]:
        check.that(tag in scalars["first"], f"scalars: {tag}")
    check.that("loss" in scalars["first/eval"], "scalars: loss of the evaluation")
    points = board.json("plugin/scalars/scalars", tag="loss", **run)
    check.that([point[1] for point in points] == list(range(1, 57, 5)), "scalars: loss in the steps 1, 6, …, 56")
    points = board.json("plugin/scalars/scalars", tag="odd/not_a_number", **run)
    check.that(len(points) == 12, "scalars: NaN at each step")
    histograms = board.json("plugin/histograms/tags")["first"]
    for tag in ["x", "weight", "odd/constant", "odd/zeros", "odd/wide"]:
        found = tag in histograms
        check.that(found, f"histograms: {tag}")
        if found:
            buckets = board.json("plugin/histograms/histograms", tag=tag, **run)[0][2]
            total = {"x": 32, "weight": 3}.get(tag, 5)
            counted = sum(bucket[2] for bucket in buckets)
            check.that(abs(counted - total) < 1e-6, f"histograms: {tag} counts {total} values")
            check.that(bool(board.json("plugin/distributions/distributions", tag=tag, **run)), f"distributions: {tag}")
    images = board.json("plugin/images/tags")["first"]
    for tag in ["grey/image/0", "grey/image/1", "grey_alpha/image", "rgb/image/0", "rgba/image"]:
        check.that(tag in images, f"images: {tag}")
        if tag in images:
            entry = board.json("plugin/images/images", tag=tag, sample=0, **run)[0]
            query = dict(urllib.parse.parse_qsl(entry["query"]))
            picture = board.get("plugin/images/individualImage", **query)
            check.that(picture[:4] == b"\x89PNG" and struct.unpack(">II", picture[16:24]) == (24, 24),
                       f"images: {tag} is a PNG of 24 x 24")
    sounds = board.json("plugin/audio/tags")["first"]
    for tag in ["mono/audio/0", "stereo/audio"]:
        check.that(tag in sounds, f"audio: {tag}")
        if tag in sounds:
            entry = board.json("plugin/audio/audio", tag=tag, sample=0, **run)[0]
            query = dict(urllib.parse.parse_qsl(entry["query"]))
            check.that(board.get("plugin/audio/individualAudio", **query)[:4] == b"RIFF", f"audio: {tag} is a WAV")
    texts = board.json("plugin/text/tags")["first"]
    for tag, words in {"note": "<strong>bold</strong>", "table": "units</p></td>"}.items():
        found = tag in texts and words in board.json("plugin/text/text", tag=tag, **run)[0]["text"]
        check.that(found, f"text: {tag} as HTML")
    graph = board.get("plugin/graphs/graph", run="first", conceptual="false").decode()
    check.that("net/dense" in graph, "graphs: the layers")
    layout = board.json("plugin/custom_scalars/layout")
    check.that([c["title"] for c in layout.get("category", [])] == ["together"], "custom scalars: the layout")
    check_hparams(board, check)


def check_hparams(board, check):
    experiment = board.json("plugin/hparams/experiment", b'{"experimentName": ""}')
    columns = [one["name"] for one in experiment["hparamInfos"]]
    check.that({"units", "rate", "deep"} <= set(columns), f"hparams: columns {columns}")
    metrics = [(one["name"].get("group", ""), one["name"]["tag"]) for one in experiment["metricInfos"]]
    check.that(("eval", "loss") in metrics, f"hparams: metrics {metrics}")
    wanted = {"experimentName": "", "startIndex": 0, "sliceSize": 10, "colParams": [], "allowedStatuses": [
        "STATUS_SUCCESS", "STATUS_RUNNING", "STATUS_UNKNOWN", "STATUS_FAILURE"]}
    groups = board.json("plugin/hparams/session_groups", json.dumps(wanted).encode())["sessionGroups"]
    units = sorted(group["hparams"]["units"] for group in groups)
    check.that(units == [8, 16], f"hparams: sessions with {units} units")
    states = {session["status"] for group in groups for session in group["sessions"]}
    check.that(states == {"STATUS_SUCCESS"}, f"hparams: sessions ended as {states}")


def check_restart(runs, check):
    """TensorBoard without its quick loader drops what a run wrote for steps that are made again, and nothing else."""
    reader = EventAccumulator(str(runs / "second"))
    reader.Reload()
    steps = [point.step for point in reader.Scalars("loss")]
    check.that(steps == sorted(set(steps)) and 41 in steps, f"a run that went on at step 41: {steps}")


def check_pages(board, folder, check):
    options = webdriver.ChromeOptions()
    for argument in ["headless=new", "no-sandbox", "disable-dev-shm-usage", "enable-unsafe-swiftshader",
                     "window-size=1400,1800"]:
        options.add_argument("--" + argument)
    options.binary_location = shutil.which("chromium")
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(60)
        for page, words in PAGES.items():
            driver.get("about:blank")
            driver.get(f"{board.url}/#{page}")
            end = time.monotonic() + 30
            missing = words
            while missing and time.monotonic() < end:
                time.sleep(1)
                text = text_of(driver)
                missing = [word for word in words if word not in text]
            time.sleep(3)  # what is drawn comes after its title
            if page == "graphs":
                expand(driver, "net")
                check.that({"dense", "dense_1"} <= set(text_of(driver).split()), "page graphs: the layers of net")
            if page == "audio":
                sounds = driver.execute_async_script(SOUNDS)
                check.that(set(map(tuple, sounds)) == {(0.5, 1), (0.5, 2)},
                           f"page audio: seconds and channels {sounds}")
            driver.save_screenshot(str(folder / f"{page}.png"))
            check.that(not missing, f"page {page}" + (f": no {', '.join(missing)}" if missing else ""))
            severe = [one["message"] for one in driver.get_log("browser") if one["level"] == "SEVERE"]
            check.that(not severe, f"page {page} without errors" + "".join(f"\n    {one[:300]}" for one in severe))
    finally:
        driver.quit()


def check_live(board, program, runs, check):
    """The points of a run that is going on become more, and at last it has all."""
    live = subprocess.Popen([program, f"--model_dir={runs}", f"--live={LIVE}"], stderr=subprocess.DEVNULL)
    counts = []
    try:
        end = time.monotonic() + 3 * LIVE
        while live.poll() is None and time.monotonic() < end:
            time.sleep(2)
            if "live" in board.json("runs"):
                with contextlib.suppress(OSError):
                    counts.append(len(board.json("plugin/scalars/scalars", run="live", tag="loss")))
        time.sleep(5)
        counts.append(len(board.json("plugin/scalars/scalars", run="live", tag="loss")))
    finally:
        live.kill()
        live.wait()
    check.that(len(set(counts)) >= 3 and counts == sorted(counts) and counts[-1] == 12,
               f"a run that is going on: {counts} points")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    runs, pages = options.folder / "runs", options.folder / "pages"
    shutil.rmtree(options.folder, ignore_errors=True)
    pages.mkdir(parents=True)
    subprocess.run([options.program, f"--model_dir={runs}"], check=True, timeout=120, stderr=subprocess.DEVNULL)
    check = Checks()
    with open(options.folder / "tensorboard.log", "w") as log:
        board = Board(runs, log)
        try:
            board.wait_for({"first", "second", "first/eval", "second/eval"})
            time.sleep(3)
            check_data(board, check)
            check_restart(runs, check)
            check_pages(board, pages, check)
            check_live(board, options.program, runs, check)
        finally:
            board.process.terminate()
            board.process.wait()
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
