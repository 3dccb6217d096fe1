#include "muster/plan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PlacedVariable floats(const std::string& name, const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t size : shape) elements *= size;
  return {.name = name, .shape = shape, .bytes = 4 * elements};
}

std::vector<int> servers_of(const std::vector<Shard>& shards) {
  std::vector<int> servers;
  for (const Shard& shard : shards) servers.push_back(shard.server);
  return servers;
}

// The worked numbers are TensorFlow's, of its partitioners' documentation and of their formulas.
TEST(Partitioner, CutsAsTensorFlowDoes) {
  EXPECT_EQ(Partitioner::none().parts(1000, 4, 3), 1);
  EXPECT_EQ(Partitioner::fixed(5).parts(1000, 4, 3), 5);
  EXPECT_EQ(Partitioner::fixed(5).parts(3, 4, 3), 3);
  EXPECT_EQ(Partitioner::min_size(4, 2).parts(6, 4, 9), 2);
  EXPECT_EQ(Partitioner::min_size(4, 10).parts(6, 4, 9), 6);
  EXPECT_EQ(Partitioner::min_size(256 << 10).parts(1024, 1024, 3), 3);
  EXPECT_EQ(Partitioner::min_size(256 << 10).parts(1024, 256, 3), 1);
  // A begun part counts: 300 KiB are two parts of 150.
  EXPECT_EQ(Partitioner::min_size(256 << 10).parts(1024, 300, 3), 2);
  EXPECT_EQ(Partitioner::max_size(4).parts(6, 4, 9), 6);
  EXPECT_EQ(Partitioner::max_size(8).parts(6, 4, 9), 3);
  EXPECT_EQ(Partitioner::max_size(1024).parts(6, 4, 9), 1);
  EXPECT_EQ(Partitioner::max_size(4, 2).parts(6, 4, 9), 2);
  EXPECT_EQ(Partitioner::max_size(1).parts(6, 4, 9), 6);
}

TEST(Partitioner, RefusesWhatCutsNothing) {
  EXPECT_EQ(error_of([] { Partitioner::fixed(0); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error_of([] { Partitioner::max_size(0); }).message(), HasSubstr("bytes = 0"));
}

TEST(Place, DealsRowsAsDivDoes) {
  const auto shards =
      place({floats("x", {13, 2})}, 2, Placement::kRoundRobin, Partitioner::fixed(5));
  std::vector<int64_t> sizes;
  for (const Shard& shard : shards) sizes.push_back(shard.end - shard.begin);
  EXPECT_THAT(sizes, ElementsAre(3, 3, 3, 2, 2));
  EXPECT_THAT(servers_of(shards), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(shards[3].begin, 9);
  EXPECT_EQ(shard_name("x", shards[3]), "x/part_3");
}

TEST(Place, EachPartTakesATurn) {
  const auto shards = place({floats("a", {4, 4}), floats("b", {}), floats("c", {2})}, 2,
                            Placement::kRoundRobin, Partitioner::fixed(2));
  EXPECT_THAT(servers_of(shards), ElementsAre(0, 1, 0, 1, 0));
  EXPECT_EQ(shards[2].variable, 1);
  EXPECT_EQ(shard_name("b", shards[2]), "b");
}

TEST(Place, ByBytesKeepsServersAlike) {
  const auto shards =
      place({floats("big", {100}), floats("a", {60}), floats("b", {30}), floats("c", {20})}, 2,
            Placement::kByBytes, Partitioner::none());
  EXPECT_THAT(servers_of(shards), ElementsAre(0, 1, 1, 1));
}

TEST(Place, AVariableThatMustStayWholeDoes) {
  PlacedVariable whole = floats("x", {10});
  whole.whole = true;
  EXPECT_EQ(place({whole}, 2, Placement::kRoundRobin, Partitioner::fixed(2)).size(), 1u);
}

// Whatever the shapes, each row is there once, in order.
TEST(Place, CoversEveryRowOnce) {
  for (int servers = 1; servers <= 4; ++servers) {
    for (int64_t rows = 1; rows <= 9; ++rows) {
      for (const Partitioner& partitioner : {Partitioner::none(), Partitioner::fixed(4),
                                             Partitioner::min_size(8), Partitioner::max_size(12)}) {
        int64_t next = 0;
        for (const Shard& shard :
             place({floats("x", {rows, 1})}, servers, Placement::kByBytes, partitioner)) {
          EXPECT_EQ(shard.begin, next);
          EXPECT_GT(shard.end, shard.begin);
          EXPECT_LT(shard.server, servers);
          next = shard.end;
        }
        EXPECT_EQ(next, rows);
      }
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
