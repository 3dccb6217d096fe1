#include "muster/train/internal/unmatched_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> lines_of(const optim::Optimizer& optimizer,
                                  const std::vector<std::string>& names) {
  return unmatched_patterns(optimizer.minimize(torch::zeros({})), names);
}

TEST(UnmatchedPatternsTest, SaysWhoHasItAndWhatMayHaveBeenMeant) {
  const std::vector<std::string> names = {"encoder/dense/bias", "encoder/dense/kernel", "top/bias"};
  EXPECT_THAT(lines_of(optim::freeze(optim::sgd(), {"^encodr/"}), names),
              ElementsAre("freeze: variables has \"^encodr/\", which is in the name of no variable "
                          "and does nothing (did you mean 'encoder'?); mend it or leave it out: "
                          "the variables are 'encoder/dense/bias', 'encoder/dense/kernel', "
                          "'top/bias'"));
  const auto meant = [&](const std::string& pattern) {
    const auto lines = lines_of(optim::freeze(optim::sgd(), {pattern}), names);
    EXPECT_EQ(lines.size(), 1u);
    const size_t begin = lines[0].find("did you mean '");
    if (begin == std::string::npos) return std::string();
    return lines[0].substr(begin + 14, lines[0].find('\'', begin + 14) - begin - 14);
  };
  EXPECT_EQ(meant("dense/krenel$"), "dense/kernel");
  EXPECT_EQ(meant(".*Bias"), "bias");
  EXPECT_EQ(meant("embedding"), "");
  EXPECT_EQ(meant("^$"), "");
}

TEST(UnmatchedPatternsTest, AreToldOfEveryOwnerAndOfRulesAroundRules) {
  using namespace optim;
  const std::vector<std::string> typo{"bais"}, there{"bias"};
  const auto all = [](const std::vector<std::string>& patterns) {
    Optimizer optimizer = adamw({.exclude_from_weight_decay = patterns});
    optimizer = decoupled_weight_decay(optimizer, {.weight_decay = 0.1, .exclude = patterns});
    optimizer = learning_rate_multipliers(optimizer, {{patterns[0], 0.5}});
    optimizer = exponential_moving_average(optimizer, {.exclude = patterns});
    optimizer = look_ahead(optimizer);
    return clip_by_norm(freeze(optimizer, patterns), 1);
  };
  std::vector<std::string> owners;
  for (const std::string& line : lines_of(all(typo), {"a/bias", "a/kernel"}))
    owners.push_back(line.substr(0, line.find(" has ")));
  EXPECT_THAT(owners,
              ElementsAre("adamw: exclude_from_weight_decay", "decoupled_weight_decay: exclude",
                          "learning_rate_multipliers: variables",
                          "exponential_moving_average: exclude", "freeze: variables"));
  EXPECT_THAT(lines_of(all(there), {"a/bias", "a/kernel"}), IsEmpty());
  for (const Optimizer& optimizer :
       {lamb({.exclude_from_weight_decay = typo}), lars({.exclude_from_weight_decay = typo})})
    EXPECT_EQ(lines_of(optimizer, {"a/bias"}).size(), 1u);
  EXPECT_EQ(
      lines_of(lamb({.exclude_from_weight_decay = there, .exclude_from_layer_adaptation = typo}),
               {"a/bias"})
          .size(),
      1u);
}

TEST(UnmatchedPatternsTest, AnOptimizerOfTwoEntriesIsReportedOnce) {
  const optim::Optimizer optimizer = optim::freeze(optim::sgd(), {"typo"});
  const Tensor loss = torch::zeros({});
  EXPECT_EQ(
      unmatched_patterns(optim::group({optimizer.minimize(loss), optimizer.minimize(loss)}), {"w"})
          .size(),
      1u);
}

TEST(CheckFiltersTest, AFilterThatFindsNothingIsAnErrorWithTheNamesThereAre) {
  const std::vector<VariableSpec> specs = {{.name = "top/kernel", .shape = {1}},
                                           {.name = "net/bias", .shape = {1}}};
  const Tensor loss = torch::zeros({});
  const auto named = [](const std::string& start) {
    return [start](const VariableSpec& spec) { return spec.name.starts_with(start); };
  };
  const auto top = optim::sgd().minimize(loss, named("top/"));
  EXPECT_EQ(
      message_of([&] {
        check_filters(optim::group({top, optim::adam().minimize(loss, named("head/"))}), specs);
      }),
      "the filter that minimize() of the optimizer Adam was given accepts no variable: there "
      "are top/kernel, net/bias");
  EXPECT_THAT(message_of([&] { check_filters(optim::adam().no_step(named("head/")), specs); }),
              ::testing::StartsWith("the filter that no_step() of the optimizer Adam"));
  check_filters(optim::group({top, optim::adam().minimize(loss, named("net"))}), specs);
  check_filters(optim::sgd().minimize(loss), specs);
  // A pattern that freezes everything was found.
  check_filters(optim::freeze(optim::sgd(), {"^top/"}).minimize(loss, named("top/")), specs);
  // Nothing is reported elsewhere.
  check_filters(top, {});
}

}  // namespace
}  // namespace muster::inline v0_1::internal
