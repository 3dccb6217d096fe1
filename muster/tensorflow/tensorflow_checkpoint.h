// Checkpoints of TensorFlow as Muster's own readers show them: a program that links
// muster::tensorflow warm-starts from them, continues the model_dir of a tf.estimator, and looks
// into them, wherever it names a checkpoint. Thread safety: a reader may be shared.
//
// Variables keep their names. Those of optimizers get the names that Muster's have, where it has
// the rule: "dense/kernel/Adam_1" of TensorFlow 1 and "training/Adam/dense/kernel/v" of Keras's
// optimizers are "Adam/v/dense/kernel", and "Adam/iterations" is the count of steps. In a
// checkpoint that was saved by tf.train.Checkpoint, a variable has the name that the object graph
// knows it by ("dense/kernel"), where that is the name of one variable alone, and else the path of
// objects to it ("model/layer_with_weights-0/kernel").
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1::tensorflow {

// Opens the checkpoint at a prefix ("model_dir/model.ckpt-500"). Texts in it, and numbers that
// LibTorch has no dtype for, are not among its tensors: uint16 is read as int32, uint32 as int64,
// and uint64 as int64 where the numbers fit. Throws NotFound, Corrupt naming the file and the
// tensor, and InvalidArgument for a checkpoint of version 1, which has no ".index".
MUSTER_EXPORT std::unique_ptr<CheckpointReader> open_tensorflow_checkpoint(
    FileSystem& fs, const std::string& prefix);

}  // namespace muster::inline v0_1::tensorflow
