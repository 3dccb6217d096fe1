#include "apps/muster/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/muster/run_muster.h"
#include "muster/base/bytes.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/audit_segment.h"
#include "muster/formats/checkpoint_header.h"
#include "muster/formats/event.h"
#include "muster/formats/file_digests.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/tfrecord.h"

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DiffTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return join_path(folder_.path(), name); }

  void write_checkpoint(const std::string& run, int64_t step,
                        const std::map<std::string, std::vector<float>>& variables,
                        const std::optional<nlohmann::json>& inputs = std::nullopt) {
    std::vector<formats::TensorView> tensors;
    std::map<std::string, std::string> layout;
    nlohmann::json digests = nlohmann::json::object();
    for (const auto& [name, values] : variables) {
      tensors.push_back({name,
                         "F32",
                         {static_cast<int64_t>(values.size())},
                         bytes_of(std::string_view(reinterpret_cast<const char*>(values.data()),
                                                   values.size() * sizeof(float)))});
      layout[name] = formats::layout_line(name, "F32", tensors.back().shape);
      digests[name] = formats::digest_of(tensors.back().data).digest;
    }
    formats::SafetensorsMetadata metadata;
    if (inputs) {  // as Muster writes it
      const std::string about =
          nlohmann::json{{"global_step", step}, {"inputs", *inputs}, {"digests", digests}}.dump();
      metadata = {{formats::kAboutKey, about},
                  {formats::kHeaderDigestKey, formats::header_digest(about, layout)}};
    }
    files_.make_directories(path(run)).value();
    auto writer =
        files_.open_staged(path(run + "/model.ckpt-" + std::to_string(step) + ".safetensors"))
            .value();
    formats::write_safetensors(*writer, tensors, metadata).value();
    writer->commit().value();
  }

  void write_events(const std::string& run, const std::vector<formats::Event>& events) {
    std::string bytes;
    for (const formats::Event& event : events)
      formats::append_tfrecord(bytes, bytes_of(formats::encode_event(event).value()));
    files_.make_directories(path(run)).value();
    files_.write_atomically(path(run + "/events.out.tfevents.1.host"), std::string_view(bytes))
        .value();
  }
  static formats::Event scalar(int64_t step, const std::string& tag, float value) {
    return {.wall_time = 1.7e9, .step = step, .values = {{tag, value}}};
  }

  void write_audit(const std::string& run, const formats::AuditSegment& segment) {
    files_.make_directories(path(run + "/audit")).value();
    files_
        .write_atomically(path(run + "/audit/" + formats::audit_file_name(segment)),
                          std::string_view(formats::encode_audit_segment(segment)))
        .value();
  }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(DiffTest, TheFirstStepAndItsVariablesAreNamed) {
  for (const char* run : {"a", "b"}) {
    const bool other = run[0] == 'b';
    write_checkpoint(run, 0, {{"w", {1, 2, 3}}, {"v", {1}}});
    write_checkpoint(run, 50, {{"w", {1, 2, other ? 3.5F : 3}}, {"v", {1}}});
    write_checkpoint(run, 100, {{"w", {9, 9, other ? 3.5F : 3}}, {"v", {other ? 2.F : 1}}});
  }
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  EXPECT_THAT(diff.same_checkpoints, ElementsAre(0));
  EXPECT_EQ(diff.first_checkpoint, 50);
  ASSERT_EQ(diff.variables.size(), 1u);
  EXPECT_EQ(diff.variables[0].name, "w");
  EXPECT_EQ(diff.variables[0].what,
            "1 of 3 elements differ, the first at 2 (3 and 3.5), by at most 0.5");
  EXPECT_FALSE(diff.same());
  const RunDiff one = diff_runs(files_, path("a/model.ckpt-0"), path("b/model.ckpt-0.safetensors"));
  EXPECT_TRUE(one.same());
}

// A run of another seed has examples in another order, which the record of used examples, made of
// places in the order, cannot tell.
TEST_F(DiffTest, TheStatesOfTheInputsAreCompared) {
  for (const char* run : {"a", "b"}) {
    for (const int64_t step : {10, 20}) {
      const int seed = run[0] == 'a' || step == 10 ? 0 : 3;
      write_checkpoint(run, step, {{"w", {1}}}, {{{"train", {{"seed", seed}, {"size", 40}}}}});
    }
  }
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  EXPECT_EQ(diff.first_inputs, 20);
  EXPECT_THAT(diff.inputs, ElementsAre("train/seed: 0 and 3"));
  EXPECT_TRUE(diff.same());  // the weights are
}

