// Bad input, from the first flag to the last byte of a checkpoint: the message, the exit code, and
// that nothing is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// An error is one "E hh:mm:ss Kind: message" line with a hint below, and nothing of glog.
void expect_error(const Ran& ran, int code, const std::string& message) {
  EXPECT_EQ(ran.code, code) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr(message), HasSubstr("hint: ")));
  EXPECT_THAT(ran.output, AllOf(Not(HasSubstr("terminate called")), Not(HasSubstr(".cc:"))));
}

struct BadConfig {
  std::string text;
  std::string message;
};

class TfConfigTest : public ::testing::TestWithParam<BadConfig> {};

TEST_P(TfConfigTest, IsRefusedWithTheRule) {
  const TempDirectory directory;
  const Ran ran =
      run(mnist(directory / "model", {"--max_steps=1"}), {{"TF_CONFIG", GetParam().text}});
  expect_error(ran, 2, GetParam().message);
  EXPECT_THAT(ran.output, HasSubstr("TF_CONFIG"));
  EXPECT_FALSE(std::filesystem::exists(directory / "model"));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, TfConfigTest,
    ::testing::Values(
        BadConfig{R"({"cluster": )", "not valid JSON at line 1"},
        BadConfig{R"({"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker"}})",
                  "task.index is missing"},
        BadConfig{R"({"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":2}})",
                  R"(task.index is 2: cluster.worker is ["a:1","b:2"], which has no such index
  hint: use the place of this task in the list, for example TF_CONFIG='{"cluster":{"worker":["a:1","b:2"]},"task":{"type":"worker","index":1}}')"},
        BadConfig{R"({"cluster":{"worker":["a:1","b:2"]},"task":{"type":"chief","index":0}})",
                  R"(task.type is "chief": cluster has only 'worker')"},
        BadConfig{R"({"cluster":{"chief":["a:1","b:2"]},"task":{"type":"chief","index":0}})",
                  "there must be exactly one"},
        BadConfig{R"({"cluster":{"chief":["a:1"]},"task":{"type":"worker","index":0}})",
                  R"(task.type is "worker": cluster has only 'chief')"},
        BadConfig{R"({"task":{"type":"chief","index":0}})", "there is no cluster"},
        BadConfig{R"({"cluster":{"worker":["a:1",""]},"task":{"type":"worker","index":0}})",
                  "the address of worker:1 is empty"}));

TEST(Flags, AreCheckedBeforeAnythingIsRead) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  for (const auto& [flag, message] : std::vector<std::pair<std::string, std::string>>{
           {"--no_such_flag=1", "--no_such_flag"},
           {"--epochs=many", "--epochs"},
           {"--batch_size=0", "--batch_size is 0; it must be a whole number more than 0"},
           {"--learning_rate=-1", "--learning_rate is -1; it must be a number more than 0"}}) {
    const Ran ran = run(mnist(model, {flag}));
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr(message));
  }
  const Ran help = run({binary("mnist"), "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Examples:"), HasSubstr("--save_checkpoints_steps")));
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST(DataDir, MissingTruncatedAndForeignFilesAreNamed) {
  const TempDirectory directory;
  const std::string images = directory / "data/train-images-idx3-ubyte";
  const std::string model = directory / "model";
  Words command = {binary("mnist"), "--data_dir=" + directory / "data", "--model_dir=" + model};
  expect_error(run(command), 2, "the data directory " + directory / "data" + " does not exist");

  std::filesystem::copy(digits(), directory / "data");
  const std::string good = read_file(images);
  write_file(images, good.substr(0, good.size() / 2));
  expect_error(run(command), 1, "'" + images + "' is cut short");
  write_file(images, "<html>" + good);
  expect_error(run(command), 1, "'" + images + "' is not an IDX file");
  write_file(images, "");
  expect_error(run(command), 1, images);
  EXPECT_FALSE(std::filesystem::exists(model));
}

