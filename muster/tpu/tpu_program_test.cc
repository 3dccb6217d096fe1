// The example `mirrored` on devices of XLA. Each run is a process of its own, because a process has
// either several devices or one that joins them. MUSTER_PYTHON names the Python with the packages;
// without it these tests are skipped. `./dev check xla` runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/exit_code.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/launch/subprocess.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// A step's sums are made in another order there. Float32 rounds at 6e-8, and thirty steps of a
// small model amplify this.
constexpr double kRounding = 1e-5;

double largest_difference(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  double largest = 0;
  for (const auto& [name, left] : a.tensors) {
    const Tensor right = b.tensors.at(name).to(kFloat64);
    const double size = right.abs().max().item<double>();
    const double error = (left.to(kFloat64) - right).abs().max().item<double>();
    largest = std::max(largest, size > 0 ? error / size : error);
  }
  return largest;
}

class TpuProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("MUSTER_PYTHON") == nullptr)
      GTEST_SKIP() << "MUSTER_PYTHON is not set: ./dev check xla runs this with the packages";
  }

  static std::string binary(const std::string& name) {
    const char* const folder = std::getenv("MUSTER_BIN_DIR");
    EXPECT_NE(folder, nullptr) << "run this test through ctest";
    return std::string(folder != nullptr ? folder : "") + "/" + name;
  }

  // Runs a command with these variables, "NAME=value", on top of ours.
  launch::CompletedProcess run(const Words& variables, const Words& command) {
    Words all{"env", "TF_CPP_MIN_LOG_LEVEL=2", "PJRT_DEVICE=CPU"};
    all.insert(all.end(), variables.begin(), variables.end());
    all.insert(all.end(), command.begin(), command.end());
    return launch::run_to_end(all, std::chrono::seconds(200));
  }

  // Trains `mirrored` in the folder `name`, and returns its last checkpoint. Fails the test unless
  // the program ends with 0.
  Checkpoint train(const std::string& name, const std::string& strategy, int devices,
                   int max_steps = 30) {
    const launch::CompletedProcess ran =
        run({"CPU_NUM_DEVICES=" + std::to_string(devices)},
            {binary("mirrored"), "--model_dir=" + (folder_ / name), "--strategy=" + strategy,
             "--max_steps=" + std::to_string(max_steps), "--predict=130"});
    EXPECT_TRUE(ran.status.ok()) << name << ": " << explain(ran.status) << "\n" << ran.err;
    said_ = ran.err;
    const size_t begin = ran.out.find("result: ");
    EXPECT_NE(begin, std::string::npos) << name << ": " << ran.out << ran.err;
    if (begin != std::string::npos) {
      const size_t end = ran.out.find('\n', begin);
      result_ = json::parse(ran.out.substr(begin + 8, end - begin - 8));
      classes_ = ran.out.substr(end);
    }
    const auto loaded = CheckpointManager(folder_ / name).load_latest();
    EXPECT_TRUE(loaded) << name;
    return loaded ? loaded->checkpoint : Checkpoint();
  }

  TempDirectory folder_;
  // Of the last run: the evaluation, the classes of 130 examples, a line each, and its log.
  json result_;
  std::string classes_, said_;
};

TEST_F(TpuProgramTest, OneTwoAndFourChipsTrainWhatTheCpuTrains) {
  const Checkpoint cpu = train("cpu", "one_device", 1);
  const json expected = result_;
  const std::string classes = classes_;
  EXPECT_THAT(classes, AllOf(HasSubstr("class: 0"), HasSubstr("class: 1")));
  for (const int chips : {1, 2, 4}) {
    const Checkpoint tpu = train("tpu" + std::to_string(chips), "tpu", chips);
    EXPECT_LT(largest_difference(tpu, cpu), kRounding) << chips;
    EXPECT_NEAR(result_.at("loss").get<double>(), expected.at("loss").get<double>(), kRounding);
    EXPECT_EQ(result_.at("accuracy"), expected.at("accuracy"));
    EXPECT_EQ(classes_, classes) << chips;
    EXPECT_THAT(said_, HasSubstr(chips == 1 ? "TPU: 1 chip of this process computes as one replica"
                                            : "chips of this process compute as one replica"));
  }
}

TEST_F(TpuProgramTest, TwoAndFourReplicasOnDevicesOfTheirOwn) {
  const Checkpoint cpu = train("cpu", "one_device", 1);
  EXPECT_LT(largest_difference(train("one", "one_device:xla:0", 1), cpu), kRounding);
  EXPECT_LT(largest_difference(train("two", "mirrored:xla:0,xla:1", 2), cpu), kRounding);
  EXPECT_LT(largest_difference(train("four", "mirrored:xla", 4), cpu), kRounding);
}

TEST_F(TpuProgramTest, TwoProcessesAddTheirGradients) {
  const Checkpoint cpu = train("cpu", "one_device", 1);
  const launch::CompletedProcess ran = run(
      {}, {binary("muster"), "run", "--workers=2", "--", binary("mirrored"),
           "--model_dir=" + (folder_ / "two"), "--strategy=multi_worker:xla", "--max_steps=30"});
  EXPECT_TRUE(ran.status.ok()) << explain(ran.status) << "\n" << ran.out << ran.err;
  EXPECT_LT(largest_difference(CheckpointManager(folder_ / "two").load_latest()->checkpoint, cpu),
            kRounding);
}

