// Reads data sets from IDX files, the format of MNIST and Fashion-MNIST, gzip or not. Thread
// safety: pure functions; the files are read whole when they are called.
#pragma once

#include <string>

#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// Makes tuples of an image and its label: (uint8[height, width, 1], int64 scalar). Throws NotFound
// for a missing file, Corrupt for a broken one and when the numbers of images and labels differ,
// InvalidArgument when the images are not uint8[n, height, width] or the labels no integers [n],
// and when n is 0.
Dataset from_idx(const std::string& images_path, const std::string& labels_path);

// Calls from_idx() with MNIST's own file names in `data_dir`: train-images-idx3-ubyte and
// train-labels-idx1-ubyte for the split "train", t10k-… for "test", each with or without ".gz".
// Throws NotFound, which lists the files that are missing, and InvalidArgument for another split
// and for a file that is there both with and without ".gz".
Dataset mnist(const std::string& data_dir, const std::string& split);

}  // namespace muster::inline v0_1::data
