// Which parameter server holds which rows of which variable. Pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::plan {

// How variables, or their parts, are dealt to the servers. kRoundRobin: in the order in which they
// were created, each part taking a turn, as TensorFlow does. kByBytes: each to the server that has
// the fewest bytes so far.
enum class Placement { kRoundRobin, kByBytes };

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

// A variable that is to be placed.
struct PlacedVariable {
  std::string name{};
  std::vector<int64_t> shape{};
  int64_t bytes = 0;   // of all of it
  bool whole = false;  // it may not be cut
};

// Rows [begin, end) of a variable, and the server that holds them. A scalar has one row.
struct Shard {
  int variable = 0;  // index
  int part = 0;
  int parts = 1;
  int64_t begin = 0;
  int64_t end = 1;
  int server = 0;
  bool operator==(const Shard&) const = default;
};

// Places the variables on servers 0 to `servers` - 1; the shards of a variable follow each other,
// in the order of its rows. Where rows do not divide evenly, the first parts have one more ("div").
MUSTER_EXPORT std::vector<Shard> place(const std::vector<PlacedVariable>& variables, int servers,
                                       Placement placement, const Partitioner& partitioner);

// "dense/kernel" of a whole variable, "dense/kernel/part_2" of a part.
MUSTER_EXPORT std::string shard_name(const std::string& variable, const Shard& shard);

}  // namespace muster::inline v0_1::plan
