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
