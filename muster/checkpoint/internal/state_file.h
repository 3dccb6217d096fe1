// The text file `checkpoint` of a model directory: which checkpoints there are, in TensorFlow's
// text form. Thread safety: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::inline v0_1::internal {

struct CheckpointState {
  struct Entry {
    std::string
        name{};  // relative to the directory ("model.ckpt-120"), so that a directory may be moved
    double timestamp = 0;  // seconds since 1970; 0 when unknown
    bool operator==(const Entry&) const = default;
  };
  std::string latest{};       // the one to restore; empty when there is none
  std::vector<Entry> all{};   // in the order they were saved
  double last_preserved = 0;  // time stamp of the last one kept for good; 0 when unknown
  // No longer in use, files perhaps still there. Kept in comment lines, which other readers of the
  // file skip.
  std::vector<std::string> retired{};
  bool operator==(const CheckpointState&) const = default;

  std::string to_text() const;
  // Corrupt, naming the line, when the text is not of this form. Fields it does not know are
  // skipped.
  static Result<CheckpointState> parse(std::string_view text);
};

}  // namespace muster::inline v0_1::internal
