// How many parts a variable on parameter servers is divided into. Thread safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// The number of parts along axis 0, as TensorFlow's partitioners of the same names choose it.
class MUSTER_EXPORT Partitioner {
 public:
  // Variables are not divided.
  static Partitioner none();
  // `parts` of each variable, but at most one per row. Throws InvalidArgument unless 1 or more.
  static Partitioner fixed(int64_t parts);
  // One part for each started `bytes` of a variable, at most `max_parts`; 0: one for each server. A
  // part may have as little as half of `bytes`, as in TensorFlow.
  static Partitioner min_size(int64_t bytes = 256 << 10, int64_t max_parts = 0);
  // The fewest parts of at most `bytes` each, at most `max_parts`; 0: no limit.
  static Partitioner max_size(int64_t bytes, int64_t max_parts = 0);

  // Returns the number of parts of a variable with this many rows of this many bytes, on this many
  // servers; 1 or more.
  int64_t parts(int64_t rows, int64_t bytes_per_row, int servers) const;
  // "min_size(262144)": one line, equal for partitioners that divide in the same way.
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
