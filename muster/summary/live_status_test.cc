#include "muster/summary/live_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/files/file_systems.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1::summary {
namespace {

using plan::Activity;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

LiveStatus worker(int64_t process) {
  LiveStatus status{.task = "worker " + std::to_string(process),
                    .process = process,
                    .processes = 2,
                    .host = "a",
                    .pid = 17,
                    .command = {"./train", "--lr=\"1\""},
                    .version = "0.1",
                    .started = 100,
                    .written = 107.5,
                    .earlier_starts = 2,
                    .last_step = 1000,
                    .collective = "all_reduce #17 of 250 float32",
                    .collective_seconds = .5,
                    .saving = 40,
                    .memory = int64_t{5} << 30,
                    .device_memory = int64_t{6} << 30,
                    .device_reserved = int64_t{7} << 30,
                    .measures = {{"staleness/worker_1/mean", 1.5}},
                    .log = {{.time = 101, .level = "warning", .text = "a\nb \xff"}}};
  plan::ActivityNow& replica =
      status.replicas.emplace_back(plan::ActivityNow{.task = status.task,
                                                     .activity = Activity::kCommunication,
                                                     .seconds = 0.25,
                                                     .step = 42,
                                                     .bucket = 2,
                                                     .buckets = 3,
                                                     .epoch = 4});
  for (int64_t s = 41; s <= 42; ++s) {
    replica.last.push_back({.step = s});
    replica.last.back().seconds[static_cast<size_t>(Activity::kInput)] = .125F;
    replica.last.back().seconds[static_cast<size_t>(Activity::kSaving)] = 2.F;
  }
  replica.whole.seconds[static_cast<size_t>(Activity::kInput)] = 4096.25F;
  replica.whole.seconds[static_cast<size_t>(Activity::kEvaluating)] = 8.F;
  return status;
}

TEST(LiveStatus, IsReadAsWritten) {
  LiveStatus status = worker(1);
  status.end = "failed";
  status.error = "PeerLost";
  status.exit_code = 138;
  const LiveStatus read = parse_live_status(encode_live_status(status), "x").value();
  EXPECT_EQ(read.task, "worker 1");
  EXPECT_EQ(read.process, 1);
  EXPECT_EQ(read.processes, 2);
  EXPECT_FALSE(read.at_own_pace);
  EXPECT_EQ(read.host, "a");
  EXPECT_EQ(read.pid, 17);
  EXPECT_EQ(read.command, status.command);
  EXPECT_EQ(read.version, "0.1");
  EXPECT_EQ(read.started, 100);
  EXPECT_EQ(read.written, 107.5);
  EXPECT_EQ(read.every, 1);
  EXPECT_EQ(read.earlier_starts, 2);
  EXPECT_EQ(read.last_step, 1000);
  EXPECT_EQ(read.collective, status.collective);
  EXPECT_EQ(read.collective_seconds, .5);
  EXPECT_EQ(read.saving, 40);
  EXPECT_EQ(read.memory, status.memory);
  EXPECT_EQ(read.device_memory, status.device_memory);
  EXPECT_EQ(read.device_reserved, status.device_reserved);
  EXPECT_EQ(read.measures, status.measures);
  ASSERT_EQ(read.log.size(), 1u);
  EXPECT_EQ(read.log[0].level, "warning");
  EXPECT_EQ(read.log[0].text, "a\nb \xef\xbf\xbd");  // JSON is UTF-8
  EXPECT_EQ(read.end, "failed");
  EXPECT_EQ(read.error, "PeerLost");
  EXPECT_EQ(read.exit_code, 138);
  ASSERT_EQ(read.replicas.size(), 1u);
  EXPECT_EQ(read.replicas[0].task, "worker 1");
  EXPECT_EQ(read.replicas[0].activity, Activity::kCommunication);
  EXPECT_EQ(read.replicas[0].seconds, .25);
  EXPECT_EQ(read.replicas[0].step, 42);
  EXPECT_EQ(read.replicas[0].bucket, 2);
  EXPECT_EQ(read.replicas[0].buckets, 3);
  EXPECT_EQ(read.replicas[0].epoch, 4);
  EXPECT_EQ(read.replicas[0].last, status.replicas[0].last);
  EXPECT_EQ(read.replicas[0].whole, status.replicas[0].whole);
}

// A task of an earlier version is shown with what it says.
TEST(LiveStatus, TheWholeRunMayBeMissing) {
  std::string text = encode_live_status(worker(0));
  const size_t begin = text.find(",\"whole\":[");
  ASSERT_NE(begin, std::string::npos);
  text.erase(begin, text.find(']', begin) + 1 - begin);
  const LiveStatus read = parse_live_status(text, "x").value();
  EXPECT_EQ(read.replicas[0].whole.total(), 0);
  EXPECT_EQ(read.replicas[0].last.size(), 2u);
}

TEST(LiveStatus, OtherTextIsCorrupt) {
  std::string short_step = encode_live_status(worker(0));
  short_step.replace(short_step.find("[42,"), 4, "[[],");
  for (const std::string& text : {std::string(), std::string("[]"), std::string("{}"),
                                  std::string(R"({"format": "muster.live.1"})"), short_step}) {
    const auto parsed = parse_live_status(text, "some/file");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(parsed.error().message(), HasSubstr("some/file"));
  }
}

TEST(LiveStatus, EachTaskReplacesItsFile) {
  const TempDirectory dir;
  FileSystem& files = file_systems();
  EXPECT_THAT(read_live_statuses(files, dir.path()), IsEmpty());
  ASSERT_TRUE(write_live_status(files, dir.path(), worker(1)).ok());
  // A process that was killed left half a file.
  ASSERT_TRUE(files.write_atomically(live_path(dir.path(), "worker 1") + ".new", "{").ok());
  LiveStatus later = worker(1);
  later.written = 200;
  ASSERT_TRUE(write_live_status(files, dir.path(), later).ok());
  ASSERT_TRUE(write_live_status(files, dir.path(), worker(0)).ok());
  ASSERT_TRUE(files.write_atomically(live_path(dir.path(), "worker 7"), "no status").ok());
  EXPECT_THAT(
      read_live_statuses(files, dir.path()),
      ElementsAre(Field(&LiveStatus::task, "worker 0"),
                  AllOf(Field(&LiveStatus::task, "worker 1"), Field(&LiveStatus::written, 200))));
}

// A store takes each as an object, in one request.
TEST(LiveStatus, IsWrittenToABucket) {
  MemoryStore store;
  LiveStatus server = worker(-1);
  server.task = "ps 0";
  ASSERT_TRUE(write_live_status(store, "s3://bucket/run", server).ok());
  ASSERT_TRUE(write_live_status(store, "s3://bucket/run", worker(0)).ok());
  ASSERT_TRUE(write_live_status(store, "s3://bucket/run", worker(0)).ok());
  EXPECT_THAT(read_live_statuses(store, "s3://bucket/run"),
              ElementsAre(Field(&LiveStatus::task, "worker 0"), Field(&LiveStatus::task, "ps 0")));
}

TEST(LiveStatus, AFolderThatWasRemovedIsNotMadeAgain) {
  const TempDirectory dir;
  const std::string model = dir / "model";
  FileSystem& files = file_systems();
  ASSERT_TRUE(write_live_status(files, model, worker(0)).ok());
  ASSERT_TRUE(files.remove_tree(model).ok());
  EXPECT_FALSE(write_live_status(files, model, worker(0), /*may_make_dir=*/false).ok());
  EXPECT_FALSE(files.exists(model).value());
  ASSERT_TRUE(files.make_directories(model).ok());
  EXPECT_TRUE(write_live_status(files, model, worker(0), /*may_make_dir=*/false).ok());
}

// Fewer tasks than before: what the others told of the run before is not of this one.
TEST(LiveStatus, AnEarlierRunIsNotShown) {
  const TempDirectory dir;
  FileSystem& files = file_systems();
  ASSERT_TRUE(write_live_status(files, dir.path(), worker(1)).ok());
  LiveStatus chief = worker(0);
  chief.started = 150;
  chief.written = 151;
  ASSERT_TRUE(write_live_status(files, dir.path(), chief).ok());
  EXPECT_THAT(read_live_statuses(files, dir.path()),
              ElementsAre(Field(&LiveStatus::task, "worker 0")));
}

TEST(LiveStatus, ARunWhoseDateIsSetBackIsShown) {
  const TempDirectory dir;
  FileSystem& files = file_systems();
  for (int64_t process = 0; process < 2; ++process) {
    LiveStatus status = worker(process);
    status.started = 5000;
    status.written = 1400;
    ASSERT_TRUE(write_live_status(files, dir.path(), status).ok());
  }
  EXPECT_THAT(
      read_live_statuses(files, dir.path()),
      ElementsAre(Field(&LiveStatus::task, "worker 0"), Field(&LiveStatus::task, "worker 1")));
}

}  // namespace
}  // namespace muster::inline v0_1::summary
