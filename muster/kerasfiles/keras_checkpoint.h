// Files of Keras as Muster's own readers show checkpoints: a program that links muster::kerasfiles
// takes weights out of .h5, .weights.h5 and .keras wherever it names a checkpoint. Thread safety: a
// reader may be shared.
//
// Weights are called as in Muster: "dense/kernel" of the layer "dense". What the file does not say
// is in muster/hdf/keras_names.h. Where a file knows layers by their class alone, the header has
// the note kLayersByClass (muster/checkpoint/checkpoint_format.h), and Model::load_weights() gives
// the weights to the model's layers of this class in turn, as Keras does.
#pragma once

#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1::kerasfiles {

// Opens such a file. Texts in it and what the optimizer keeps are not among its tensors, with a
// line in the log: begin a run with its weights, not in the middle of Keras's. uint16 is read as
// int32, uint32 as int64, and uint64 as int64 where the numbers fit. libhdf5 reads what the file
// lists in a process that can do nothing else, since damaged files make it crash. Throws NotFound;
// Corrupt naming the file and the array; InvalidArgument for links, filters, chunks and layouts
// that Keras does not write (muster/hdf/hdf_file.h), and where the system cannot confine a process.
MUSTER_EXPORT std::unique_ptr<CheckpointReader> open_keras_checkpoint(FileSystem& fs,
                                                                      const std::string& path);

}  // namespace muster::inline v0_1::kerasfiles
