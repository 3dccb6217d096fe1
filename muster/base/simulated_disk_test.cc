#include "muster/base/simulated_disk.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One process on a disk; the thread of the test is the process.
struct Machine {
  explicit Machine(uint64_t seed) : simulated(seed) {}
  SimulatedThreads simulated;
  SimulatedThreads::Process process{simulated, -1};
  SimulatedDisk disk{simulated};
  std::unique_ptr<SimulatedDisk::Mount> files = disk.mount(process);
  void restart() { files = disk.mount(process); }
};

TEST(SimulatedDisk, KeepsWhatWasWritten) {
  Machine machine(1);
  SimulatedDisk::Mount& files = *machine.files;
  ASSERT_TRUE(files.make_directories("a/b").ok());
  ASSERT_TRUE(files.write_atomically("a/b/x", "one").ok());
  auto log = files.open_writer("a/b/log").value();
  ASSERT_TRUE(log->append(bytes_of("12")).ok());
  ASSERT_TRUE(log->append(bytes_of("34")).ok());
  EXPECT_EQ(files.read_file("a/b/log").value(), "1234");
  ASSERT_TRUE(files.rename("a/b/log", "a/b/old").ok());
  EXPECT_THAT(files.list_directory("a/b").value(), ElementsAre("old", "x"));
  EXPECT_THAT(files.list_directory("a").value(), ElementsAre("b"));
  EXPECT_TRUE(files.info("a/b").value().is_directory);
  EXPECT_EQ(files.info("a/b/x").value().size, 3u);
  ASSERT_TRUE(files.remove("a/b/x").ok());
  EXPECT_EQ(files.read_file("a/b/x").error().kind(), ErrorKind::kNotFound);
  EXPECT_EQ(files.remove("a/b/x").error().kind(), ErrorKind::kNotFound);
  EXPECT_GT(machine.simulated.seconds(), 0.002);  // of simulated time
}

// A process that dies at any change of an atomic write, with the machine or alone, leaves the old
// content or the new one.
TEST(SimulatedDisk, AnAtomicWriteIsWholeOrAbsentAfterEachDeath) {
  int old = 0, fresh = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Machine machine(seed);
    ASSERT_TRUE(machine.files->make_directories("d").ok());
    ASSERT_TRUE(machine.files->write_atomically("d/x", "old").ok());
    machine.files->kill_at(1 + static_cast<int64_t>(seed % 6));
    const bool done = machine.files->write_atomically("d/x", "fresh").ok();
    EXPECT_EQ(machine.files->killed(), !done);
    machine.files->kill();
    if (seed % 2 == 0) machine.disk.cut_power();
    machine.restart();
    const std::string found = machine.files->read_file("d/x").value();
    ++(found == "old" ? old : fresh);
    EXPECT_TRUE(found == "old" || found == "fresh") << found;
    if (done) {
      EXPECT_EQ(found, "fresh") << seed;
    }
  }
  EXPECT_GT(old, 50);
  EXPECT_GT(fresh, 30);
}

TEST(SimulatedDisk, ALossOfPowerForgetsWhatWasNotSynced) {
  std::set<std::string> found;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    ASSERT_TRUE(machine.files->make_directories("d").ok());
    auto log = machine.files->open_writer("d/log").value();
    ASSERT_TRUE(log->append(bytes_of("12")).ok());
    ASSERT_TRUE(log->sync().ok());
    ASSERT_TRUE(machine.files->write_atomically("d/x", "x").ok());  // syncs the directory
    ASSERT_TRUE(log->append(bytes_of("34")).ok());
    machine.files->kill();
    machine.disk.cut_power();
    found.insert(machine.disk.content("d/log").value());
  }
  using std::string_literals::operator""s;
  EXPECT_THAT(found, ElementsAre("12", "12\0\0"s, "123", "123\0"s, "1234"));
}

TEST(SimulatedDisk, AFullDiskTakesNothingAndLeavesNothing) {
  Machine machine(1);
  ASSERT_TRUE(machine.files->make_directories("d").ok());
  machine.disk.fill_until(machine.simulated.now() + from_seconds(10));
  const Status full = machine.files->write_atomically("d/x", "one");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(machine.disk.names("d"), IsEmpty());
  // Simulated time, until the disk has space again: nothing waits for it.
  machine.process.sleep_for(from_seconds(11));
  EXPECT_TRUE(machine.files->write_atomically("d/x", "one").ok());
}

TEST(SimulatedDisk, AFailingDiskTearsWritesAndASlowOneTakesTime) {
  int failures = 0, torn = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Machine machine(seed);
    ASSERT_TRUE(machine.files->make_directories("d").ok());
    auto log = machine.files->open_writer("d/log").value();
    machine.disk.fail_until(machine.simulated.now() + from_seconds(10));
    if (!log->append(bytes_of("12345")).ok()) ++failures;
    const size_t size = machine.disk.content("d/log").value().size();
    if (size > 0 && size < 5) ++torn;
  }
  EXPECT_GT(failures, 10);
  EXPECT_GT(torn, 3);
  Machine machine(1);
  machine.disk.slow_until(machine.simulated.now() + from_seconds(100), 1000);
  const double begun = machine.simulated.seconds();
  ASSERT_TRUE(machine.files->make_directories("d").ok());
  EXPECT_GE(machine.simulated.seconds() - begun, 0.2);
}

}  // namespace
}  // namespace muster::inline v0_1
