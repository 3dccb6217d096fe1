// The immutable description a Dataset shares: a chain of nodes, from the last transformation back
// to the source. Thread safety: never changes after make_node().
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "muster/base/random.h"
#include "muster/data/internal/stream.h"
#include "muster/data/source.h"

namespace muster::inline v0_1::data::internal {

struct FromSource {
  std::shared_ptr<const Source> source;
};
struct Take {
  int64_t count;
};
struct Skip {
  int64_t count;
};
struct Shard {
  int64_t num_shards, index;
};
struct Shuffle {
  int64_t buffer;
  std::optional<uint64_t> seed;
  bool reshuffle;
};
struct Repeat {
  int64_t count;
};
struct Batch {
  int64_t size;
  bool global;
  bool drop_remainder;
};
struct Map {
  std::function<Element(const Element&, RandomKey)> fn;
  bool keyed;
  std::string name;
};
struct Prefetch {
  int64_t count;
};

using Spec = std::variant<FromSource, Take, Skip, Shard, Shuffle, Repeat, Batch, Map, Prefetch>;

struct Node {
  Spec spec;
  std::shared_ptr<const Node> input;  // null for a source

  int64_t cardinality = 0;
  int64_t ordinal = 0;      // how many nodes of this kind come before
  bool addressable = true;  // no batch up to here: elements can be named by a Ref
  bool hand_sharded = false;
  std::string description;  // "slices(10) > shuffle(4)"
};

std::shared_ptr<const Node> make_node(Spec spec, std::shared_ptr<const Node> input);

// Streams that run the chain ending in `node`; `run` must outlive them.
std::unique_ptr<Stream<Ref>> open_refs(const Node& node, const Run& run);  // REQUIRES: addressable

}  // namespace muster::inline v0_1::data::internal