TEST_F(TpuProgramTest, ARunContinuesOnTheCpuAndOnOtherChips) {
  const Checkpoint whole = train("whole", "one_device", 1, 30);
  train("parts", "tpu", 4, 10);
  train("parts", "one_device", 1, 20);
  EXPECT_LT(largest_difference(train("parts", "tpu", 2, 30), whole), kRounding);
}

// Python runs this file when it starts. It makes torch_xla report, once and in worker 1, what its
// runtime reports of a device that was lost.
constexpr const char* kLosesADevice = R"py(
import os, sys

def watch(event, arguments):
    if event != "import" or arguments[0] != "torch_xla._internal.tpu":
        return
    library = sys.modules["_XLAC"]
    if hasattr(library, "watched"):
        return
    library.watched = True
    run, calls = library._xla_step_marker, 0

    def run_or_lose(*arguments, **named):
        nonlocal calls
        calls += 1
        lost = os.environ["LOST_DEVICE"]
        if calls == 9 and '"index":1' in os.environ["TF_CONFIG"].replace(" ", "") and not os.path.exists(lost):
            open(lost, "w").close()
            raise RuntimeError("Bad StatusOr access: UNAVAILABLE: the chip was taken away")
        return run(*arguments, **named)

    library._xla_step_marker = run_or_lose

sys.addaudithook(watch)
)py";

TEST_F(TpuProgramTest, ADeviceThatIsLostIsNamedAndTheRunContinues) {
  const Checkpoint cpu = train("cpu", "one_device", 1);
  std::filesystem::create_directories(folder_ / "site");
  std::ofstream(folder_ / "site/sitecustomize.py") << kLosesADevice;
  const Words variables{"PYTHONPATH=" + (folder_ / "site"), "LOST_DEVICE=" + (folder_ / "lost")};
  const Words program{"--", binary("mirrored"), "--model_dir=" + (folder_ / "two"),
                      "--strategy=multi_worker:xla", "--max_steps=30"};
  Words command{binary("muster"), "run", "--workers=2"};
  command.insert(command.end(), program.begin(), program.end());
  const launch::CompletedProcess lost = run(variables, command);
  EXPECT_EQ(lost.status.code, kExitRestart) << explain(lost.status) << lost.out << lost.err;
  EXPECT_THAT(lost.out + lost.err,
              AllOf(HasSubstr("xla:0 failed: UNAVAILABLE: the chip was taken away; after step "),
                    HasSubstr(" on worker 1"), HasSubstr("continue from the last checkpoint")));

  std::filesystem::remove(folder_ / "lost");
  std::filesystem::remove_all(folder_ / "two");
  command.insert(command.begin() + 2, "--restart=1");
  const launch::CompletedProcess ran = run(variables, command);
  EXPECT_TRUE(ran.status.ok()) << explain(ran.status) << ran.out << ran.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "lost"));
  EXPECT_LT(largest_difference(CheckpointManager(folder_ / "two").load_latest()->checkpoint, cpu),
            kRounding);
}

// libtpu may be installed or not: the program says what is missing before it starts that.
TEST_F(TpuProgramTest, AMachineWithoutAChipIsToldSo) {
  const launch::CompletedProcess ran =
      run({"PJRT_DEVICE=TPU", "TPU_WORKER_ID=0", "TPU_WORKER_HOSTNAMES=localhost"},
          {binary("mirrored"), "--model_dir=" + (folder_ / "m"), "--strategy=tpu"});
  EXPECT_FALSE(ran.timed_out);
  EXPECT_EQ(ran.status.code, kExitWrongUse) << explain(ran.status);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("this machine has no chip of a TPU"),
                             HasSubstr("set PJRT_DEVICE=CPU")));
}

TEST_F(TpuProgramTest, AWrongEnvironmentIsNamed) {
  std::ofstream(folder_ / "file") << "not a folder";
  const std::string cache = "XLA_PERSISTENT_CACHE_PATH=" + (folder_ / "file");
  for (const auto& [variable, message] :
       {std::pair<std::string, std::string>{"PJRT_DEVICE=CUDA", "PJRT_DEVICE is CUDA"},
        {"CPU_NUM_DEVICES=none", "CPU_NUM_DEVICES is 'none'"},
        {cache, "XLA_PERSISTENT_CACHE_PATH: "}}) {
    const launch::CompletedProcess ran =
        run({variable},
            {binary("mirrored"), "--model_dir=" + (folder_ / "m"), "--strategy=one_device:xla:0"});
    EXPECT_EQ(ran.status.code, kExitWrongUse) << explain(ran.status) << ran.err;
    EXPECT_THAT(ran.err, AllOf(HasSubstr("devices of XLA: " + message), HasSubstr("hint: set")));
  }
}

TEST_F(TpuProgramTest, APythonWithoutThePackagesIsNamed) {
  const launch::CompletedProcess ran =
      run({"MUSTER_PYTHON=/none/python3"},
          {binary("mirrored"), "--model_dir=" + (folder_ / "m"), "--strategy=tpu"});
  EXPECT_EQ(ran.status.code, kExitWrongUse) << explain(ran.status);
  EXPECT_THAT(ran.err, HasSubstr("/none/python3 is not a Python that runs"));
}

}  // namespace
}  // namespace muster::inline v0_1
