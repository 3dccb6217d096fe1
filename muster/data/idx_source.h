// Reads data sets from IDX files, the format of MNIST and Fashion-MNIST, gzip or not. Thread
// safety: pure functions; the files are read whole when they are called.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// Makes tuples of an image and its label: (uint8[height, width, 1], int64 scalar). Throws NotFound
// for a missing file, Corrupt for a broken one and when the numbers of images and labels differ,
// InvalidArgument when the images are not uint8[n, height, width] or the labels no integers [n],
// and when n is 0.
MUSTER_EXPORT Dataset from_idx(const std::string& images_path, const std::string& labels_path);

// Reads the files of MNIST in `data_dir` as from_idx() does: train-images-idx3-ubyte and
// train-labels-idx1-ubyte for the split "train", t10k-… for "test", each with or without ".gz".
// Dots and underscores may stand for the dashes, "test" for "t10k", and a name in front of all
// ("emnist-letters-train-images-idx3-ubyte"). Of several files of one name, also one beside its
// ".gz", the one that is not packed is read, and a line of the log says so; they must hold the
// same. Throws NotFound, which lists the files that are missing and some that are there;
// InvalidArgument for another split, for two files of one name that differ, and for several data
// sets of which none is without a name in front.
MUSTER_EXPORT Dataset mnist(const std::string& data_dir, const std::string& split);

}  // namespace muster::inline v0_1::data
