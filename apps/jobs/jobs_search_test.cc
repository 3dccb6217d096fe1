// A search of `muster submit` as a user meets it, with trials that are scripts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "apps/jobs/search_commands.h"

namespace muster::app {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The search's own tests are in search_run_test.cc; here real jobs of this machine are its trials.
TEST_F(SearchCommandTest, AConfigurationWithHyperparametersIsASearch) {
  program("[[ $TF_CONFIG == *'\"trial\":\"'$CLOUD_ML_TRIAL_ID'\"'* ]] || exit 2; exit 3");
  write(
      "search.yaml",
      "scaleTier: BASIC\nhyperparameters:\n  goal: MAXIMIZE\n  maxTrials: 2\n  maxFailedTrials: 9\n"
      "  algorithm: GRID_SEARCH\n  params:\n"
      "  - {parameterName: x, type: INTEGER, minValue: 1, maxValue: 2}\n");
  const ShellOutput ran = muster("submit --config=search.yaml --job-dir=tune --name=tune ./train");
  EXPECT_EQ(ran.code, 1) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("trial 1 failed: exit code 3"),
                              HasSubstr("trial 2 failed as trial 1 did; its log: "),
                              Not(HasSubstr("search.svg"))));
  EXPECT_EQ(status("tune")["state"], "failed");
}

TEST_F(SearchCommandTest, ASearchTellsOfItsTrials) {
  write("search.yaml", search_of(3, 3));
  program(std::string("echo \"values: $*\"\n[ $CLOUD_ML_TRIAL_ID = 2 ] && { echo 'error: no "
                      "more memory' >&2; exit 1; }\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune ./train -- --epochs=2";
  const ShellOutput planned = muster(
      "submit --dry-run --config=search.yaml --job-dir=tune "
      "./train -- --epochs=2");
  EXPECT_EQ(planned.code, 0) << planned.text;
  EXPECT_THAT(planned.text,
              AllOf(HasSubstr("# a search: 3 trials, 3 at a time; the largest score is best\n"),
                    HasSubstr("GRID_SEARCH"), HasSubstr("#   x: INTEGER 1 to 9\n"),
                    HasSubstr("/train --epochs=2 --x=3 --job-dir tune/3\n")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "state"));

  const ShellOutput ran = muster(command);
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text,
              AllOf(HasSubstr("trial 2 failed: exit code 1: error: no more memory; its log: muster "
                              "jobs logs --task=trial-2 train-1\n"),
                    HasSubstr("failed: exit code 1: error: no more memory\n"),
                    HasSubstr("the best is trial 3"), HasSubstr("muster jobs logs train-1\n")));
  const std::string logs = muster("jobs logs train-1").text;
  EXPECT_THAT(logs,
              AllOf(HasSubstr("[trial-1] [chief-0] values: --epochs=2 --x=1 --job-dir tune/1\n"),
                    HasSubstr("[trial-3] [chief-0] values: --epochs=2 --x=3")));
  EXPECT_THAT(
      muster("jobs logs --follow --task=trial-2 train-1").text,
      AllOf(HasSubstr("[trial-2] [chief-0] error: no more memory\n"), Not(HasSubstr("trial-1"))));
  EXPECT_THAT(muster("jobs logs --task=trial-1/chief-0 train-1").text,
              StartsWith("[trial-1] values: "));
  EXPECT_THAT(muster("jobs logs --task=trial-4 train-1").text, HasSubstr("has no task 'trial-4'"));
  for (const char* follow : {"", "--follow "}) {
    EXPECT_THAT(muster("jobs logs " + std::string(follow) + "--task=trial-1/worker-0 train-1").text,
                HasSubstr("the job train-1 has no task 'trial-1/worker-0'; it has "
                          "'trial-1/chief-0'"));
  }
  EXPECT_EQ(status("train-1")["trials"][1]["failure"], "exit code 1: error: no more memory");
  EXPECT_THAT(muster("jobs status train-1").text, HasSubstr("error: no more memory\n"));

  const ShellOutput other = muster("submit --config=search.yaml --job-dir=tune ./train");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("error: the folder tune holds a search that runs "));
  EXPECT_EQ(status("train-1")["state"], "succeeded");  // what was refused has changed nothing
}

