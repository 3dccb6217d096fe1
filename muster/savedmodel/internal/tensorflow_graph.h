// Collects the nodes and functions of a TensorFlow graph. A value is named as TensorFlow does:
// "dense/MatMul" is the first output of a node, "Split:1" the second. Source of the format:
// tensorflow/core/framework/graph.proto, function.proto. For sources alone. Thread safety: one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/savedmodel/internal/attributes.h"

namespace muster::inline v0_1::saved_model::internal {

class TensorflowGraph {
 public:
  TensorflowGraph() : scopes_(1) {}

  // Adds a node with one output and returns the name of the output. "^name" among the inputs
  // makes the node wait for another. A node is in the function that is open, if there is one, and
  // may use values of what is around it: the function takes these as arguments.
  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const Attributes& attributes, BundleDtype dtype);
  // The same for any number of outputs.
  std::vector<std::string> add_with_outputs(const std::string& operation,
                                            const std::vector<std::string>& inputs,
                                            const Attributes& attributes,
                                            const std::vector<BundleDtype>& dtypes);
  // Adds a node of this very name to the graph, whatever function is open, and returns the name,
  // with a number if it is taken. Others that no node needs are left out of the result; these stay.
  std::string add_outside(const std::string& name, const std::string& operation,
                          const std::vector<std::string>& inputs, const Attributes& attributes,
                          const std::vector<BundleDtype>& dtypes);
  BundleDtype dtype(const std::string& value) const { return dtypes_.at(value); }

  // Constants. The same one in the same function is added once, if it has a few numbers.
  std::string constant(BundleDtype dtype, const std::vector<int64_t>& shape,
                       std::string_view bytes);
  std::string texts(const std::vector<int64_t>& shape, const std::vector<std::string>& texts);
  // [n], and a scalar. Throws InvalidArgument for a number that an int32 cannot hold.
  std::string int32s(const std::vector<int64_t>& numbers);
  std::string int32(int64_t number);
  std::string int64s(const std::vector<int64_t>& numbers);
  std::string scalar(double number, BundleDtype dtype);

  // The names that follow begin with it: "net/dense/MatMul".
  void set_label(const std::string& label);

  // Nodes go to a function from here on; returns the names of its arguments.
  std::vector<std::string> begin_function(const std::vector<BundleDtype>& arguments);
  struct Function {
    std::string name{};
    // The values from outside that it takes after its arguments.
    std::vector<std::string> captures{};
  };
  // Ends the function. It returns `results`, and after them what it captured.
  Function end_function(const std::string& name, const std::vector<std::string>& results);
  // Adds a function that compares its first argument, an int64, with its second; the others, in all
  // of these dtypes, do not matter.
  std::string add_less_than(const std::vector<BundleDtype>& arguments);

  // The bytes of the message GraphDef.
  std::string encode() const;

 private:
  struct Node {
    std::string name{}, operation{};
    std::vector<std::string> inputs{};
    Attributes attributes{};
  };
  // The graph, or a function of it.
  struct Scope {
    std::vector<Node> nodes{};
    std::map<std::string, std::string> operations{};  // of its nodes, by name
    std::vector<std::pair<std::string, BundleDtype>> arguments{};
    std::map<std::string, std::string> captures{};  // the arguments for values from outside
    std::vector<std::string> captured{};            // these values, in order
    std::map<std::string, std::string> constants{};
  };

  std::string unused(const std::string& wanted);
  std::string added_to(Scope& scope, const std::string& name, const std::string& operation,
                       std::vector<std::string> inputs, const Attributes& attributes,
                       const std::vector<BundleDtype>& dtypes);
  std::string here(const std::string& value, size_t level);
  static std::string in_function(const Scope& scope, const std::string& value);
  static std::string encode_node(const Node& node);
  static std::vector<const Node*> needed_nodes(const Scope& scope, std::set<std::string> needed);

  std::vector<Scope> scopes_;  // the innermost last
  std::set<std::string> kept_;
  std::vector<std::string> functions_;
  std::map<std::string, BundleDtype> dtypes_;
  std::string label_;
  std::set<std::string> taken_;
  std::map<std::string, int> numbers_;
};

}  // namespace muster::inline v0_1::saved_model::internal
