// Invariant of positions for stages that hold elements back or choose among data sets, on random
// compositions with all others: an iterator saved anywhere and restored gives the same rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/data/auto_shard.h"
#include "muster/data/internal/test_pipelines.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

class HeldLaws : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
};

// Checks the invariant at up to `places` positions; returns how many it checked.
int64_t check_positions(const Dataset& dataset, size_t places) {
  const auto whole = rest_of(*dataset.iterator({.seed = 3}));
  if (whole.size() > 150) return 0;
  if (dataset.cardinality() >= 0) {
    EXPECT_EQ(dataset.cardinality(), static_cast<int64_t>(whole.size()));
  }
  const auto iterator = dataset.iterator({.seed = 3});
  const size_t stride = 1 + whole.size() / places;
  int64_t checked = 0;
  for (size_t i = 0; i <= whole.size(); ++i) {
    if (i % stride == 0) {
      const json saved = json::parse(iterator->save().dump());
      const auto other = dataset.iterator({.seed = 9});
      other->restore(saved);
      EXPECT_EQ(other->position(), iterator->position()) << "element " << i << " of " << saved;
      EXPECT_EQ(rest_of(*other), Lists(whole.begin() + static_cast<int64_t>(i), whole.end()))
          << "continued at element " << i << " from " << saved;
      ++checked;
    }
    try {
      iterator->next();
    } catch (const Error&) {  // an element like others
    }
  }
  return checked;
}

TEST_F(HeldLaws, AnyPositionOfAnyPipelineGivesTheSameRest) {
  int64_t checked = 0;
  for (uint64_t trial = 0; trial < 600; ++trial) {
    Pipelines pipelines(20000 + trial, true);
    const Dataset dataset = pipelines.pipeline();
    SCOPED_TRACE(fmt::format("trial {}: {}", trial, dataset.describe()));
    checked += check_positions(dataset, 12);
    if (HasFailure()) return;
  }
  EXPECT_GT(checked, 2000);
}

// Positions come from files: one with wrong numbers is refused, or continues somewhere, and nothing
// else happens.
TEST_F(HeldLaws, APositionWithWrongNumbersIsRefusedOrContinuesSomewhere) {
  const auto key = [](const Element& x) { return number(x) % 3; };
  const auto all = [](const Dataset& window) { return window; };
  const auto sum = [](const Element& state, const Element& x) {
    const Element next(state.value().tensor() + x.value().tensor());
    return std::pair(next, next);
  };
  const Dataset files = number_files({"0-9", "100-105"});
  const std::vector<Dataset> pipelines{
      files.window(3, {.shift = 2}).take(9),
      files.window(2, all, {.shift = 3}),
      files.group_by_window(
          key, [](int64_t, const Dataset& window) { return window; }, 4),
      files.take_while([](const Element& x) { return number(x) < 103; }),
      files.unique(),
      files.scan(Element(torch::scalar_tensor(1, at::kLong)), sum),
      Dataset::choose_from_datasets({files, Dataset::range(8)},
                                    Dataset::range(20).shuffle(9).map([](const Element& x) {
                                      return Element(x.value().tensor() % 2);
                                    })),
      Dataset::sample_from_datasets({files, Dataset::range(8)}),
      files.with_seed(3),
      data::auto_shard(files.batch(4).rebatch({1, 2, 1}), 3, 1, AutoShardPolicy::kData).dataset};
  constexpr int64_t kWrong[] = {-1,
                                0,
                                1,
                                7,
                                1000,
                                int64_t{1} << 40,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()};
  for (const Dataset& dataset : pipelines) {
    SCOPED_TRACE(dataset.describe());
    const auto iterator = dataset.iterator({.seed = 3});
    for (int i = 0; i < 4; ++i) iterator->next();
    const json good = iterator->save();
    const Lists rest = rest_of(*iterator);
    for (size_t at = 0; at < good["position"].size(); ++at) {
      for (const int64_t wrong : kWrong) {
        json bad = good;
        bad["position"][at] = wrong;
        const auto other = dataset.iterator({.seed = 3});
        try {
          other->restore(bad);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << bad << error.what();
          continue;
        }
        for (int i = 0; i < 40; ++i) {
          try {
            if (!other->next()) break;
          } catch (const Error&) {
          }
        }
      }
    }
    const auto again = dataset.iterator();
    again->restore(good);
    EXPECT_EQ(rest_of(*again), rest);
  }
}

// Workers with batches of their own distribute the rows of all batches, each row to one of them,
// and every worker's part keeps the invariant.
TEST_F(HeldLaws, WorkersThatRebatchEachInItsOwnWayReadEveryRowOnce) {
  for (uint64_t trial = 0; trial < 150; ++trial) {
    Pipelines pipelines(30000 + trial);
    const int64_t workers = 1 + pipelines.below(4), n = workers + pipelines.below(40);
    const int64_t batch = 1 + pipelines.below(9);
    std::vector<int64_t> sizes(static_cast<size_t>(1 + pipelines.below(4)));
    for (int64_t& size : sizes) size = pipelines.below(4);
    sizes.front() += 1;
    const bool mapped = pipelines.below(2) == 0;
    SCOPED_TRACE(fmt::format("range({}).batch({}).rebatch({}) on {}", n, batch,
                             fmt::join(sizes, ", "), workers));
    std::multiset<int64_t> all;
    size_t steps = 0;
    for (int64_t worker = 0; worker < workers; ++worker) {
      // As tf.data's batch sizes of a worker: turned by one place for each.
      std::vector<int64_t> turned = sizes;
      std::rotate(turned.begin(), turned.begin() + worker % static_cast<int64_t>(sizes.size()),
                  turned.end());
      Dataset dataset = Dataset::range(n).batch(batch).rebatch(turned);
      if (mapped) dataset = dataset.map([](const Element& rows) { return rows; }).prefetch(2);
      const Dataset mine = data::auto_shard(dataset, workers, worker).dataset;
      EXPECT_GE(check_positions(mine, 4), 0);
      const Lists batches = read(mine);
      if (worker == 0) steps = batches.size();
      EXPECT_EQ(batches.size(), steps) << "worker " << worker;
      for (const auto& rows : batches) all.insert(rows.begin(), rows.end());
    }
    std::multiset<int64_t> expected;
    for (int64_t i = 0; i < n; ++i) expected.insert(i);
    ASSERT_EQ(all, expected);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
