// Loops of two workers that write parts of one checkpoint: as small states are divided here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "muster/base/error_of.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/train/save_parts.h"
#include "tests/support/held_save.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

class ScopeSavePartsTest : public ::testing::Test {
 protected:
  ~ScopeSavePartsTest() override { muster::internal::divide_states_from(before_); }

  // Makes four steps on each of two workers, with a save to `folder` after each. `after_save`, if
  // given, is called after it. Returns the error of worker 0.
  static Error error_of_chief(const std::function<std::string(int rank, int64_t step)>& folder,
                              const std::function<void(int rank, int64_t step)>& after_save,
                              const std::function<void()>& at_end) {
    const muster::testing::LocalCluster cluster(2);
    Error chiefs(ErrorKind::kInternal, "none");
    muster::testing::run_ranks(2, [&](int rank) {
      const Error error = error_of([&] {
        const StrategyPtr strategy = multi_worker_mirrored();
        const Scope scope = strategy->scope({.seed = 5, .environment = cluster.environment(rank)});
        const Layer model = Dense(2);
        const auto sgd = optim::sgd({.learning_rate = 0.1});
        const Tensor x = torch::ones({16, 4});
        for (const auto& batch : strategy->distribute(
                 Dataset::from_tensor_slices(Element::tuple({x, x.slice(1, 0, 2)})).batch(4))) {
          strategy->run(
              [&](const Features& features, const Labels& labels) {
                sgd.minimize(losses::mean_squared_error(labels, model(features)));
              },
              batch);
          const int64_t step = scope.step();
          scope.save(folder(rank, step), {.asynchronous = true});
          after_save(rank, step);
        }
      });
      if (rank != 0) return;
      chiefs = error;
      at_end();
    });
    return chiefs;
  }

  const int64_t before_ = muster::internal::divide_states_from(1);
};

// The part of worker 1 is held until the chief's loop has ended.
TEST_F(ScopeSavePartsTest, NobodyWaitsForThePartOfALostWorker) {
  muster::testing::HeldSave held("ckpt-2.part-1");
  const Error error = error_of_chief([](int, int64_t) { return "mem://save-parts/loop"; },
                                     [](int rank, int64_t step) {
                                       if (rank == 1 && step == 2)
                                         throw Error(ErrorKind::kUnavailable, "lost by the test");
                                     },
                                     [&] { held.open(); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.message();
}

TEST_F(ScopeSavePartsTest, WorkersThatSaveToOtherDirectoriesAreNamed) {
  const muster::testing::HeldSave none("no file is called so");
  const Error error = error_of_chief(
      [](int rank, int64_t step) {
        return rank == 1 && step == 3 ? "mem://save-parts/other" : "mem://save-parts/loop";
      },
      [](int, int64_t) {}, [] {});
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              ::testing::HasSubstr("the first save to its model_dir is no on worker 0; yes on "
                                   "worker 1"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
