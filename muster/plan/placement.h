// Which parameter server holds which rows of which variable. Pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/plan/partitioner.h"

namespace muster::inline v0_1::plan {

// How variables, or their parts, are dealt to the servers. kRoundRobin: in the order in which they
// were created, each part taking a turn, as TensorFlow does. kByBytes: each to the server that has
// the fewest bytes so far.
enum class Placement { kRoundRobin, kByBytes };

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
