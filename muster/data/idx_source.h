// Reads data sets from IDX files, the format of MNIST and Fashion-MNIST, gzip or not. Thread
// safety: pure functions; the files are read whole when they are called.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// Makes tuples of an image and its label: (uint8[height, width, 1], int64 scalar). Throws NotFound
// for a missing file; Corrupt for a damaged file or unequal numbers of images and labels;
// InvalidArgument if the images are not uint8[n, height, width], if the labels are not integers
// [n], or if n is 0.
MUSTER_EXPORT Dataset from_idx(const std::string& images_path, const std::string& labels_path);

// Reads the files of MNIST in `data_dir` as from_idx() does: train-images-idx3-ubyte and
// train-labels-idx1-ubyte for the split "train", t10k-… for "test", each with or without ".gz".
// Names may have dots and underscores instead of dashes, "test" instead of "t10k", and a prefix
// ("emnist-letters-train-images-idx3-ubyte"). If several files have the same name apart from this,
// such as a file and its ".gz", the uncompressed one is read and a log line says so; they must hold
// the same. Throws NotFound, which lists the missing files and some that exist; InvalidArgument for
// another split, for two files of one name that differ, and for several data sets all of which have
// a prefix.
MUSTER_EXPORT Dataset mnist(const std::string& data_dir, const std::string& split);

}  // namespace muster::inline v0_1::data
