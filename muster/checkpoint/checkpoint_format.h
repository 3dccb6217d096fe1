// Formats of checkpoints in addition to Muster's own: a part of Muster that reads one registers it,
// and code that opens a checkpoint finds it then. Thread safety: all calls from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/checkpoint/checkpoint_reader.h"

namespace muster::inline v0_1 {

struct CheckpointFormat {
  // "<prefix><suffix>" exists if there is a checkpoint of this format.
  std::string suffix{};
  // The checkpoint is one file: its own name, which ends with `suffix`, is the prefix.
  bool is_file = false;
  // Opens the checkpoint at a prefix. Throws the errors of open_checkpoint().
  std::function<std::unique_ptr<CheckpointReader>(FileSystem& fs, const std::string& prefix)> open =
      {};
};

// A note of a checkpoint's header. Its layers have no names: "dense" and "dense_1" are the first
// and the second of their class in the model.
inline constexpr const char* kLayersByClass = "layers_by_class";

// Registers a format, in place of one with the same suffix.
MUSTER_PART_EXPORT void register_checkpoint_format(CheckpointFormat format);

// Whether a checkpoint is at `prefix`, of Muster's own format or of a registered one.
bool is_checkpoint(FileSystem& fs, const std::string& prefix);

// The format of the checkpoint at `prefix`; nothing if there is none of a registered format.
MUSTER_PART_EXPORT std::optional<CheckpointFormat> find_checkpoint_format(
    FileSystem& fs, const std::string& prefix);

}  // namespace muster::inline v0_1
