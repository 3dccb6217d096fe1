#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/files/shared_patience.h"
#include "muster/stores/s3_store.h"
#include "tests/support/s3_stand_in.h"

namespace muster::inline v0_1::stores {
namespace {

// A store that was available and is away, and a clock that sleeping moves.
class SharedPatienceTest : public ::testing::Test {
 protected:
  SharedPatienceTest() {
    service_.set_clock_offset(clock_.wall_seconds() - system_clock().wall_seconds());
    S3Options options = S3Options::from(service_.environment());
    options.limits.clock = &clock_;
    files_ = make_s3_store(options);
    EXPECT_TRUE(files_->list_directory("s3://bucket/").ok());
  }
  double seconds_of_failing() {
    const TimePoint before = clock_.now();
    EXPECT_EQ(files_->list_directory("s3://bucket/").error().kind(), ErrorKind::kUnavailable);
    return to_seconds(clock_.now() - before);
  }
  void go_away() { service_.server().fail({.status = 503}, 1000); }

  ManualClock clock_{{.sleep_advances = true}};
  S3StandIn service_;
  std::unique_ptr<FileSystem> files_;
};

TEST_F(SharedPatienceTest, AllRequestsOfAThingHaveOneLimit) {
  go_away();
  double all = 0;
  {
    const SharedPatience save;
    for (int request = 0; request < 5; ++request) {
      const SharedPatience inner;  // changes nothing
      all += seconds_of_failing();
    }
  }
  EXPECT_GE(all, 100);
  EXPECT_LE(all, 120);
  // The next thing has its own; so has each request where nothing is shared.
  EXPECT_GE(seconds_of_failing(), 100);
  EXPECT_GE(seconds_of_failing(), 100);
}

TEST_F(SharedPatienceTest, AnAnswerEndsTheOutage) {
  const SharedPatience save;
  service_.server().fail({.status = 503}, 10);
  EXPECT_TRUE(files_->list_directory("s3://bucket/").ok());
  go_away();
  EXPECT_GE(seconds_of_failing(), 100);
}

}  // namespace
}  // namespace muster::inline v0_1::stores
