// Loops of LibTorch through data_parallel(), as processes: they reach what they promise, and a run
// whose worker is killed goes on with the bits of one that nobody touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// "rows ... weights ..." of each step and rank in what loop_data_program printed. Fails where a
// step was made again in another way.
std::map<std::pair<int, int>, std::string> steps_of(const std::string& output) {
  std::map<std::pair<int, int>, std::string> steps;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find("step "), rank = line.find(" rank "), rows = line.find(" rows ");
    if (begin == std::string::npos || rank == std::string::npos || rows == std::string::npos)
      continue;
    const std::pair key(std::stoi(line.substr(begin + 5)), std::stoi(line.substr(rank + 6)));
    const std::string made = line.substr(rows + 1);
    const auto [known, is_new] = steps.emplace(key, made);
    EXPECT_EQ(known->second, made) << "step " << key.first << " of worker " << key.second;
  }
  return steps;
}

TEST(LibTorchLoop, ARunWhoseWorkerIsKilledGoesOnWithTheSameBits) {
  const TempDirectory directory;
  const auto loop = [&](const std::string& model, const std::string& steps) {
    return Words{binary("libtorch_loop"), digits(), directory / model, steps};
  };
  const Ran whole = run(muster_run({"--workers=2"}, loop("whole", "300")));
  EXPECT_EQ(whole.code, 0) << whole.output;
  const double loss = number_behind(whole.output, "step 300  loss ");
  EXPECT_GT(number_behind(whole.output, "accuracy "), 0.9);

  Program killed(muster_run({"--workers=2", "--restart=3"}, loop("killed", "300")));
  killed.wait_for("step 100 ");
  killed.signal_task("worker", 1, SIGKILL);
  EXPECT_EQ(killed.wait(), 0) << killed.output();
  EXPECT_THAT(killed.output(), AllOf(HasSubstr("restored "), HasSubstr("step 300  loss ")));
  EXPECT_EQ(number_behind(killed.output(), "step 300  loss "), loss) << killed.output();

  // One worker continues what two have begun.
  const Ran alone = run(loop("whole", "400"));
  EXPECT_EQ(alone.code, 0) << alone.output;
  EXPECT_THAT(alone.output, AllOf(HasSubstr("continuing after step 300"), HasSubstr("step 400 ")));
}

TEST(LibTorchLoop, ARunWhoseWorkerIsKilledReadsEachExampleOnceInAPass) {
  const TempDirectory directory;
  constexpr int kSteps = 70, kStepsOfAPass = 7, kExamples = 50;
  const auto loop = [&](const std::string& name) {
    return Words{binary("loop_data_program"), directory / name, std::to_string(kSteps)};
  };
  const Ran whole = run(muster_run({"--workers=2"}, loop("whole")));
  EXPECT_EQ(whole.code, 0) << whole.output;
  const auto expected = steps_of(whole.output);
  for (int pass = 0; pass < kSteps / kStepsOfAPass; ++pass) {
    std::multiset<int> read;
    for (const auto& [key, made] : expected) {
      if ((key.first - 1) / kStepsOfAPass != pass) continue;
      std::istringstream words(made.substr(5));
      for (int row = 0; words >> row;) read.insert(row);
    }
    EXPECT_EQ(read.size(), size_t(kExamples)) << whole.output;
    EXPECT_EQ(std::set<int>(read.begin(), read.end()).size(), size_t(kExamples));
  }

  until_in_time([&] {
    const TempDirectory again;
    const Words program{binary("loop_data_program"), again / "killed", std::to_string(kSteps)};
    Program killed(muster_run({"--workers=2", "--restart=3"}, program));
    killed.wait_for("step 37 rank 1");
    const bool in_time = killed.signal_task("worker", 1, SIGKILL);
    EXPECT_EQ(killed.wait(), 0) << killed.output();
    if (!in_time || killed.output().find("restored ") == std::string::npos) return false;
    EXPECT_EQ(steps_of(killed.output()), expected) << killed.output();
    return true;
  });
}

TEST(LibTorchLoop, AdversariesLearnTheRingOnTwoWorkers) {
  const Ran two = run(muster_run({"--workers=2"}, {binary("gan")}));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_NEAR(number_behind(two.output, "distance from the center "), 2, 0.3) << two.output;
}

TEST(LibTorchLoop, APolicyLearnsToBalanceOnTwoWorkers) {
  const Ran two = run(muster_run({"--workers=2"}, {binary("ppo")}));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_LT(number_behind(two.output, "round 1  an episode lasts "), 40) << two.output;
  EXPECT_GT(number_behind(two.output, "round 20  an episode lasts "), 150) << two.output;
  const Ran one = run({binary("ppo")});
  EXPECT_EQ(one.code, 0) << one.output;
  for (const std::string round : {"1", "5", "10"}) {
    const std::string line = "round " + round + "  an episode lasts ";
    EXPECT_EQ(number_behind(two.output, line), number_behind(one.output, line)) << round;
  }
}

// The numbers of one worker, and a run that continues where its reader was.
TEST(LibTorchLoop, AReaderAndAMainOfOnesOwnGiveTheNumbersOfOneWorker) {
  const TempDirectory directory;
  const auto loop = [&](const std::string& model, const std::string& steps) {
    return Words{binary("own_reader"), directory / "rows.txt", directory / model, steps};
  };
  const Ran one = run(loop("one", "200"));
  EXPECT_EQ(one.code, 0) << one.output;
  EXPECT_NEAR(number_behind(one.output, "weights "), 2, 0.02) << one.output;

  // In the middle of a pass over the file.
  EXPECT_EQ(run(muster_run({"--workers=2"}, loop("two", "90"))).code, 0);
  const Ran two = run(muster_run({"--workers=2"}, loop("two", "200")));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, HasSubstr("continuing after step 90"));
  EXPECT_THAT(two.output, HasSubstr(one.output.substr(one.output.find("weights "))));
  EXPECT_EQ(number_behind(two.output, "step 200  loss "),
            number_behind(one.output, "step 200  loss "));
}

}  // namespace
}  // namespace muster::testing
