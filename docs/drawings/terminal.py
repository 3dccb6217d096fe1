"""Runs a command in a terminal and writes the screen as an SVG file.

    python3 docs/drawings/terminal.py [--columns=N] OUT.svg -- COMMAND...

The picture shows the command and the screen when the command has ended. Nothing is edited: pyte, a terminal emulator,
says which character is where, and in which colour.
"""

import argparse
import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from xml.sax.saxutils import escape

import pyte

WIDTH, HEIGHT, SIZE = 8.0, 19, 13.2  # of a character's cell, and of the font, in pixels
MARGIN, BAR = 16, 34
BACKGROUND, FOREGROUND, EDGE = "#161b22", "#dce3ea", "#3d4652"
COLOURS = {"default": FOREGROUND, "cyan": "#56d4dd", "brown": "#e3b341", "green": "#56d364", "red": "#ff7b72",
           "magenta": "#d2a8ff", "blue": "#79c0ff", "white": "#ffffff", "black": "#8b949e"}
ROWS = 40


def screen_after(command, columns):
    """The screen at the end. Raises CalledProcessError if the command fails."""
    screen = pyte.Screen(columns, ROWS)
    stream = pyte.ByteStream(screen)
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, close_fds=True,
                               start_new_session=True, env={**os.environ, "TERM": "xterm-256color"})
    os.close(follower)
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the command has closed the terminal
            piece = b""
        if not piece:
            break
        stream.feed(piece)
    os.close(leader)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)
    return screen


def lines_of(screen):
    """The screen's lines as lists of (text, colour, column), without empty lines at the end."""
    lines = []
    for y in range(screen.lines):
        runs = []
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            colour = COLOURS.get(cell.fg, FOREGROUND)
            if runs and runs[-1][1] == colour:
                runs[-1][0] += cell.data
            else:
                runs.append([cell.data, colour, x])
        last = runs[-1]
        last[0] = last[0].rstrip()
        lines.append([tuple(run) for run in runs if run[0].strip()])
    while lines and not lines[-1]:
        lines.pop()
    return lines


def text_at(run, y):
    text, colour, column = run
    shift = len(text) - len(text.lstrip())
    text = text.strip()
    return (f'<text x="{MARGIN + (column + shift) * WIDTH:g}" y="{y:g}" fill="{colour}" xml:space="preserve" '
            f'textLength="{len(text) * WIDTH:g}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')


def picture_of(lines, columns, title):
    width, height = 2 * MARGIN + columns * WIDTH, BAR + 2 * MARGIN + len(lines) * HEIGHT - 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
           f'height="{height:g}" role="img" font-size="{SIZE}" '
           'font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace">',
           f'<title>{escape(title)}</title>',
           f'<rect x="0.5" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="9" fill="{BACKGROUND}" '
           f'stroke="{EDGE}"/>']
    out += [f'<circle cx="{MARGIN + 4 + 18 * i}" cy="19" r="5.5" fill="{EDGE}"/>' for i in range(3)]
    for i, line in enumerate(lines):
        out += [text_at(run, BAR + MARGIN + i * HEIGHT + 6) for run in line]
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--columns", type=int, default=118)
    parser.add_argument("out")
    words = sys.argv[1:]
    if "--" not in words[:-1]:
        parser.error("no command: OUT.svg -- COMMAND...")
    options, command = parser.parse_args(words[:words.index("--")]), words[words.index("--") + 1:]
    lines = lines_of(screen_after(command, options.columns))
    if len(lines) == ROWS:
        sys.exit(f"error: the output is longer than the screen of {ROWS} lines")
    shown = shlex.join(command)
    prompt = [("$", COLOURS["green"], 0), (shown, COLOURS["white"], 2)]
    with open(options.out, "w", encoding="utf-8") as file:
        file.write(picture_of([prompt] + lines, options.columns, shown))


if __name__ == "__main__":
    main()
