#include "muster/layers/model_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/layers/dense.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Shapes = std::vector<std::vector<int64_t>>;

const formats::NodeDef& node(const formats::GraphDef& graph, const std::string& name) {
  for (const formats::NodeDef& known : graph.nodes)
    if (known.name == name) return known;
  throw std::runtime_error("no node " + name);
}

TEST(ModelGraph, OfASequentialIsAChain) {
  const Layer model =
      Sequential({Flatten(), Dense(16, {.activation = activations::relu}), Dense(2)});
  const formats::GraphDef graph = model_graph(model, {Input({4, 5}, {.name = "x"})}, "net");
  ASSERT_EQ(graph.nodes.size(), 4u);
  EXPECT_EQ(node(graph, "net/x").op, "InputLayer");
  EXPECT_EQ(node(graph, "net/x").output_shapes, (Shapes{{-1, 4, 5}}));
  EXPECT_THAT(node(graph, "net/flatten").inputs, ElementsAre("net/x"));
  EXPECT_EQ(node(graph, "net/flatten").output_shapes, (Shapes{{-1, 20}}));
  EXPECT_THAT(node(graph, "net/dense").inputs, ElementsAre("net/flatten"));
  EXPECT_EQ(node(graph, "net/dense").op, "Dense");
  EXPECT_EQ(node(graph, "net/dense").parameters, 20 * 16 + 16);
  EXPECT_THAT(node(graph, "net/dense_1").inputs, ElementsAre("net/dense"));
  EXPECT_EQ(node(graph, "net/dense_1").output_shapes, (Shapes{{-1, 2}}));
}

TEST(ModelGraph, OfAFunctionalHasItsBranchesAndEachCallOfALayer) {
  const SymbolicTensor x = Input({8}, {.name = "x"});
  const Layer shared = Dense(8);
  const SymbolicTensor once = shared(x);
  const SymbolicTensor twice = shared(once);
  const Functional model({x}, {Add()({x, twice})});
  // A Functional has inputs of its own: these are not looked at.
  const formats::GraphDef graph = model_graph(model, {Input({3})}, "");
  EXPECT_THAT(node(graph, "dense/call_0").inputs, ElementsAre("x"));
  EXPECT_THAT(node(graph, "dense/call_1").inputs, ElementsAre("dense/call_0"));
  EXPECT_EQ(node(graph, "dense/call_0").parameters, 72);
  EXPECT_EQ(node(graph, "dense/call_1").parameters, 0) << "shared weights count once";
  EXPECT_THAT(node(graph, "add").inputs, ElementsAre("x", "dense/call_1"));
}

TEST(ModelGraph, NeedsInputs) {
  EXPECT_THAT(error_of([] { model_graph(Dense(2), {}, "net"); }).message(),
              HasSubstr("model_graph: inputs is empty"));
}

}  // namespace
}  // namespace muster::inline v0_1
