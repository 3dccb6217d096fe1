// A program with a Keras model, as a user runs it: on workers, stopped and started again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/end_to_end/photo.h"
#include "tests/end_to_end/program.h"
#include "tests/end_to_end/served_tasks.h"

namespace muster::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Words program(const std::string& model_dir, int epochs) {
  return {binary("keras_mnist"), "--data_dir=" + digits(), "--model_dir=" + model_dir,
          "--epochs=" + std::to_string(epochs)};
}

json result(const Ran& ran) { return json::parse(result_of(ran)); }

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

TEST(KerasProgram, WorkersTrainOneModelAndTheChiefSavesIt) {
  const TempDirectory directory;
  const Ran ran = run(muster_run({"--workers=2"}, program(directory / "model", 2)));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_GT(result(ran).at("accuracy").get<double>(), 0.8) << ran.output;
  EXPECT_THAT(ran.output, AllOf(HasSubstr("[worker 0] I "), HasSubstr("epoch 2/2"),
                                Not(HasSubstr("[worker 1] result: "))));
  EXPECT_EQ(names_in(directory / "model"),
            (std::set<std::string>{"digits.safetensors", "export", "history.svg", "logs"}));
}

// With dropout two workers draw other numbers than one; a run that was stopped draws the same.
TEST(KerasProgram, ARunThatCtrlCStoppedContinuesWithTheSameBits) {
  until_in_time([] {
    const TempDirectory directory;
    const Words command = muster_run({"--workers=2"}, program(directory / "stopped", 8));
    {
      Program stopped(command);
      stopped.wait_for("epoch 1/8");
      stopped.signal(SIGINT);
      const int code = stopped.wait();
      if (stopped.output().find("epoch 8/8") != std::string::npos) return false;
      EXPECT_EQ(code, 130) << stopped.output();
      EXPECT_THAT(stopped.output(), HasSubstr("stopped by Ctrl-C after saving step"));
    }
    const Ran again = run(command);
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_THAT(again.output, HasSubstr("fit continues at"));
    const Ran whole = run(muster_run({"--workers=2"}, program(directory / "whole", 8)));
    EXPECT_EQ(result(again), result(whole)) << again.output << whole.output;
    return true;
  });
}

// keras_mnist on digits() as the tasks of a cluster with a parameter server: 32 steps an epoch.
class ServedKeras : public ServedTasks {
 public:
  ServedKeras(int workers, int epochs)
      : ServedTasks(workers, /*servers=*/1, [&](const std::string& model_dir) {
          Words words = program(model_dir, epochs);
          words.push_back("--strategy=parameter_server");
          words.push_back("--patience=" + std::to_string(epochs));
          return words;
        }) {}
};

constexpr int kMakeSeveral = 40;  // epochs: long enough for a worker to come back
constexpr int kNeverEnding = 100000;

TEST(KerasOnServers, TheClusterAsOneCommandTrainsOneModelWhichTheChiefSaves) {
  const TempDirectory directory;
  Words served = program(directory / "model", 3);
  served.push_back("--strategy=parameter_server");
  const Ran ran = run(muster_run({"--chief", "--workers=2", "--ps=1"}, served));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_GT(result(ran).at("accuracy").get<double>(), 0.8) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("epoch 3/3"));
  EXPECT_EQ(names_in(directory / "model"),
            (std::set<std::string>{"digits.safetensors", "export", "history.svg", "logs"}));
}

TEST(KerasOnServers, WhatAKilledWorkerHadIsMadeByOthersAndItTakesPartAgain) {
  until_in_time([] {
    ServedKeras run(/*workers=*/2, kMakeSeveral);
    if (!run.task("worker1").says("runs calls for the chief")) return false;
    run.task("chief0").wait_for("epoch 1/");
    if (!run.replace("worker", 1)) return false;
    if (!run.task("chief0").says("worker 1 was lost")) return false;
    if (!run.task("worker1").says("runs calls for the chief")) return false;
    run.expect_codes();
    const std::string output = run.task("chief0").output();
    EXPECT_THAT(output, HasSubstr(fmt::format("epoch {0}/{0}", kMakeSeveral)));
    EXPECT_GT(result({.output = output}).at("accuracy").get<double>(), 0.8) << output;
    return true;
  });
}

// The chief continues in its epoch, with the curves of the epochs before.
TEST(KerasOnServers, AKilledChiefContinuesAndSoDoesARunThatWasStopped) {
  ServedKeras run(/*workers=*/2, kNeverEnding);
  run.task("chief0").wait_for("epoch 2/");
  EXPECT_TRUE(run.replace("chief", 0));
  run.task("chief0").wait_for("fit continues at");
  run.task("chief0").wait_for("epoch ");
  EXPECT_THAT(run.task("chief0").output(), Not(HasSubstr("epoch 1/")));
  run.stop();
  for (const auto& [type, count] : {std::pair{"ps", 1}, {"chief", 1}, {"worker", 2}}) {
    for (int index = 0; index < count; ++index) run.start(type, index);
  }
  run.task("chief0").wait_for("continuing after step");
  run.task("chief0").wait_for("fit continues at");
  run.stop();
}

