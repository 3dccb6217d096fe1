#include "muster/stores/stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/files/file_systems.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

// Nothing here calls the stores: that the test is linked with them is enough.
TEST(Stores, RegisterThemselves) {
  EXPECT_THAT(path_schemes(), IsSupersetOf({"gs", "http", "https", "s3"}));
}

TEST(StoreOptions, TheEnvironmentSaysHowLongRequestsAreTriedAgain) {
  EXPECT_EQ(StoreOptions::from({}).retry_timeout.count(), 120);
  EXPECT_EQ(StoreOptions::from({{kRetryVariable, ""}}).retry_timeout.count(), 120);
  EXPECT_EQ(StoreOptions::from({{kRetryVariable, "0"}}).retry_timeout.count(), 0);
  EXPECT_EQ(StoreOptions::from({{kRetryVariable, "2.5"}}).retry_timeout.count(), 2.5);
  for (const char* wrong : {"-1", "1e9", "nan", "long", "5 s"}) {
    const Error error = error_of([&] { StoreOptions::from({{kRetryVariable, wrong}}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(std::string(kRetryVariable) + " is '" + wrong + "'"));
    EXPECT_THAT(error.hint(), HasSubstr("from 0 to 86400"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::stores