TEST_F(DiffTest, SingleCheckpointsOfOtherStepsAreNamedByTheirSteps) {
  write_checkpoint("a", 100, {{"w", {1}}}, nlohmann::json::object());
  write_checkpoint("a", 80, {{"w", {2}}}, nlohmann::json::object());
  const RunDiff diff = diff_runs(files_, path("a/model.ckpt-100"), path("a/model.ckpt-80"));
  EXPECT_THAT(show_diff(diff, /*json=*/false),
              HasSubstr("checkpoints: those of steps 100 and 80 differ, 1 variable\n"));
  // A folder means its newest checkpoint.
  EXPECT_THAT(diff_runs(files_, path("a"), path("a/model.ckpt-100")).same_checkpoints,
              ElementsAre(100));
}

TEST_F(DiffTest, ADamagedCheckpointIsNoDifference) {
  for (const char* run : {"a", "b"})
    write_checkpoint(run, 5, {{"w", {1, 2}}}, nlohmann::json::object());
  std::string bytes = files_.read_file(path("b/model.ckpt-5.safetensors")).value();
  bytes.back() ^= 1;
  files_.write_atomically(path("b/model.ckpt-5.safetensors"), std::string_view(bytes)).value();
  const Error error = error_of([&] { diff_runs(files_, path("a"), path("b")); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("the tensor 'w' of"));
}

TEST_F(DiffTest, OtherShapesAndMissingVariables) {
  write_checkpoint("a", 7, {{"w", {1, 2}}, {"only", {1}}});
  write_checkpoint("b", 7, {{"w", {1, 2, 3}}});
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  ASSERT_EQ(diff.variables.size(), 2u);
  EXPECT_EQ(diff.variables[0].what, "only in the first run");
  EXPECT_EQ(diff.variables[1].what, "F32 [2] and F32 [3]");
}

TEST_F(DiffTest, EventsTellTheStepBetweenSaves) {
  for (const char* run : {"a", "b"}) {
    write_events(run, {scalar(1, "loss", 0.5F), scalar(11, "loss", run[0] == 'a' ? 0.25F : 0.26F),
                       scalar(11, "examples/sec", run[0] == 'a' ? 1.F : 2.F),
                       scalar(21, "loss", run[0] == 'a' ? 0.1F : 0.2F)});
  }
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  EXPECT_EQ(diff.first_event, 11);
  EXPECT_THAT(diff.events, ElementsAre("loss: 0.25 and 0.25999999"));
}

TEST_F(DiffTest, TheRecordOfExamplesIsCompared) {
  for (const char* run : {"a", "b"}) {
    write_audit(run, {.first_step = 1, .last_step = 5, .used = {{0, 0, 20}}, .rows = 20});
    write_audit(
        run,
        {.first_step = 6, .last_step = 10, .used = {{0, run[0] == 'a' ? 20 : 24, 40}}, .rows = 20});
  }
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  EXPECT_EQ(diff.first_examples, 6);
  EXPECT_EQ(diff.examples, "steps 6 to 10 used other examples");
  EXPECT_TRUE(diff_runs(files_, path("a"), path("a")).same());
}

TEST_F(DiffTest, TheRecordOfEachTaskIsComparedWhereTasksReadTheirOwnData) {
  for (const char* run : {"a", "b"}) {
    for (const int64_t task : {0, 1}) {
      const bool other = run[0] == 'b' && task == 0;
      write_audit(run, {.task = task,
                        .tasks = 2,
                        .first_step = 1,
                        .last_step = 5,
                        .used = {{0, other ? 4 : 0, 20}},
                        .rows = 20});
    }
  }
  const RunDiff diff = diff_runs(files_, path("a"), path("b"));
  EXPECT_EQ(diff.first_examples, 1);
  EXPECT_EQ(diff.examples, "steps 1 to 5 used other examples in task 0 of 2");
}

TEST_F(DiffTest, NothingInCommonIsNoAnswer) {
  write_checkpoint("a", 1, {{"w", {1}}});
  write_checkpoint("b", 2, {{"w", {1}}});
  EXPECT_EQ(error_of([&] { diff_runs(files_, path("a"), path("b")); }).kind(),
            ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { diff_runs(files_, path("a"), path("none")); }).kind(),
            ErrorKind::kNotFound);
}

TEST_F(DiffTest, TheCommandsExitCodeSaysWhetherTheyDiffer) {
  write_checkpoint("a", 1, {{"w", {1}}});
  write_checkpoint("b", 1, {{"w", {2}}});
  ShellOutput ran = run_muster("diff " + path("a") + " " + path("a"));
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_EQ(ran.text, "checkpoints: the same at step 1\n");
  ran = run_muster("diff " + path("a") + " " + path("b"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.text,
            "checkpoints: first difference at step 1, 1 variable\n"
            "  w: 1 of 1 elements differ, the first at 0 (1 and 2), by at most 1\n");
  EXPECT_FALSE(nlohmann::json::parse(run_muster("diff --json " + path("a") + " " + path("b")).text)
                   .at("same")
                   .get<bool>());
  EXPECT_EQ(run_muster("diff " + path("a") + " " + path("none")).code, 2);
}

}  // namespace
}  // namespace muster::app
