#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/distribute/register_strategy.h"
#include "muster/distribute/strategy.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::HasSubstr;

// This test is not linked with the servers.
TEST(StrategyByName, OneOfAnotherPartSaysWhichPartToLink) {
  const Error error = error_of([] { strategy_by_name("parameter_server"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("not linked"));
  EXPECT_THAT(error.hint(), HasSubstr("find_package(muster COMPONENTS servers)"));
}

TEST(StrategyByName, TheOneForTpusSaysWhichPartToLink) {
  const Error error = error_of([] { strategy_by_name("tpu"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.hint(), HasSubstr("find_package(muster COMPONENTS tpu)"));
}

TEST(StrategyByName, OneThatIsRegisteredIsMadeByItsFunction) {
  EXPECT_THAT(error_of([] { strategy_by_name("ours"); }).message(),
              HasSubstr("there is no strategy 'ours'"));
  static int made = 0;  // the function stays registered
  register_strategy("ours", [] {
    ++made;
    return one_device();
  });
  EXPECT_EQ(strategy_by_name("ours")->name(), "OneDevice");
  EXPECT_EQ(strategy_by_name("ours")->name(), "OneDevice");
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
