// The obligations of a task that lost the others when it joins them again.
#include <gtest/gtest.h>

#include <atomic>

#include "muster/base/error.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/estimator/testing/test_model.h"

namespace muster::inline v0_1 {
namespace {

using testing::latest;
using testing::quiet_config;
using testing::same_bits;
using testing::shuffled_batches;
using testing::two_layers;

// One replica, which may begin again when it has lost the others.
class Rejoining final : public distribute::Strategy {
 public:
  std::string_view name() const override { return "Rejoining"; }
  bool multi_worker() const override { return false; }
  Device device() const override { return at::kCPU; }
  Seconds restart_timeout() const override { return Seconds(30); }
  std::vector<std::unique_ptr<distribute::Replica>> start_replicas(
      const distribute::StartOptions& start) const override {
    return distribute::one_device()->start_replicas(start);
  }
};

// Its own checkpoint contains the position of the data; a checkpoint that it was asked to leave
// does not.
TEST(RejoinTest, DataThatWasToldToBeginAnewDoesSoOnce) {
  TempDirectory directory;
  const InputFn input = shuffled_batches(64, 8);
  const auto train = [&](const std::string& name, int64_t lost_at) {
    const std::string model_dir = directory / name;
    Estimator(two_layers, quiet_config(model_dir)).train(input, {.max_steps = 5});
    RunConfig config = quiet_config(model_dir, std::make_shared<Rejoining>());
    config.restart_input = true;
    const auto calls = std::make_shared<std::atomic<int64_t>>(0);
    const ModelFn model_fn = [=](const Features& features, const Labels& labels, Mode mode,
                                 ModelContext& context) {
      if (++*calls == lost_at) throw Error(ErrorKind::kPeerLost, "ps 0 was lost");
      return two_layers(features, labels, mode, context);
    };
    Estimator(model_fn, config).train(input, {.max_steps = 30});
    EXPECT_EQ(*calls > 26, lost_at > 0);
    return latest(model_dir);
  };
  const Checkpoint whole = train("whole", 0);
  // After a save of its own, and before the first one.
  EXPECT_TRUE(same_bits(train("late", 16), whole));
  EXPECT_TRUE(same_bits(train("early", 4), whole));
}

}  // namespace
}  // namespace muster::inline v0_1
