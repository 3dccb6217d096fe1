// Shows the contents of the files of a model_dir, as text for people or one JSON document for
// programs. Thread safety: pure functions of the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::app {

struct Inspection {
  std::string text{};
  std::optional<Error> damage{};  // the damage of the bytes; `text` holds the readable part
};

// Returns the files of the checkpoint that `path` means: the newest one of a model_dir, a prefix,
// or a file. Throws NotFound if there is none; Corrupt if shards of it, or the one that the file
// `checkpoint` names, are missing; InvalidArgument for a checkpoint of TensorFlow.
std::vector<std::string> checkpoint_files(FileSystem& files, const std::string& path);

// Returns the names of the checkpoints in a model_dir, "model.ckpt-100", the oldest first. Throws
// NotFound if there is no such folder.
std::vector<std::string> checkpoint_prefixes(FileSystem& files, const std::string& folder);

// Shows a checkpoint and checks its digests. `path` is a model_dir (its newest checkpoint is
// shown), a prefix (model/model.ckpt-100), or a .safetensors file, even one that another program
// wrote; or one of TensorFlow, by its prefix, a file of it, or its model_dir; or a file of Keras,
// which ends with .h5 or .keras. Throws NotFound, or Corrupt if nothing can be read.
Inspection inspect_checkpoint(FileSystem& files, const std::string& path, bool json);

// Shows an exported model, its signatures and its files, and checks their digests. `path` is the
// folder of a version, or one of versions (its newest is shown). Throws NotFound, and Corrupt when
// the description of the model is damaged.
Inspection inspect_export(FileSystem& files, const std::string& path, bool json);

// Shows events. `path` is an event file, or a folder with event files in it or below. With a `tag`
// all its points are shown, otherwise a line for each tag. Throws NotFound when there is nothing,
// or no such tag.
Inspection inspect_events(FileSystem& files, const std::string& path,
                          const std::optional<std::string>& tag, bool json);

// The records that inspect_records() shows whole.
struct RecordsOptions {
  int64_t skip = 0;   // the number of the first one
  int64_t limit = 3;  // how many of each file
};

// Shows TFRecord files, compressed or not: how many records there are, of what size, which features
// they have if they are tf.Examples or tf.SequenceExamples, and then some of them. Throws NotFound
// if one of the files does not exist.
Inspection inspect_records(FileSystem& files, const std::vector<std::string>& paths,
                           const RecordsOptions& options, bool json);

// Shows the reports that the tasks of a run left in model_dir when it failed: their errors, and
// which collective each of them was in. Throws NotFound if there is none, and Corrupt.
Inspection inspect_failures(FileSystem& files, const std::string& model_dir, bool json);

}  // namespace muster::app
