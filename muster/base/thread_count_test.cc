#include "muster/base/thread_count.h"

#include <gtest/gtest.h>

#include "muster/base/error.h"
#include "muster/base/error_of.h"

namespace muster::inline v0_1 {
namespace {

std::optional<int> read(const std::string& text) {
  return threads_asked_for(Environment({{"MUSTER_THREADS", text}}));
}

TEST(ThreadsAskedFor, ReadsAPositiveNumber) {
  EXPECT_EQ(threads_asked_for(Environment()), std::nullopt);
  EXPECT_EQ(read(""), std::nullopt);
  EXPECT_EQ(read("1"), 1);
  EXPECT_EQ(read("4096"), 4096);
}

TEST(ThreadsAskedFor, RefusesWhatIsNone) {
  for (const char* text : {"x", "0", "-2", "2.5", "2x", " 2", "99999999999999999999"}) {
    const Error error = error_of([&] { (void)read(text); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << text;
    EXPECT_EQ(error.message(),
              std::string("MUSTER_THREADS is '") + text + "', not a positive whole number");
    EXPECT_NE(error.hint(), "");
  }
  EXPECT_EQ(error_of([] { (void)read("4097"); }).message(),
            "MUSTER_THREADS is 4097, more than 4096 threads");
}

}  // namespace
}  // namespace muster::inline v0_1