TEST(ModelDir, AFileInTheWayIsNamed) {
  const TempDirectory directory;
  write_file(directory / "file", "not a directory");
  for (const char* place : {"file", "file/model"}) {
    expect_error(run(mnist(directory / place, {"--max_steps=1"})), 2,
                 "cannot write checkpoints to model_dir '" + directory / place + "'");
  }
  EXPECT_EQ(read_file(directory / "file"), "not a directory");
}

TEST(DiskFull, TheOldCheckpointStaysGoodAndTrainingContinuesWhenThereIsRoom) {
  const TempDirectory directory;
  if (run({"unshare", "-m", "true"}).code != 0) {
    GTEST_SKIP() << "mounting a small file system needs the right to a mount namespace (root)";
  }
  // A file system of its own in a namespace of its own, large enough for two checkpoints, not for
  // three.
  const std::string model = directory / "model";
  std::filesystem::create_directory(model);
  std::string first, second;
  for (const std::string& word : mnist(model, {"--max_steps=30", "--save_checkpoints_steps=10"})) {
    first += " '" + word + "'";
  }
  const std::string script = "mount -t tmpfs -o size=7m tmpfs " + model + " || exit 77\n" + first +
                             "\necho \"full: $?\"\nls -a " + model + "\n" + binary("muster") +
                             " inspect checkpoint " + model + "\nmount -o remount,size=64m " +
                             model + " || exit 77\n" + first + "\necho \"room: $?\"\n";
  const Ran ran = run({"unshare", "-m", "sh", "-c", script});
  if (ran.code == 77) GTEST_SKIP() << "cannot mount a small file system: " << ran.output;
  const std::string full = ran.output.substr(0, ran.output.find("full: "));
  const std::string room = ran.output.substr(full.size());
  EXPECT_THAT(full, AllOf(HasSubstr("InvalidArgument: "), HasSubstr("model.ckpt-20"),
                          HasSubstr("No space left on device"), HasSubstr("hint: ")));
  EXPECT_THAT(room, StartsWith("full: 2\n"));
  // Nothing half-written stays, and the newest whole one is read.
  EXPECT_THAT(room, AllOf(HasSubstr("model.ckpt-10.safetensors"),
                          Not(HasSubstr("model.ckpt-20.safetensors\n..")), Not(HasSubstr(".tmp"))));
  EXPECT_THAT(room, HasSubstr("global_step: 10"));
  EXPECT_THAT(room, AllOf(HasSubstr("continuing after step 10"), HasSubstr("room: 0")));
}

TEST(Checkpoint, ADamagedOneIsSkippedAndSaidAndTheResultIsTheSame) {
  const TempDirectory directory;
  const Words flags = {"--max_steps=30", "--save_checkpoints_steps=10"};
  ASSERT_EQ(run(mnist(directory / "model", flags)).code, 0);
  const std::string good = checkpoint_bytes(directory / "model", 30);
  const auto again = [&](const std::string& damaged) {
    write_file(checkpoint_path(directory / "model", 30), damaged);
    const Ran ran = run(mnist(directory / "model", flags));
    EXPECT_EQ(ran.code, 0) << ran.output;
    EXPECT_THAT(ran.output,
                AllOf(HasSubstr("skipping a damaged checkpoint: "),
                      HasSubstr("model.ckpt-30.safetensors"), HasSubstr("instead of 1 damaged one"),
                      HasSubstr("model.ckpt-20: continuing after step 20")));
    EXPECT_TRUE(checkpoint_bytes(directory / "model", 30) == good);
  };
  again(good.substr(0, good.size() / 2));
  std::string flipped = good;
  flipped[flipped.size() - 1000] ^= 4;
  again(flipped);
  again("");

  // Not even one good one: an error, and no start from nothing.
  for (int step : {0, 10, 20, 30})
    write_file(checkpoint_path(directory / "model", step), "rubbish");
  const Ran ran = run(mnist(directory / "model", flags));
  expect_error(ran, 1, "none of the 4 checkpoints in '" + directory / "model" + "' can be read");
}

