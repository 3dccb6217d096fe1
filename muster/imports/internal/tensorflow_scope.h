// The nodes of a TensorFlow graph, or of one of its functions, while they are read: what their
// names mean, and in which order they come. For sources alone. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"
#include "muster/bundles/saved_model_file.h"

namespace muster::inline v0_1::imports {

using Slots = std::vector<size_t>;

// More results than any node has.
inline constexpr size_t kMostOutputs = 10'000;

// A result of a node.
struct Reference {
  std::string_view node{};
  size_t output = 0;
  auto operator<=>(const Reference&) const = default;
};

// Corrupt: what is wrong with the file `path`.
Error broken_saved_model(const std::string& path, const std::string& what);

// "dense/MatMul" (MatMul)
std::string label_of(const tensorflow::SavedNode& node);

struct Scope {
  // `path` is for errors.
  Scope(const std::vector<tensorflow::SavedNode>& all, const std::string& path, bool is_function);

  const std::vector<tensorflow::SavedNode>& nodes;
  const std::string path;
  const bool is_function;
  std::map<std::string_view, size_t> by_name{};
  std::map<Reference, size_t> given{};  // inputs of the signature, arguments of the function
  std::map<size_t, size_t> results{};   // how many results of a node are used
  std::map<size_t, Slots> values{};     // of nodes that were read

  // What a name of a result means: "node", "node:1"; in functions "node:output:0", "argument".
  // Throws Corrupt.
  Reference reference(std::string_view tensor) const;
  // What a node takes, without the nodes that only run before it.
  std::vector<Reference> inputs_of(const tensorflow::SavedNode& node) const;
  // The nodes that results need, each after those that it takes. Counts the results that are used.
  // Throws Corrupt for a cycle and for nodes that are not there, and InvalidArgument for control
  // flow of version 1.
  std::vector<size_t> order_of(const std::vector<Reference>& wanted);
  // The place of a value of a node that was read. Throws Corrupt if there is none.
  size_t slot_of(const Reference& value) const;

 private:
  Error broken(const std::string& what) const { return broken_saved_model(path, what); }
};

}  // namespace muster::inline v0_1::imports
