// What is inside the files of a model_dir, as text for people or one JSON document for programs.
// Thread safety: pure functions of the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::app {

struct Inspection {
  std::string text;
  std::optional<Error> damage;  // what is wrong with the bytes; `text` holds what could be read
};

// `path`: a model_dir (its newest checkpoint), a prefix (model/model.ckpt-100), or a .safetensors
// file, also one that other programs wrote. Digests are checked. Throws NotFound, or Corrupt when
// nothing can be read.
Inspection inspect_checkpoint(FileSystem& files, const std::string& path, bool json);

// `path`: an event file, or a folder with event files in it or below. With a `tag` all its points,
// otherwise a line for each tag. Throws NotFound.
Inspection inspect_events(FileSystem& files, const std::string& path,
                          const std::optional<std::string>& tag, bool json);

// Which records inspect_records() shows whole.
struct RecordsOptions {
  int64_t skip = 0;   // the number of the first one
  int64_t limit = 3;  // how many of each file
};

// TFRecord files, compressed or not: how many records, of what size, and which features they have
// if they are tf.Examples or tf.SequenceExamples; then some of them. Throws NotFound when one of
// the files is not there.
Inspection inspect_records(FileSystem& files, const std::vector<std::string>& paths,
                           const RecordsOptions& options, bool json);

}  // namespace muster::app
