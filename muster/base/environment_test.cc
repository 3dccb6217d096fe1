#include "muster/base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace muster::inline v0_1 {
namespace {

TEST(Environment, ReadsTheProcess) {
  ::setenv("MUSTER_ENVIRONMENT_TEST", "a=b", 1);
  const Environment environment = Environment::process();
  ::setenv("MUSTER_ENVIRONMENT_TEST", "later", 1);
  EXPECT_EQ(environment.get("MUSTER_ENVIRONMENT_TEST"), "a=b");
  ::unsetenv("MUSTER_ENVIRONMENT_TEST");
  EXPECT_FALSE(Environment::process().has("MUSTER_ENVIRONMENT_TEST"));
}

TEST(Environment, UnsetAndEmptyDiffer) {
  const Environment environment({{"EMPTY", ""}});
  EXPECT_EQ(environment.get("EMPTY"), "");
  EXPECT_EQ(environment.get("UNSET"), std::nullopt);
  EXPECT_EQ(environment.get_or("UNSET", "x"), "x");
  EXPECT_EQ(environment.get_or("EMPTY", "x"), "");
  EXPECT_EQ(environment.with("UNSET", "1").get("UNSET"), "1");
  EXPECT_FALSE(environment.has("UNSET"));
}

}  // namespace
}  // namespace muster::inline v0_1
