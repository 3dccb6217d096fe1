// Reads checkpoints of TensorFlow like Muster's own. A program that links muster::tensorflow can
// warm-start from them, continue the model_dir of a tf.estimator, and inspect them, wherever it
// names a checkpoint. Thread safety: a reader may be shared.
//
// Variables keep their names. Variables of optimizers get Muster's names, if Muster has the
// optimizer: "dense/kernel/Adam_1" of TensorFlow 1 and "training/Adam/dense/kernel/v" of Keras's
// optimizers are "Adam/v/dense/kernel", and "Adam/iterations" is the number of steps. In a
// checkpoint of tf.train.Checkpoint, a variable has its name in the object graph ("dense/kernel"),
// if that name is unique, and else the path of objects to it ("model/layer_with_weights-0/kernel").
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1::tensorflow {

// Opens the checkpoint at a prefix ("model_dir/model.ckpt-500"). Texts, and numbers without a
// LibTorch dtype, are not among its tensors: uint16 is read as int32, uint32 as int64, and uint64
// as int64 if the numbers fit. Throws NotFound, Corrupt with the file and the tensor, and
// InvalidArgument for a checkpoint of version 1, which has no ".index".
MUSTER_EXPORT std::unique_ptr<CheckpointReader> open_tensorflow_checkpoint(
    FileSystem& fs, const std::string& prefix);

}  // namespace muster::inline v0_1::tensorflow
