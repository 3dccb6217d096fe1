// How TensorFlow's optimizers call what Muster's keep, and the other way round.
// Thread safety: pure functions.
#pragma once

#include <map>
#include <set>
#include <string>

namespace muster::inline v0_1::tensorflow {

// Muster's names of the variables of a checkpoint, by TensorFlow's: those that are not an
// optimizer's keep their names, except for recurrent layers and embeddings of tf.estimator's RNN
// models. `names` are all that the checkpoint has. Of variables that Muster has no use for
// (hyperparameters of an optimizer, powers of Adam's betas) there is none. Where an Estimator has
// two optimizers of one kind, "training/Adam/..." are those of its network, "dnn_Adam", and
// "training/Adam_1/..." those of its linear part, "linear_Adam".
std::map<std::string, std::string> muster_names(const std::set<std::string>& names);

// Optimizers whose slots or learning rates are among `names`, TensorFlow's, and that have no count
// of steps of their own there: they have made as many as global_step says. By Muster's names:
// "Adam".
std::set<std::string> optimizers_without_count(const std::set<std::string>& names);

// TensorFlow's names, as its optimizers of version 1 have them ("dense/kernel/Adam_1"), of the
// variables of a checkpoint, by Muster's. Counts of steps have none.
std::map<std::string, std::string> tensorflow_names(const std::set<std::string>& names);

}  // namespace muster::inline v0_1::tensorflow
