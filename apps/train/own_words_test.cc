#include "apps/train/own_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string hint_of(const std::string& hint) {
  return in_own_words(invalid_argument("x", hint)).hint();
}

TEST(OwnWordsTest, OptionsBecomeFlags) {
  EXPECT_EQ(hint_of("free some space there, or pass another model_dir"),
            "free some space there, or pass another --model-dir");
  EXPECT_THAT(hint_of("take a smaller learning_rate, and look at the size of labels and weights"),
              HasSubstr("sizes of the label"));
  EXPECT_THAT(hint_of("take NonFinitePolicy::kSkip, or kStop"), HasSubstr("--exclude"));
  EXPECT_THAT(hint_of("take a strategy: --strategy=parameter_server, in its source "
                      ".train_distribute = distribute::parameter_server()"),
              HasSubstr("leave --ps out"));
}

TEST(OwnWordsTest, HintsForProgramsSayThatTheyAreForPrograms) {
  for (const char* hint : {"set RunConfig.join_timeout", "check repeat() there",
                           "look at CsvOptions::columns", "give yield_single_examples"}) {
    EXPECT_THAT(hint_of(hint), HasSubstr("in a program of your own: " + std::string(hint)));
    EXPECT_THAT(hint_of(hint), HasSubstr("muster train --help"));
  }
}

TEST(OwnWordsTest, AllElseStays) {
  for (const char* hint :
       {"", "did you mean 'home_town'?", "give --quotes=false", "take --strategy=multi_worker",
        "save the file as UTF-8 (or leave it out)", "the model's file; give another --model-dir",
        "it's the reader's turn", "set TF_CONFIG in every task"}) {
    EXPECT_EQ(hint_of(hint), hint);
  }
}

TEST(OwnWordsTest, KindAndCausesStay) {
  const Error error = in_own_words(
      Error(ErrorKind::kUnavailable, "c", "another model_dir").with_context("b").with_context("a"));
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(error.message(), "a");
  EXPECT_THAT(error.causes(), ElementsAre("b", "c"));
  EXPECT_EQ(error.hint(), "another --model-dir");
  EXPECT_THAT(std::string(error.what()), Not(HasSubstr("model_dir")));
}

}  // namespace
}  // namespace muster::app
