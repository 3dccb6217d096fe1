// Which parameter server stores which rows of which variable. Pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/plan/partitioner.h"

namespace muster::inline v0_1::plan {

// How variables, or their parts, are assigned to servers. kRoundRobin: in the order of their
// creation, one part after another, as TensorFlow does. kByBytes: each to the server with the
// fewest bytes so far.
enum class Placement { kRoundRobin, kByBytes };

// A variable to place.
struct PlacedVariable {
  std::string name{};
  std::vector<int64_t> shape{};
  int64_t bytes = 0;   // of the whole variable
  bool whole = false;  // must not be divided
};

// Rows [begin, end) of a variable, and the server that stores them. A scalar has one row.
struct Shard {
  int variable = 0;  // index
  int part = 0;
  int parts = 1;
  int64_t begin = 0;
  int64_t end = 1;
  int server = 0;
  bool operator==(const Shard&) const = default;
};

// Places the variables on servers 0 to `servers` - 1. The shards of a variable follow each other in
// the order of its rows. If rows do not divide evenly, the first parts have one more ("div").
MUSTER_EXPORT std::vector<Shard> place(const std::vector<PlacedVariable>& variables, int servers,
                                       Placement placement, const Partitioner& partitioner);

// "dense/kernel" for a whole variable, "dense/kernel/part_2" for a part.
MUSTER_EXPORT std::string shard_name(const std::string& variable, const Shard& shard);

}  // namespace muster::inline v0_1::plan
