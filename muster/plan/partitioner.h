// Into how many parts a variable is cut that parameter servers share. Thread safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// Into how many parts along axis 0 a variable is cut, as TensorFlow's partitioners of these names.
class MUSTER_EXPORT Partitioner {
 public:
  // Variables stay whole.
  static Partitioner none();
  // `parts` of each variable, but not more than it has rows. Throws InvalidArgument unless 1 or
  // more.
  static Partitioner fixed(int64_t parts);
  // One for each `bytes` that a variable has or begins, at most `max_parts`; 0: one for each
  // server. So a part may have as little as half of `bytes`, as TensorFlow's may.
  static Partitioner min_size(int64_t bytes = 256 << 10, int64_t max_parts = 0);
  // As few as there can be of at most `bytes` each, at most `max_parts`; 0: no limit.
  static Partitioner max_size(int64_t bytes, int64_t max_parts = 0);

  // The number of parts of a variable with so many rows of so many bytes, on so many servers; 1 or
  // more.
  int64_t parts(int64_t rows, int64_t bytes_per_row, int servers) const;
  // "min_size(262144)": one line, equal for partitioners that cut alike.
  std::string describe() const;

 private:
  enum class Kind { kNone, kFixed, kMinSize, kMaxSize };
  Partitioner(Kind kind, int64_t size, int64_t max_parts)
      : kind_(kind), size_(size), max_parts_(max_parts) {}
  Kind kind_;
  int64_t size_;
  int64_t max_parts_;
};

}  // namespace muster::inline v0_1::plan
