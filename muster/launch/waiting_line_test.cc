#include "muster/launch/internal/waiting_line.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::launch::internal {
namespace {

TEST(WaitingLine, IsOneOfTheLogThatSaysSo) {
  for (const char* line :
       {"I 12:03:45 waiting for ps 0", "I 12:03:45 waiting for chief",
        "I 12:03:45 worker 1 is waiting for worker 0 at 127.0.0.1:2222 (10 s)",
        "I 12:03:45 chief is waiting for worker 0 at 127.0.0.1:2222 (10 s)",
        "W 12:03:45 waiting for process 12 on host to leave model",
        R"({"time":"2026-01-01T00:00:00Z","level":"info","message":"waiting for ps 0"})"}) {
    EXPECT_TRUE(says_it_waits(line)) << line;
  }
  for (const char* line :
       {"", "waiting for data", "I 12:03:45 step 100: loss 0.5", "I 12:03:45",
        "I 12:03:45 asking Slurm, which is waiting for nodes",
        "I 12:03:45 step 3: the model, which is waiting for data, waits",
        R"({"message":"waiting for ps 0"})", R"({"level":"info","event":"waiting for ps 0"})",
        "{ waiting for ps 0"}) {
    EXPECT_FALSE(says_it_waits(line)) << line;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::launch::internal
