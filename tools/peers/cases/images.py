"""tf.io.decode_image and its likes, and tf.image: pixels, or that it is refused."""

import numpy as np
import tensorflow as tf


def pixels(program):
    draw = np.random.RandomState(program["seed"])
    shape = (program["height"], program["width"], program["channels"])
    if program.get("smooth"):
        height, width = np.mgrid[0:shape[0], 0:shape[1]]
        plane = [(height * (7 + c) + width * (11 - c) + 20 * c) % 256 for c in range(shape[2])]
        return np.stack(plane, -1).astype(np.uint8)
    if program.get("bits") == 16:
        return draw.randint(0, 65536, shape).astype(np.uint16)
    return draw.randint(0, 256, shape).astype(np.uint8)


def encoded(program):
    image = pixels(program)
    kind = program["format"]
    if kind == "png":
        data = tf.io.encode_png(image, program.get("compression", -1)).numpy()
    elif kind == "jpeg":
        data = tf.io.encode_jpeg(image, quality=program["quality"], progressive=program.get("progressive", False),
                                 chroma_downsampling=program.get("chroma", True)).numpy()
    else:
        data = bitmap(image)
    hurt = program.get("damage")
    if hurt:
        at = hurt["at"] * len(data) // 100
        if hurt["how"] == "cut":
            data = data[:at]
        elif at < len(data):
            data = data[:at] + bytes([data[at] ^ hurt["bits"]]) + data[at + 1:]
    return data


def bitmap(image):
    """A BMP of 8, 24 or 32 bits a pixel, from its last row on: TensorFlow 2.15 crashes where the first one is first."""
    height, width, channels = image.shape
    row = width * channels
    padding = -row % 4
    body = b"".join((line[:, [2, 1, 0, 3][:channels]] if channels > 1 else line).tobytes() + bytes(padding)
                    for line in image[::-1])
    palette = b"".join(bytes([i, i, i, 0]) for i in range(256)) if channels == 1 else b""
    start = 54 + len(palette)
    number = lambda n, size=4: int(n).to_bytes(size, "little", signed=n < 0)
    return (b"BM" + number(start + len(body)) + number(0) + number(start) + number(40) + number(width)
            + number(height) + number(1, 2) + number(8 * channels, 2) + number(0)
            + number(len(body)) + number(2835) + number(2835) + number(len(palette) // 4) + number(0) + palette + body)


def run(program):
    what = program["what"]
    if what == "decode":
        data = encoded(program)
        dtype = {"uint8": tf.uint8, "int32": tf.uint16, "float32": tf.float32}[program["dtype"]]
        options = {"channels": program["as"]}
        if program["format"] == "jpeg":
            # The exact transformation; TensorFlow takes a quicker one unless it is told otherwise.
            image = tf.io.decode_jpeg(data, try_recover_truncated=program.get("recover", False),
                                      dct_method="INTEGER_ACCURATE", **options)
            image = tf.image.convert_image_dtype(image, dtype)
        else:
            image = tf.io.decode_image(data, dtype=dtype, expand_animations=False, **options)
        image = image.numpy()
        return ({"file": np.array([data.hex()], object)},
                {"image": image.astype(np.int32) if program["dtype"] == "int32" else image})
    images = pixels(program)
    if program.get("batch"):
        images = np.stack([images, images[::-1, ::-1], images // 2][:program["batch"]])
    if program["dtype"] == "float32":
        images = images.astype(np.float32) / 255
    height, width = program["to"]
    if what == "resize":
        image = tf.image.resize(images, (height, width), program["method"], antialias=program["antialias"]).numpy()
        if program["dtype"] == "uint8" and program["method"] == "bilinear":
            image = np.floor(image + 0.5) / 255
    elif what == "crop":
        if height > images.shape[-3] or width > images.shape[-2]:
            raise ValueError("resize_with_crop_or_pad would pad")
        image = tf.image.resize_with_crop_or_pad(images, height, width).numpy()
    elif what == "flip":
        image = tf.image.flip_left_right(images).numpy()
    else:
        image = tf.image.convert_image_dtype(images, tf.float32).numpy()
    return {"images": images}, {"image": image}


def generate(random):
    what = random.choice(["decode", "decode", "decode", "resize", "resize", "resize", "crop", "flip", "float"])
    sizes = [1, 2, 3, 5, 8, 11, 17]
    program = {"what": what, "seed": random.randrange(1000), "height": random.choice(sizes),
               "width": random.choice(sizes), "channels": random.choice([1, 3])}
    if random.random() < 0.3:
        program["smooth"] = True
    if what == "decode":
        program["format"] = random.choice(["png", "png", "jpeg", "jpeg", "bmp"])
        program["as"] = random.choice([1, 3])
        program["dtype"] = random.choice(["uint8", "uint8", "float32"])
        if program["format"] == "png":
            program["channels"] = random.choice([1, 2, 3, 4])
            if "smooth" not in program and random.random() < 0.4:
                program["bits"] = 16
                # TensorFlow cuts the lower 8 bits off for uint8, where Muster rounds.
                program["dtype"] = random.choice(["int32", "int32", "float32"])
            if program["as"] == 1 and program["channels"] > 2:
                # libpng cuts off what Muster rounds: a level of 255.
                program["dtype"] = "float32"
                program["tolerance"] = {"image": 1.01 / 255}
        elif program["format"] == "jpeg":
            program["quality"] = random.choice([30, 75, 95, 100])
            program["progressive"] = random.random() < 0.3
            program["chroma"] = random.random() < 0.6
            program["height"] = random.choice([8, 16, 19])
            if random.random() < 0.1:
                program["recover"] = True
                program["dtype"] = "uint8"
        else:
            program["channels"] = random.choice([1, 3, 4])
            program["as"] = 1 if program["channels"] == 1 else 3
        if random.random() < 0.3:
            program["damage"] = {"how": random.choice(["cut", "cut", "flip"]),
                                 "at": random.choice([0, 10, 30, 50, 70, 90, 99]), "bits": 1 << random.randrange(8)}
            if program["format"] == "bmp":  # TensorFlow reads past what a header says of other packings.
                program["damage"]["how"] = "cut"
        return program
    program["dtype"] = "uint8" if what == "float" else random.choice(["uint8", "float32"])
    program["batch"] = random.choice([0, 0, 1, 2, 3])
    program["to"] = [random.choice([1, 2, 3, 5, 7, 12, 20]), random.choice([1, 2, 3, 5, 7, 12, 20])]
    if what == "crop":
        program["to"] = [random.randint(1, program["height"] + (random.random() < 0.1)),
                         random.randint(1, program["width"])]
    if what == "resize":
        program["method"] = random.choice(["bilinear", "bilinear", "nearest"])
        program["antialias"] = random.random() < 0.5
        if program["dtype"] == "uint8" and program["method"] == "bilinear":
            # One level of 255: a mean that lies half way between two levels goes up or down by its last bit.
            program["tolerance"] = {"image": 1.01 / 255}
    return program
