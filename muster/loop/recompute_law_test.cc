// Invariant of recomputation: for any replicas, and any batches of an update, training leaves the
// same bits with it and without.
#include <gtest/gtest.h>

#include <map>

#include "muster/distribute/strategy.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/merge.h"
#include "muster/layers/recompute.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/internal/test_towers.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

Layer tower(bool recomputes) {
  const auto wrap = [=](Layer layer) { return recomputes ? Recompute(layer) : layer; };
  const SymbolicTensor x = Input({2}), id = Input({}, {.dtype = kInt64});
  const Layer table = Embedding(5, 4, {.row_sparse = true});
  const SymbolicTensor words = wrap(Sequential({table, Dense(6)}))(id);
  const Layer block = wrap(
      Sequential({Dense(6), BatchNormalization({.synchronized = true}), Dropout(0.2), Dense(6)}));
  const SymbolicTensor seen = block(wrap(Sequential({Dense(6), BatchNormalization()}))(x));
  return Functional({x, id}, {Dense(1)(Add()({seen, words}))});
}

TEST(RecomputeLawTest, TrainingLeavesTheSameBits) {
  for (const int replicas : {1, 2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      SCOPED_TRACE(std::to_string(replicas) + " replicas, " + std::to_string(accumulate));
      const StrategyPtr strategy = mirrored({.replicas = replicas});
      const auto expected = train_tower(strategy, accumulate, tower(false));
      const auto found = train_tower(strategy, accumulate, tower(true));
      ASSERT_EQ(expected.size(), 19u);
      ASSERT_EQ(expected.size(), found.size());
      for (const auto& [name, value] : expected) {
        EXPECT_TRUE(value.isfinite().all().item<bool>()) << name;
        EXPECT_TRUE(value.equal(found.at(name))) << name;
      }
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
