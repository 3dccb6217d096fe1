// RunConfig::audit: the record of used examples, over restarts, numbers of replicas, passes, steps
// that are left out, and data that tasks have for themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/flawed_data.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/formats/audit_segment.h"
#include "muster/train/hook.h"

namespace muster::inline v0_1 {
namespace {

using testing::batch_normalized;
using ::testing::ElementsAre;
using testing::examples;
using testing::flawed_batches;
using ::testing::IsEmpty;
using testing::quiet_config;
using ::testing::SizeIs;
using testing::two_layers;

std::vector<formats::AuditSegment> segments_in(const std::string& model_dir) {
  FileSystem& files = local_file_system();
  const std::string folder = join_path(model_dir, "audit");
  std::vector<formats::AuditSegment> segments;
  for (const std::string& name : files.list_directory(folder).value()) {
    segments.push_back(
        formats::parse_audit_segment(files.read_file(join_path(folder, name)).value(), name)
            .value());
  }
  return segments;
}

RunConfig audited(const std::string& model_dir, int replicas = 1) {
  RunConfig config = quiet_config(
      model_dir, replicas > 1 ? distribute::mirrored({.replicas = replicas}) : nullptr);
  config.save_checkpoints_steps = 3;
  config.audit = true;
  return config;
}

// The run is over, without a save, after this step.
struct Dies : Hook {
  explicit Dies(int64_t step) : step(step) {}
  void after_step(const StepInfo& info) override {
    if (info.global_step == step) throw Error(ErrorKind::kInternal, "killed");
  }
  const int64_t step;
};

// 22 examples in batches of 4 end an epoch within a batch.
Dataset batches() { return examples(22).shuffle(22).repeat(3).global_batch(4); }

TEST(Audit, EachExampleOnceOverRestartsAndNumbersOfReplicas) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  EXPECT_THROW(Estimator(two_layers, audited(model_dir))
                   .train(batches, {.hooks = {std::make_shared<Dies>(8)}}),
               Error);
  EXPECT_THROW(Estimator(two_layers, audited(model_dir, 2))
                   .train(batches, {.hooks = {std::make_shared<Dies>(11)}}),
               Error);
  EXPECT_EQ(Estimator(two_layers, audited(model_dir, 3)).train(batches).global_step, 17);
  const formats::Audit audit = formats::audit(segments_in(model_dir));
  EXPECT_TRUE(audit.clean());
  EXPECT_EQ(audit.attempts, 3);
  EXPECT_EQ(audit.last_step, 17);
  ASSERT_THAT(audit.epochs, SizeIs(3));
  for (const formats::AuditEpoch& epoch : audit.epochs) {
    EXPECT_EQ(epoch.size, 22);
    EXPECT_EQ(epoch.once, 22);
  }
}

TEST(Audit, StepsMadeAgainFromAnOlderCheckpointReplaceTheLostOnes) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator(two_layers, audited(model_dir)).train(batches, {.max_steps = 9});
  for (const char* step : {"6", "9"}) {
    local_file_system().remove(model_dir + "/model.ckpt-" + step + ".safetensors").value();
  }
  local_file_system().remove(model_dir + "/checkpoint").value();
  EXPECT_EQ(Estimator(two_layers, audited(model_dir)).train(batches, {.max_steps = 12}).steps, 9);
  const formats::Audit audit = formats::audit(segments_in(model_dir));
  EXPECT_TRUE(audit.clean());
  EXPECT_EQ(audit.lost_steps, 6);
}

// A run of whose second start the position was wrong is found, as the record is not of what should
// have been used.
TEST(Audit, AnInputThatBeginsAgainIsNotMistaken) {
  TempDirectory directory;
  const std::string model_dir = directory / "m";
  Estimator(two_layers, audited(model_dir)).train(batches, {.max_steps = 3});
  RunConfig config = audited(model_dir);
  config.restart_input = true;
  Estimator(two_layers, config).train(batches, {.max_steps = 6});
  const formats::Audit audit = formats::audit(segments_in(model_dir));
  EXPECT_TRUE(audit.clean());
  EXPECT_THAT(audit.epochs, SizeIs(2));
  // Without the note that it began again, the examples of the first steps were used twice.
  std::vector<formats::AuditSegment> segments = segments_in(model_dir);
  for (formats::AuditSegment& segment : segments) segment.new_order = false;
  EXPECT_THAT(formats::audit(segments).epochs[0].twice, ElementsAre(formats::AuditRange{0, 0, 12}));
}