// Nothing is saved from the second epoch on, and the servers have gone on.
TEST(KerasOnServers, AChiefKilledAfterBackupsThatFailedTrainsNoEpochAgain) {
  constexpr int kEpochs = 60, kSteps = 4;
  until_in_time([] {
    const TempDirectory directory;
    const std::string failing = directory / "failing";
    ServedTasks run(/*workers=*/1, /*servers=*/1, [&](const std::string& model_dir) {
      return Words{"env", "FAULT_KERAS=" + failing, binary("fault_victim"),
                   "--model_dir=" + model_dir, "--epochs=" + std::to_string(kEpochs)};
    });
    run.task("chief0").wait_for("epoch 2/");
    write_file(failing, "");
    run.task("chief0").wait_for("allowed failures in a row");
    if (!run.task("chief0").says("epoch 20/")) return false;
    if (!run.replace("chief", 0)) return false;
    run.task("chief0").wait_for("from the state that the parameter servers hold");
    std::filesystem::remove(failing);
    run.expect_codes();
    const std::string output = run.task("chief0").output();
    EXPECT_THAT(output, AllOf(ContainsRegex("epochs [0-9]+ to [0-9]+ were made since"),
                              Not(HasSubstr("epoch 19/"))));
    // A step that counted just before the chief was lost is made once more.
    const json told = result({.output = output});
    EXPECT_GE(told.at("global_step"), kEpochs * kSteps) << output;
    EXPECT_LE(told.at("global_step"), kEpochs * kSteps + 1) << output;
    EXPECT_LE(told.at("epochs_known"), kEpochs - 10) << output;
    return true;
  });
}

TEST(KerasOnServers, AfterTheLossOfAServerItContinuesFromTheLastBackup) {
  ServedKeras run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 2/");
  run.replace_server_and_chief();
  run.task("chief0").wait_for("fit continues at");
  run.task("chief0").wait_for("epoch ");
  EXPECT_THAT(run.task("worker0").output(), HasSubstr("will rejoin the run"));
  run.stop();
}

TEST(KerasOnServers, AServerThatIsToldToStopLeavesWhenTheChiefHasMadeABackup) {
  ServedKeras run(/*workers=*/1, kNeverEnding);
  run.task("chief0").wait_for("epoch 2/");
  run.task("ps0").signal(SIGTERM);
  EXPECT_EQ(run.task("ps0").wait(), 143) << run.task("ps0").output();
  EXPECT_THAT(run.task("ps0").output(), HasSubstr("ps 0 has to stop, and the chief has saved"));
  EXPECT_EQ(run.task("chief0").wait(), 138) << run.task("chief0").output();
  run.start("ps", 0);
  run.start("chief", 0);
  run.task("chief0").wait_for("fit continues at");
  EXPECT_THAT(run.task("chief0").output(), Not(HasSubstr("fit continues at epoch 1 ")));
  run.task("chief0").wait_for("epoch ");
  run.stop();
}

// Folders of photos of two classes, which differ only in noise: they have to be learned by heart.
std::string write_photos(const std::string& folder) {
  uint64_t seed = 0;
  for (const char* name : {"train/ants/", "train/bees/", "val/ants/", "val/bees/"}) {
    for (const char* photo : {"a.jpg", "b.jpg", "c.jpg"})
      end_to_end::write_photo(folder + "/" + name + photo, ++seed);
  }
  return folder;
}

TEST(ResNetProgram, TwoWorkersAreStoppedContinueAndClassifyPhotos) {
  const TempDirectory directory;
  const std::string photos = write_photos(directory / "photos");
  const auto program = [&](const std::string& job, int epochs) {
    return Words{binary("resnet50"),
                 "--data_dir=" + photos,
                 "--job-dir=" + directory / job,
                 "--depth=18",
                 "--image_size=32",
                 "--batch_size=32",
                 "--epochs=" + std::to_string(epochs)};
  };
  const Ran whole = run(muster_run({"--workers=2"}, program("whole", 3)));
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(
      names_in(directory / "whole"),
      (std::set<std::string>{"export", "history.svg", "job.json", "logs", "weights.safetensors"}));
  // Lines about the input are printed once, however many epochs there are.
  const size_t told = whole.output.find("rows are divided, as asked");
  EXPECT_NE(told, std::string::npos) << whole.output;
  EXPECT_EQ(whole.output.find("rows are divided, as asked", told + 1), std::string::npos);
  until_in_time([&] {
    std::filesystem::remove_all(directory / "stopped");
    {
      Program stopped(muster_run({"--workers=2"}, program("stopped", 3)));
      stopped.wait_for("epoch 1/3");
      stopped.signal(SIGINT);
      const int code = stopped.wait();
      if (stopped.output().find("epoch 3/3") != std::string::npos) return false;
      EXPECT_EQ(code, 130) << stopped.output();
    }
    const Ran again = run(muster_run({"--workers=2"}, program("stopped", 3)));
    EXPECT_EQ(again.code, 0) << again.output;
    EXPECT_THAT(again.output, HasSubstr("fit continues at"));
    EXPECT_EQ(result(again), result(whole)) << again.output << whole.output;
    return true;
  });

  const Words classify{binary("resnet50"), "--job-dir=" + directory / "whole",
                       "--classify=" + photos + "/val"};
  const Ran classified = run(classify);
  EXPECT_EQ(classified.code, 0) << classified.output;
  EXPECT_THAT(classified.output, ContainsRegex("c.jpg: (ants|bees) \\([0-9]+ %\\)"));
  // Saved weights begin another run; of the network, the classes alone are made again.
  Words tuned = program("tuned", 1);
  tuned.push_back("--weights=" + directory / "whole/weights.safetensors");
  tuned.push_back("--freeze=conv.*");
  const Ran ran = run(tuned);
  EXPECT_EQ(ran.code, 0) << ran.output;
  Words other = program("other", 1);
  other.push_back("--depth=19");
  EXPECT_EQ(run(other).code, 2);
  const Ran done = run(program("whole", 4));
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.output, HasSubstr("holds a job that is done"));
}

}  // namespace
}  // namespace muster::testing
