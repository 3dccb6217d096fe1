"""Files of MNIST's format as arrays of numpy."""
import gzip
import os
import struct

import numpy as np


def read_idx(path):
    opener, path = (gzip.open, path + ".gz") if os.path.exists(path + ".gz") else (open, path)
    with opener(path, "rb") as file:
        data = file.read()
    dims = struct.unpack(">%dI" % data[3], data[4:4 + 4 * data[3]])
    return np.frombuffer(bytearray(data), np.uint8, offset=4 + 4 * data[3]).reshape(dims)


def read_digits(data_dir, part):
    """Images [n, 28, 28] and labels [n] of "train" or "t10k", as bytes."""
    return tuple(read_idx(os.path.join(data_dir, f"{part}-{what}-ubyte")) for what in ("images-idx3", "labels-idx1"))
