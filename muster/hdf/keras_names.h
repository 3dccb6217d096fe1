// What the weights in a file of Keras are called. Files say it in three ways: a legacy .h5 lists
// layers with the names of their weights; a .weights.h5 has a group for each layer, which knows the
// layer's name since Keras 3.15 and its class before, and numbers its weights; a .keras has such
// a file with the model's configuration, which knows the names. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "muster/hdf/hdf_file.h"

namespace muster::inline v0_1::hdf {

struct KerasNames {
  // The place in HdfListing::arrays of each weight, by its name: "dense/kernel", of a layer in
  // another "encoder/dense/kernel". A weight of a layer whose class is unknown has its number
  // ("mine/0"); in a file that is none of Keras's, an array has its path.
  std::map<std::string, size_t> places{};
  size_t of_optimizer = 0;  // arrays of the optimizer, which have no name
  size_t of_others = 0;     // of metrics, and seeds of random numbers
  // Layers are called by their class and number ("dense_1"), since the file knows no names.
  bool by_class = false;
  std::string format{};  // "Keras, format 3", "Keras, legacy", "HDF5"
};

// `config` is the text of config.json of a .keras, or "". Throws Corrupt naming `file` where the
// file names a weight that it does not hold, or the configuration is not JSON.
KerasNames name_weights(const HdfListing& listing, const std::string& config,
                        const std::string& file);

}  // namespace muster::inline v0_1::hdf