TEST_F(SearchCommandTest, TheLogsOfASearchAreFollowedFromTrialToTrial) {
  write("search.yaml", search_of(2, 1));
  // At most 60 s, should nobody follow.
  program(std::string("for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n"
                      "echo \"this is $CLOUD_ML_TRIAL_ID\"\n") +
          kReport);
  std::thread search([&] {
    EXPECT_EQ(muster("submit --config=search.yaml --job-dir=tune --name=tune ./train").code, 0);
  });
  ASSERT_TRUE(appears("state/muster/jobs/tune/trials/1/record.json"));
  EXPECT_THAT(muster("submit --config=search.yaml --job-dir=tune ./train").text,
              HasSubstr("is that of the job tune, which is running"));
  std::thread follower([&] {
    const ShellOutput followed = muster("jobs logs --follow tune");
    EXPECT_EQ(followed.code, 0) << followed.text;
    EXPECT_THAT(followed.text,
                AllOf(HasSubstr("[trial-1] [chief-0] this is 1\n"),
                      HasSubstr("[trial-2] [chief-0] this is 2\n"), HasSubstr("tune succeeded")));
  });
  write("go", "");
  search.join();
  follower.join();
  EXPECT_THAT(muster("submit --config=search.yaml --job-dir=tune --name=tune ./train").text,
              HasSubstr("all 2 trials of the search have ended"));
}

// A trial that begins again has a new log; following the search shows it too.
TEST_F(SearchCommandTest, TheLogOfATrialThatBeginsAnewIsFollowed) {
  write("search.yaml", search_of(1, 1));
  program(std::string("[ -e began ] && echo again || echo first; touch began\n"
                      // At most 60 s, should the test not come to its end.
                      "for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread first([&] { EXPECT_EQ(muster(command).code, 137); });
  ASSERT_TRUE(appears("began"));
  ShellOutput followed;
  std::thread follower([&] { followed = muster("jobs logs -f tune > followed 2>&1"); });
  const auto printed = [&](const std::string& word) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (read("followed").find(word) == std::string::npos) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(10ms);  // another process prints when it comes to it
    }
    return true;
  };
  EXPECT_TRUE(printed("first"));
  kill_search("tune");
  std::thread second([&] { EXPECT_EQ(muster(command).code, 0); });
  EXPECT_TRUE(printed("again"));
  write("go", "");
  for (std::thread* one : {&first, &second, &follower}) one->join();
  EXPECT_EQ(followed.code, 0) << read("followed");
  EXPECT_THAT(read("followed"),
              AllOf(HasSubstr("[trial-1] [chief-0] first\n"),
                    HasSubstr("[trial-1] [chief-0] again\n"), HasSubstr("tune succeeded")));
}