TEST(Audit, EachCallIsAPass) {
  TempDirectory directory;
  const auto once = [] { return examples(20).shuffle(20).global_batch(8); };
  Estimator estimator(two_layers, audited(directory / "m"));
  for (int call = 0; call < 2; ++call) estimator.train(once);
  const formats::Audit audit = formats::audit(segments_in(directory / "m"));
  EXPECT_TRUE(audit.clean());
  ASSERT_THAT(audit.epochs, SizeIs(2));
  for (const formats::AuditEpoch& epoch : audit.epochs) EXPECT_EQ(epoch.size, 20);
}

// Batches of 12, of which number 3 is flawed.
TEST(Audit, AStepThatIsLeftOutDidNotUseItsExamples) {
  TempDirectory directory;
  RunConfig config = audited(directory / "m");
  config.non_finite = NonFinitePolicy::kSkip;
  Estimator(batch_normalized, config).train(flawed_batches({}, {3}));
  const formats::Audit audit = formats::audit(segments_in(directory / "m"));
  ASSERT_THAT(audit.epochs, SizeIs(1));
  EXPECT_THAT(audit.epochs[0].left_out, ElementsAre(formats::AuditRange{0, 36, 48}));
  EXPECT_THAT(audit.epochs[0].never, ElementsAre(formats::AuditRange{0, 36, 48}));
  EXPECT_EQ(audit.epochs[0].once, 108);
}

// The input does not go back with the weights, so batch 2 is lost as well.
TEST(Audit, ARollBackLosesTheExamplesSinceTheLastSave) {
  TempDirectory directory;
  RunConfig config = audited(directory / "m");
  config.save_checkpoints_steps = 2;
  config.non_finite = NonFinitePolicy::kRollBack;
  Estimator(batch_normalized, config).train(flawed_batches({}, {3}));
  const formats::Audit audit = formats::audit(segments_in(directory / "m"));
  ASSERT_THAT(audit.epochs, SizeIs(1));
  EXPECT_THAT(audit.epochs[0].never, ElementsAre(formats::AuditRange{0, 24, 48}));
  EXPECT_THAT(audit.epochs[0].twice, IsEmpty());
  EXPECT_EQ(audit.attempts, 2);
}

// As on a disk that is full for a while.
TEST(Audit, AFileThatCannotBeWrittenIsTriedAgainAtTheNextSave) {
  TempDirectory directory;
  FileSystem& files = local_file_system();
  const std::string model_dir = directory / "m", folder = model_dir + "/audit";
  files.make_directories(model_dir).value();
  files.write_atomically(folder, std::string_view("not a folder")).value();
  struct Frees : Hook {
    explicit Frees(std::string path) : path(std::move(path)) {}
    void after_step(const StepInfo& info) override {
      if (info.global_step == 7) local_file_system().remove(path).value();
    }
    const std::string path;
  };
  Estimator(two_layers, audited(model_dir))
      .train(batches, {.hooks = {std::make_shared<Frees>(folder)}});
  EXPECT_TRUE(formats::audit(segments_in(model_dir)).clean());
  EXPECT_EQ(segments_in(model_dir).front().last_step, 9);
}

TEST(Audit, NothingIsWrittenWithoutIt) {
  TempDirectory directory;
  RunConfig config = audited(directory / "m");
  config.audit = false;
  Estimator(two_layers, config).train(batches, {.max_steps = 3});
  EXPECT_FALSE(local_file_system().exists(directory / "m" + "/audit").value());
}

}  // namespace
}  // namespace muster::inline v0_1
