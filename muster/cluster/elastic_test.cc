// What the launcher says of elastic runs.
#include "muster/cluster/elastic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::cluster {
namespace {

using ::testing::HasSubstr;

TEST(Elastic, ReadsTheLeastNumberOfWorkersAndNamesWhatIsNone) {
  EXPECT_EQ(min_workers(Environment(), ""), 0);
  EXPECT_EQ(min_workers(Environment({{"MUSTER_MIN_WORKERS", "2"}}), ""), 2);
  for (const char* wrong : {"-1", "two", "2.5", "1:4"}) {
    EXPECT_THAT(message_of([&] {
                  (void)min_workers(Environment({{"MUSTER_MIN_WORKERS", wrong}}), "");
                }),
                HasSubstr(std::string("MUSTER_MIN_WORKERS is '") + wrong));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::cluster
