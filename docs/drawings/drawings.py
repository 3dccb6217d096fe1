"""Draws the pictures of the guides: python3 docs/drawings/drawings.py writes docs/images/NAME.svg, all of them."""

import pathlib

from canvas import Canvas

OUT = pathlib.Path(__file__).parent.parent / "images"


def cluster_roles():
    """The tasks of a cluster, and what they send each other."""
    draw = Canvas(900, 450, "The tasks of a cluster: chief, workers, parameter servers, evaluator")
    draw.box(30, 50, 250, 116, "chief\ntrains\nserves the coordinator\nsaves, logs, writes events", "chief")
    draw.box(400, 50, 180, 116, "worker 0\ntrains", "worker")
    draw.box(690, 50, 180, 116, "worker 1\ntrains", "worker")
    draw.arrow((282, 84), (398, 84), both=True)
    draw.arrow((582, 84), (688, 84), both=True)
    draw.arrow((398, 132), (282, 132), dashed=True)
    draw.arrow((780, 50), (780, 26), (155, 26), (155, 48), dashed=True)
    for x in (340, 635):
        draw.words(x, 74, "gradients", quiet=True)
    draw.words(340, 152, "heartbeats", quiet=True)
    draw.box(400, 226, 470, 76, "parameter servers: ps 0, ps 1, ...\nhold the weights and update them\n"
             "·only with the strategy parameter_server()", "server", dashed=True)
    draw.arrow((490, 168), (490, 224), both=True)
    draw.arrow((780, 168), (780, 224), both=True)
    draw.words(635, 200, "weights and gradients", quiet=True)
    draw.box(30, 346, 250, 74, "model_dir\ncheckpoints, TensorBoard events", "store")
    draw.arrow((155, 168), (155, 344))
    draw.words(165, 260, "saves", quiet=True, anchor="start")
    draw.box(560, 346, 310, 74, "evaluator\nevaluates new checkpoints\n·only if the cluster has this task", "plain",
             dashed=True)
    draw.arrow((282, 374), (558, 374))
    draw.arrow((558, 396), (282, 396))
    draw.words(420, 364, "checkpoints", quiet=True)
    draw.words(420, 416, "events", quiet=True)
    return draw


def step():
    """One step of two replicas, over time."""
    draw = Canvas(860, 330, "A step of two replicas: buckets of gradients are summed while backward still runs")
    for i, name in enumerate(("replica 0", "replica 1")):
        y = 54 + i * 170
        draw.words(24, y + 31, name, bold=True, anchor="start")
        draw.box(120, y, 90, 52, "batch\n·its rows", "store")
        draw.box(218, y, 130, 52, "forward\n·loss", "worker")
        draw.box(356, y, 250, 52, "backward\n·gradients, last layer first", "worker")
        draw.box(716, y, 120, 52, "update\n·the same", "chief")
    draw.words(24, 165, "sums over", bold=True, anchor="start")
    draw.words(24, 183, "all replicas", bold=True, anchor="start")
    for i, (x, name) in enumerate(((440, "bucket 1"), (530, "bucket 2"), (620, "bucket 3"))):
        draw.box(x, 143, 82, 54, name, "server")
        begin = (430, 515, 598)[i]
        draw.arrow((begin, 107), (x + 34, 141))
        draw.arrow((begin, 223), (x + 34, 199))
    draw.arrow((704, 160), (760, 108))
    draw.arrow((704, 180), (760, 222))
    draw.arrow((120, 302), (836, 302))
    draw.words(128, 320, "time", quiet=True, anchor="start")
    draw.words(478, 36, "A bucket is sent as soon as its gradients are complete.", quiet=True)
    return draw


def save():
    """A save of the chief, while the others wait."""
    draw = Canvas(900, 290, "A save: the chief writes, syncs and renames a file, and names it in the file checkpoint")
    draw.words(24, 76, "chief", bold=True, anchor="start")
    draw.words(24, 224, "other", bold=True, anchor="start")
    draw.words(24, 242, "workers", bold=True, anchor="start")
    for y in (44, 204):
        draw.box(110, y, 90, 54, "step 100", "worker")
        draw.box(790, y, 90, 54, "step 101", "worker")
    steps = ((214, 126, "write\n·a temporary name"), (346, 92, "sync\n·to the disk"),
             (444, 196, "rename\n·model.ckpt-100.safetensors"), (646, 130, "name it in\n·the file checkpoint"))
    for x, width, words in steps:
        draw.box(x, 44, width, 54, words, "store")
    draw.line((214, 110), (214, 118), (640, 118), (640, 110))
    draw.words(427, 142, "A crash during these steps leaves the earlier checkpoints", quiet=True)
    draw.words(427, 161, "and the file checkpoint as they were.", quiet=True)
    draw.box(214, 204, 562, 54, "wait at a barrier of the coordinator", "plain", dashed=True)
    draw.arrow((776, 100), (776, 202), dashed=True)
    draw.words(786, 155, "saved", quiet=True, anchor="start")
    return draw