// Trials may take long to save.
TEST_F(SearchCommandTest, ASecondInterruptSaysThatTrialsRunOn) {
  write("search.yaml", search_of(1, 1));
  // At most 60 s, should the test not come to its end.
  program(std::string("trap '' INT TERM; touch began\n"
                      "for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread first([&] { EXPECT_EQ(muster(command + " > out 2>&1").code, 130); });
  ASSERT_TRUE(appears("began"));
  const auto record = nlohmann::json::parse(read(state_ + "/muster/jobs/tune/record.json"))["id"];
  const int search = std::stoi(record.get<std::string>());
  ASSERT_EQ(kill(search, SIGINT), 0);
  // For 60 s at most.
  for (int i = 0; i < 6000 && read("out").find("stopping 1 trials") == std::string::npos; ++i)
    std::this_thread::sleep_for(10ms);  // another process prints when it comes to it
  ASSERT_EQ(kill(search, SIGINT), 0);
  first.join();
  EXPECT_THAT(read("out"), HasSubstr("ended at once; its trials continue to run"));
  write("go", "");
  EXPECT_EQ(muster(command).code, 0);
}

TEST_F(SearchCommandTest, AValueThatIsSearchedIsNotGivenByHand) {
  write("search.yaml", search_of(2, 1));
  program("touch ran");
  for (const char* words : {"--x=3", "--x 3"}) {
    for (const char* how : {"", "--dry-run "}) {
      const ShellOutput ran = muster(std::string("submit ") + how +
                                     "--config=search.yaml --job-dir=tune ./train -- " + words);
      EXPECT_EQ(ran.code, 2) << ran.text;
      EXPECT_THAT(ran.text, HasSubstr("the arguments contain --x, but the search sets it in each"));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(directory_ / "ran"));
}

// It is no way to leave trials out.
TEST_F(SearchCommandTest, FewerTrialsThanThereAreIsSaid) {
  write("search.yaml", search_of(3, 3));
  program(kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  EXPECT_EQ(muster(command).code, 0);
  const ShellOutput ran = muster(command + " --max-trials=2");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, HasSubstr("maxTrials is 2, but 3 trials of the search have already begun"));
}

TEST_F(SearchCommandTest, AWrongCommandLineEndsASearch) {
  write("search.yaml", search_of(9, 1));
  program("echo run >> runs; echo 'error: --x is not a flag of train' >&2; exit 2");
  const ShellOutput ran = muster("submit --config=search.yaml --job-dir=tune ./train");
  EXPECT_EQ(ran.code, 2) << ran.text;
  EXPECT_THAT(ran.text,
              HasSubstr("trial 1 failed as all would, by a wrong argument or something that was "
                        "not found: exit code 2: error: --x is not a flag of train\n"));
  // The table does not say so again, and nothing is drawn.
  EXPECT_THAT(ran.text, AllOf(HasSubstr("failed: exit code 2\n"), Not(HasSubstr("search.svg"))));
  EXPECT_EQ(read("runs"), "run\n");
}

// The process that runs a search is killed, and its trials cannot know.
TEST_F(SearchCommandTest, ASearchThatWasKilledStartsNoTrialBesideItself) {
  write("search.yaml", search_of(2, 2));
  // Each holds a folder while it runs, and notes when another one has it.
  program(std::string("echo $$ >> pids-$CLOUD_ML_TRIAL_ID\n"
                      "mkdir running-$CLOUD_ML_TRIAL_ID || touch twice\n"
                      "trap 'rmdir running-$CLOUD_ML_TRIAL_ID; exit 143' TERM\n"
                      "touch began-$CLOUD_ML_TRIAL_ID\n"
                      // At most 60 s, should the test not come to its end.
                      "for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n") +
          kReport + "rmdir running-$CLOUD_ML_TRIAL_ID\n");
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread first([&] { EXPECT_EQ(muster(command).code, 137); });
  ASSERT_TRUE(appears("began-1") && appears("began-2"));
  kill_search("tune");
  first.join();
  EXPECT_THAT(muster("jobs status tune").text,
              AllOf(HasSubstr("2 of its trials run on"), HasSubstr("  running\n"),
                    Not(HasSubstr("interrupted"))));
  EXPECT_THAT(muster("jobs remove tune").text, HasSubstr("error: trials of tune are running"));

  std::thread second([&] {
    const ShellOutput ran = muster(command);
    EXPECT_EQ(ran.code, 0) << ran.text;
    EXPECT_THAT(ran.text, AllOf(HasSubstr("ending trials that continued to run after tune: 2"),
                                HasSubstr("continuing the search: 0 of 2 trials have ended")));
  });
  const auto starts = [&](const std::string& trial) {
    return std::ranges::count(read("pids-" + trial), '\n');
  };
  const auto end = std::chrono::steady_clock::now() + 60s;
  // Trials tell of their start by a line in a file, which is looked at now and then.
  while ((starts("1") < 2 || starts("2") < 2) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(20ms);
  write("go", "");
  second.join();
  EXPECT_EQ(starts("1"), 2);
  EXPECT_EQ(starts("2"), 2);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "twice"));
  EXPECT_EQ(muster("jobs remove tune").code, 0);
}

TEST_F(SearchCommandTest, ASearchThatIsCancelledIsEndingUntilItsTrialsHaveSaved) {
  write("search.yaml", search_of(1, 1));
  program(std::string("[ -e go ] || { trap 'until [ -e go ]; do sleep 0.02; done; exit 143' TERM\n"
                      "touch began\n"
                      // At most 60 s, should the test not come to its end.
                      "for i in {1..1200}; do sleep 0.05; done; }\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread search([&] { EXPECT_EQ(muster(command).code, 130); });
  ASSERT_TRUE(appears("began"));
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  EXPECT_EQ(status("tune")["state"], "ending");
  // A second request kills nothing: the process lives until the trials have saved.
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  EXPECT_EQ(status("tune")["state"], "ending");
  EXPECT_THAT(muster("jobs remove tune").text, HasSubstr("error: tune is ending"));
  EXPECT_THAT(muster(command).text, HasSubstr("is that of the job tune, which is ending"));
  const ShellOutput dry = muster("submit --dry-run " + command.substr(7));
  EXPECT_EQ(dry.code, 0);
  EXPECT_THAT(dry.text, AllOf(HasSubstr("this search cannot be run: the job directory tune is "
                                        "that of the job tune, which is ending"),
                              HasSubstr("# a search: 1 trials")));
  write("go", "");
  search.join();
  EXPECT_EQ(status("tune")["state"], "cancelled");
  // What was asked of the one before is not asked of the one that continues.
  EXPECT_EQ(muster(command).code, 0);
  EXPECT_EQ(status("tune")["state"], "succeeded");
}

// Of two that continue with a search that was killed one does, and no trial runs twice.
TEST_F(SearchCommandTest, OfTwoThatGoOnAtATimeOneDoes) {
  write("search.yaml", search_of(1, 1));
  program(std::string("mkdir running || touch twice\n"
                      "trap 'rmdir running; exit 143' TERM\ntouch began; echo x >> starts\n"
                      // At most 60 s, should the test not come to its end.
                      "for i in {1..1200}; do [ -e go ] && break; sleep 0.05; done\n") +
          kReport + "rmdir running\n");
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread first([&] { EXPECT_EQ(muster(command).code, 137); });
  ASSERT_TRUE(appears("began"));
  kill_search("tune");
  first.join();
  const auto line = [&](const std::string& out) {
    return "{ XDG_STATE_HOME=$PWD/state " + muster_line(command) + " > " + out +
           " 2>&1; echo code $? >> " + out + "; } & ";
  };
  write("both", line("one") + line("two") + "wait -n; touch go; wait\n");
  run_shell("cd " + directory_.path() + "; bash both");
  std::string lost = read("one"), won = read("two");
  if (lost.find("code 0") != std::string::npos) std::swap(lost, won);
  EXPECT_THAT(won, HasSubstr("code 0\n"));
  EXPECT_THAT(lost,
              AllOf(HasSubstr("error: the job directory tune is that of the job tune, which "),
                    HasSubstr("code 2\n")));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "twice"));
  EXPECT_EQ(read("starts"), "x\nx\n");
}

// Wherever a search is killed, the same command continues with it, and no trial runs next to
// itself.
TEST_F(SearchCommandTest, ASearchThatIsKilledAnywhereGoesOn) {
  write("search.yaml", search_of(2, 2));
  program(std::string("cd \"${@: -1}\"; mkdir running || touch twice\n"
                      "trap 'rmdir running; exit 143' TERM\nsleep 0.1\n") +
          kReport + "rmdir running\n");
  std::string lines;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = "tune" + std::to_string(round);
    const std::string line =
        "env XDG_STATE_HOME=$PWD/state " +
        muster_line("submit --config=search.yaml --job-dir=$PWD/" + name + " ./train");
    // The time only decides where it is killed. In the foreground timeout waits until it is gone;
    // else what is still dying would hold the search when the next comes.
    const std::string when = "0." + std::to_string(1020 + 60 * round).substr(1);
    lines += "{ timeout --foreground --signal=KILL " + when + " " + line + "; " + line + " > " +
             name + ".out 2>&1; echo code $? >> " + name + ".out; } & ";
  }
  write("all", lines + "wait\n");
  run_shell("cd " + directory_.path() + "; bash all");
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = "tune" + std::to_string(round);
    EXPECT_THAT(read(name + ".out"), HasSubstr("code 0\n")) << name;
    for (const char* trial : {"/1", "/2"})
      EXPECT_FALSE(std::filesystem::exists(directory_ / name + trial + "/twice")) << name;
  }
}

