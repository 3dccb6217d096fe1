"""Draws rows of a variable as grey images: what examples/tour/prototypes.cc learned.

    python3 docs/drawings/weights.py CHECKPOINT.safetensors VARIABLE SIZE OUT.svg

The variable is float32, [n, SIZE * SIZE] or [n, SIZE, SIZE]; each row becomes an image of SIZE x SIZE pixels, from its
smallest value (dark) to its largest (light).
"""

import array
import base64
import json
import struct
import sys
import zlib

SCALE, GAP = 3, 6


def rows_of(path, name, size):
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        begin, end = head[name]["data_offsets"]
        file.seek(begin, 1)
        values = array.array("f", file.read(end - begin))
    pixels = size * size
    return [values[i:i + pixels] for i in range(0, len(values), pixels)]


def png_of(row, size):
    least, most = min(row), max(row)
    grey = bytes(round(255 * (value - least) / (most - least)) for value in row)
    lines = b"".join(b"\0" + grey[y * size:(y + 1) * size] for y in range(size))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))


def main():
    path, name, size, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    side = size * SCALE
    images = rows_of(path, name, size)
    width, height = len(images) * (side + GAP) + GAP, side + 2 * GAP
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
             f"<title>{name}</title>", f'<rect width="{width}" height="{height}" rx="6" fill="#161b22"/>']
    for i, row in enumerate(images):
        data = base64.b64encode(png_of(row, size)).decode()
        parts.append(f'<image x="{GAP + i * (side + GAP)}" y="{GAP}" width="{side}" height="{side}" '
                     f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>')
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(parts + ["</svg>", ""]))


if __name__ == "__main__":
    main()