def input_shards():
    """The two ways to divide an input between two workers."""
    draw = Canvas(860, 380, "How an input is divided between workers: by rows or by files")
    draw.words(215, 36, "by rows (kData)", bold=True)
    draw.words(215, 56, "a batch of 8 rows, from any source", quiet=True)
    for row in range(8):
        draw.box(43 + row * 44, 78, 38, 38, str(row), "chief" if row < 4 else "worker")
    draw.box(43, 190, 170, 74, "worker 0\nrows 0 to 3", "chief")
    draw.box(219, 190, 170, 74, "worker 1\nrows 4 to 7", "worker")
    draw.arrow((128, 120), (128, 188))
    draw.arrow((304, 120), (304, 188))
    draw.words(216, 300, "The workers together read one epoch.", quiet=True)
    draw.words(216, 320, "The order is the same for any", quiet=True)
    draw.words(216, 340, "number of workers.", quiet=True)
    draw.line((430, 28), (430, 352), dashed=True)
    draw.words(645, 36, "by files (kFile)", bold=True)
    draw.words(645, 56, "at least as many files as workers", quiet=True)
    for file in range(4):
        draw.box(473 + file * 88, 78, 80, 44, f"file {file}", "worker" if file % 2 else "chief")
    draw.box(473, 190, 170, 74, "worker 0\nfiles 0 and 2", "chief")
    draw.box(649, 190, 170, 74, "worker 1\nfiles 1 and 3", "worker")
    draw.arrow((513, 124), (540, 188))
    draw.arrow((689, 124), (580, 188))
    draw.arrow((601, 124), (710, 188))
    draw.arrow((777, 124), (752, 188))
    draw.words(646, 300, "A worker opens only its own files.", quiet=True)
    draw.words(646, 320, "A checkpoint holds a position for each", quiet=True)
    draw.words(646, 340, "worker: resume with as many workers.", quiet=True)
    return draw


def resume():
    """A run that is killed, and the same command again."""
    draw = Canvas(860, 330, "Resume: the same command continues from the newest checkpoint")
    place = lambda number: 130 + number * 2.2
    draw.words(24, 82, "first run", bold=True, anchor="start")
    draw.words(24, 242, "same command,", bold=True, anchor="start")
    draw.words(24, 260, "again", bold=True, anchor="start")
    draw.box(place(0), 56, place(250) - place(0), 42, "steps 1 to 250", "worker")
    draw.box(place(250) + 4, 56, 86, 42, "killed", "lost")
    for number in (0, 100, 200):
        draw.box(place(number) - 3, 128, 106, 44, f"checkpoint\n·step {number}", "store")
        draw.arrow((place(number) + 50, 100), (place(number) + 50, 126))
    draw.box(place(200), 226, place(250) - place(200), 48, "201 to 250", "plain", dashed=True)
    draw.box(place(250) + 4, 226, place(320) - place(250) - 4, 48, "251 to 300", "worker")
    draw.arrow((place(200) + 50, 174), (place(200) + 50, 224))
    draw.words(place(200) + 62, 196, "weights, optimizer, step,", quiet=True, anchor="start")
    draw.words(place(200) + 62, 214, "position in the data", quiet=True, anchor="start")
    draw.words(place(200) + 55, 300, "made again, with the same bits", quiet=True)
    return draw


def parameter_servers():
    """A worker's step on parameter servers."""
    draw = Canvas(860, 350, "A step on parameter servers: claim, read, push, commit")
    for i in range(2):
        y = 44 + i * 160
        draw.box(40, y, 190, 110, f"worker {i}\n·its own pace,\n·its own part of the data", "worker")
    draw.box(600, 44, 220, 110, "ps 0\nledger: counts the steps\nhalf of the weights\n·and of their slots", "server")
    draw.box(600, 204, 220, 110, "ps 1\nhalf of the weights\n·and of their slots", "server")
    for y, words, back in ((62, "1. claim a step", False), (88, "2. read the weights", True),
                           (114, "3. push the gradients", False), (140, "4. commit: the step counts", False)):
        draw.arrow(*(((598, y), (232, y)) if back else ((232, y), (598, y))))
        draw.words(415, y - 6, words)
    draw.arrow((598, 240), (232, 240), both=True)
    draw.words(415, 234, "the same four, at any time")
    draw.words(415, 268, "Each worker reads from and pushes to all servers.", quiet=True)
    draw.words(415, 287, "A step counts on all servers or on none.", quiet=True)
    return draw


def main():
    OUT.mkdir(exist_ok=True)
    for drawing in (cluster_roles, step, save, input_shards, resume, parameter_servers):
        drawing().write(OUT / f"{drawing.__name__}.svg")


if __name__ == "__main__":
    main()