TEST_F(SearchCommandTest, CorrectedArgumentsBeginTheSearchAnewInItsFolder) {
  write("search.yaml", search_of(2, 1));
  program(std::string("[[ $1 = --epochs=* ]] || { echo \"error: $1 is not a flag\"; exit 2; }\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train -- ";
  EXPECT_EQ(muster(command + "--epoch=5").code, 2);
  // The same arguments fail in the same way.
  EXPECT_EQ(muster(command + "--epoch=5").code, 2);
  EXPECT_THAT(muster("submit --dry-run " + command.substr(7) + "--epochs=5").text,
              AllOf(HasSubstr("# trial 2, in tune/2\n"), HasSubstr("--epochs=5 --x=1"),
                    HasSubstr("# what is started for trial 2\n")));
  const ShellOutput ran = muster(command + "--epochs=5");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("no trial of the earlier search in tune has a measurement: "
                                        "the search starts again, with trial 2"),
                              HasSubstr("the best is trial 3, in tune/3")));
  EXPECT_EQ(status("tune")["state"], "succeeded");
  EXPECT_EQ(status("tune")["trials"].size(), 2u);
  EXPECT_THAT(muster("jobs logs --task=trial-1 tune").text, HasSubstr("--epoch=5 is not a flag"));
  // Now that there are measurements it keeps the folder for itself.
  const ShellOutput other = muster(command + "--epochs=6");
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("hint: it began with --epochs=5, and no --epochs=6: give the "
                                    "same again, or another --job-dir\n"));
  EXPECT_THAT(muster("submit --dry-run " + command.substr(7) + "--epochs=6").text,
              HasSubstr("this search cannot be run: the folder tune holds a search"));
}

