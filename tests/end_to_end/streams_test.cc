// Programs started with closed standard streams, as some daemons do: files that they open next must
// not get those numbers, or lines for people would be written into files and sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/end_to_end/program.h"

namespace muster::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

Words closed(const Words& command) {
  Words words = {"sh", "-c", R"(exec "$0" "$@" <&- >&- 2>&-)"};
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// Where the streams a process writes to lead. Number 0 may be taken before main() begins: a
// library may do so.
Words streams_of(pid_t pid) {
  Words streams;
  for (const char* number : {"1", "2"}) {
    std::error_code none;
    const fs::path link = "/proc/" + std::to_string(pid) + "/fd/" + number;
    streams.push_back(fs::read_symlink(link, none).string());
  }
  return streams;
}

// Waits until the streams of a long-running program lead nowhere.
void expect_nowhere(Program& program) {
  const Words nowhere(2, "/dev/null");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (streams_of(program.pid()) != nowhere && program.running() &&
         std::chrono::steady_clock::now() < end) {
    // There is no notice that a program has opened its streams: /proc is asked again.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(streams_of(program.pid()), nowhere);
}

TEST(ClosedStreams, NoLineOfTrainingGoesIntoItsFiles) {
  const TempDirectory directory;
  const Words flags = {"--max_steps=20", "--save_checkpoints_steps=10", "--log_format=json"};
  const Ran spoken = run(mnist(directory / "open", flags));
  ASSERT_EQ(spoken.code, 0) << spoken.output;
  ASSERT_THAT(spoken.output, HasSubstr(R"("level":"info")"));
  EXPECT_EQ(run(closed(mnist(directory / "closed", flags))).code, 0);
  for (const int64_t step : {10, 20}) {
    EXPECT_EQ(checkpoint_bytes(directory / "closed", step),
              checkpoint_bytes(directory / "open", step));
  }
  for (const auto& entry : fs::recursive_directory_iterator(directory / "closed")) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = read_file(entry.path().string());
    EXPECT_THAT(bytes, Not(HasSubstr(R"("level":)"))) << entry.path();
    EXPECT_THAT(bytes, Not(HasSubstr("result: "))) << entry.path();
  }
}

TEST(ClosedStreams, OfMusterLeadNowhere) {
  const TempDirectory directory;
  EXPECT_EQ(run(closed({binary("muster"), "data", "digits", "--out=" + directory / "digits",
                        "--train=2000", "--test=500"}))
                .code,
            0);
  for (const char* file : {"train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", "digits.json"}) {
    EXPECT_EQ(read_file(directory / "digits/" + file), read_file(digits() + "/" + file)) << file;
  }
  Program program(closed({binary("muster"), "run", "--", "sleep", "60"}));
  expect_nowhere(program);
}

// It is asked to join a coordinator that never answers, so that it can be looked at.
TEST(ClosedStreams, OfTheProbeLeadNowhere) {
  Program program(closed({binary("muster-probe"), "--second", "127.0.0.1:9"}));
  expect_nowhere(program);
  EXPECT_TRUE(program.running());
}

}  // namespace
}  // namespace muster::testing
