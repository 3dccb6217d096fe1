// The names of the variables of a checkpoint. A checkpoint that tf.train.Saver or an Estimator
// saved has their names as keys; one that tf.train.Checkpoint or a Keras model saved has paths of
// objects, and an object graph that contains the names. Source of the format:
// tensorflow/core/protobuf/trackable_object_graph.proto. Thread safety: pure functions.
#pragma once

#include <map>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/bundles/tensor_bundle.h"

namespace muster::inline v0_1::tensorflow {

// The names that variables were made with ("dense/kernel"), by their keys in the checkpoint.
// Variables without a name are left out, and variables whose name another variable has too. Throws
// Corrupt for bytes that are not an object graph.
std::map<std::string, std::string> names_in_object_graph(Bytes graph);

// The keys of all tensors of a checkpoint but the object graph, by name: the name that a variable
// was made with, if the object graph knows it, else the path of objects to it
// ("model/layer_with_weights-0/kernel"); else the key. Throws Corrupt if the graph is damaged.
MUSTER_PART_EXPORT std::map<std::string, std::string> keys_by_name(const BundleReader& bundle);

}  // namespace muster::inline v0_1::tensorflow