// Interrupted before it had measured anything: what it left is put aside, and is not counted.
TEST_F(SearchCommandTest, OtherArgumentsBeginAnInterruptedSearchAnew) {
  write("search.yaml", search_of(2, 1));
  program(std::string("touch \"${@: -1}/model\"; [ $1 = --slow ] && { touch began; sleep 60; }\n") +
          kReport);
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train -- ";
  std::thread first([&] { EXPECT_EQ(muster(command + "--slow").code, 130); });
  ASSERT_TRUE(appears("began"));
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  first.join();
  // Of an earlier search, whose search.json is gone.
  std::filesystem::create_directories(directory_ / "tune/before/1/older");
  const ShellOutput ran = muster(command + "--fast");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_THAT(ran.text, AllOf(HasSubstr("the search starts again, with trial 2; what its trials "
                                        "wrote is in tune/before now\n"),
                              HasSubstr("trial 2, number 1 of 2, begins: x=1\n"),
                              HasSubstr("trial 3, number 2 of 2, begins: x=2\n")));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "tune/before/1/older"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "tune/before/1-2/model"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "tune/1"));
}

// Nobody waits until the process that was killed is gone.
TEST_F(SearchCommandTest, ASearchGoesOnAtOnceAfterItWasKilled) {
  write("search.yaml", search_of(1, 1));
  program(std::string("[ -e began ] && {\n") + kReport + "exit; }\ntouch began; sleep 60\n");
  const std::string command = "submit --config=search.yaml --job-dir=tune --name=tune ./train";
  std::thread first([&] { EXPECT_EQ(muster(command).code, 137); });
  ASSERT_TRUE(appears("began"));
  kill_search("tune");
  const ShellOutput ran = muster(command);
  EXPECT_EQ(ran.code, 0) << ran.text;
  first.join();
}

TEST_F(SearchCommandTest, TrialsThatOutlivedTheirSearchAreCancelled) {
  write("search.yaml", search_of(1, 1));
  program(
      "trap 'touch saved; exit 143' TERM\ntouch began\n"
      // At most 60 s, should the test not come to its end.
      "for i in {1..1200}; do sleep 0.05; done\n");
  std::thread first([&] {
    EXPECT_EQ(muster("submit --config=search.yaml --job-dir=tune --name=tune ./train").code, 137);
  });
  ASSERT_TRUE(appears("began"));
  kill_search("tune");
  first.join();
  EXPECT_EQ(muster("jobs cancel tune").code, 0);
  EXPECT_TRUE(appears("saved"));
  EXPECT_EQ(status("tune")["state"], "cancelled");
}

}  // namespace
}  // namespace muster::app