TEST(Checkpoint, OfAnotherModelIsListed) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  ASSERT_EQ(run(mnist(model, {"--max_steps=2"})).code, 0);
  const std::string before = checkpoint_bytes(model, 2);
  const Ran ran =
      run({binary("digits"), "--data_dir=" + digits(), "--model_dir=" + model, "--max_steps=4"});
  expect_error(ran, 2, model + "/model.ckpt-2");
  EXPECT_THAT(ran.output, AllOf(HasSubstr("missing"), HasSubstr("cnn/conv2d/kernel"),
                                HasSubstr("float32[3, 3, 1, 32]"), HasSubstr("model_dir")));
  EXPECT_TRUE(checkpoint_bytes(model, 2) == before);
}

TEST(NonFinite, StopsBeforeSavingAndNamesStepAndTensor) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  const Words flags = {"--max_steps=20", "--learning_rate=1e30", "--save_checkpoints_steps=2"};
  const Ran ran = run(mnist(model, flags));
  expect_error(ran, 1, "NonFinite: the loss is ");
  EXPECT_THAT(ran.output, AllOf(HasSubstr("at step 2"), HasSubstr("learning rate"),
                                Not(HasSubstr("saved " + model + "/model.ckpt-2"))));
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(model, 2)));
  // The checkpoint from before is good: with another learning rate training continues.
  const Ran again = run(mnist(model, {"--max_steps=4", "--learning_rate=0.01"}));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, HasSubstr("continuing after step 0"));
}

TEST(Programs, ResultTraceAndInspectSayWhatHappened) {
  const TempDirectory directory;
  const std::string model = directory / "model";
  const Ran ran = run(mnist(model, {"--epochs=2", "--trace"}));
  ASSERT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("where a step's time goes (63 steps)"),
                                HasSubstr("forward"), HasSubstr("reduction"), HasSubstr("total")));
  const size_t at = ran.output.find("result: ");
  ASSERT_NE(at, std::string::npos) << ran.output;
  const std::string line = ran.output.substr(at + 8, ran.output.find('\n', at) - at - 8);
  const auto result = nlohmann::json::parse(line);
  EXPECT_EQ(result.at("global_step"), 63);
  EXPECT_GT(result.at("accuracy"), 0.6);
  EXPECT_GT(result.at("loss"), 0.0);
  // A line for each of the test images, under a heading.
  const std::string predictions = read_file(model + "/predictions.csv");
  EXPECT_EQ(std::count(predictions.begin(), predictions.end(), '\n'), 501);

  // All steps are done: the second run evaluates, says so, and gives the same line.
  const std::string before = checkpoint_bytes(model, 63);
  const Ran again = run(mnist(model, {"--epochs=2"}));
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, AllOf(HasSubstr("nothing to train"), HasSubstr("result: " + line)));
  EXPECT_TRUE(checkpoint_bytes(model, 63) == before);

  const std::string muster = binary("muster");
  EXPECT_THAT(run({muster, "inspect", "checkpoint", model}).output,
              AllOf(HasSubstr("global_step: 63"), HasSubstr("cnn/dense_1/kernel")));
  const Ran checkpoint = run({muster, "inspect", "checkpoint", model, "--json"});
  EXPECT_EQ(nlohmann::json::parse(checkpoint.output).at("global_step"), 63);
  EXPECT_THAT(run({muster, "inspect", "events", model}).output, HasSubstr("loss"));
  const Ran events = run({muster, "inspect", "events", model + "/eval", "--json"});
  EXPECT_THAT(nlohmann::json::parse(events.output).dump(),
              AllOf(HasSubstr("accuracy"), HasSubstr("63")));
}

}  // namespace
}  // namespace muster::testing
