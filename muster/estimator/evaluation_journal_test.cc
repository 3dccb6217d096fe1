#include "muster/estimator/internal/evaluation_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/base/temp_directory.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JournalEntry entry_at(int64_t step, const std::string& name = {}) {
  return {.name = name,
          .checkpoint = "model.ckpt-" + std::to_string(step),
          .version = "9 bytes, 1.5",
          .metrics = {{"global_step", static_cast<double>(step)}, {"loss", 0.25}},
          .task = "evaluator:0"};
}

struct JournalTest : ::testing::Test {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  const std::string path = directory / "evaluations.jsonl";
  EvaluationJournal journal{directory.path(), fs, system_clock()};
  EvaluationJournal reader{directory.path(), fs, system_clock()};

  void append(const std::string& text) {
    auto file = fs.open_writer(path).value();
    file->append(bytes_of(text)).value();
    file->close().value();
  }
};

TEST_F(JournalTest, IsReadAsItGrows) {
  EXPECT_THAT(reader.read_new(), IsEmpty());
  journal.append(entry_at(1));
  JournalEntry second = entry_at(2, "tést");
  second.exports = {{"best", "m/export/best/17"}};
  second.is_final = true;
  second.run = "abc";
  second.metrics["worst"] = -INFINITY;
  journal.append(second);
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(1), second));
  EXPECT_THAT(reader.read_new(), IsEmpty());
  journal.append(entry_at(3));
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(3)));
}

// In a store each entry is an object of its own, regardless of its writer and time.
TEST_F(JournalTest, InAStoreEachEntryIsAnObject) {
  MemoryStore store;
  ManualClock clock;
  EvaluationJournal one("mem://b/m", store, clock), other("mem://b/m", store, clock),
      reads("mem://b/m", store, clock);
  EXPECT_THAT(reads.read_new(), IsEmpty());
  one.append(entry_at(1));
  clock.advance(std::chrono::seconds(1));
  other.append(entry_at(2));
  EXPECT_THAT(reads.read_new(), ElementsAre(entry_at(1), entry_at(2)));
  EXPECT_THAT(reads.read_new(), IsEmpty());
  store.set_plan({.fail_at = 0});
  EXPECT_THROW(one.append(entry_at(3)), Error);
  clock.advance(std::chrono::seconds(1));
  one.append(entry_at(4));
  store.write_atomically("mem://b/m/evaluations/9", "no evaluation").value();
  EXPECT_THAT(reads.read_new(), ElementsAre(entry_at(4)));
  EXPECT_EQ(store.objects().size(), 4u);
  store.remove_tree("mem://b/m/evaluations").value();
  EXPECT_THAT(reads.read_new(), IsEmpty());
}

// A model_dir that was copied from a disk to a store, or back, has its history.
TEST_F(JournalTest, AJournalThatWasCopiedFromElsewhereIsRead) {
  MemoryStore store;
  EvaluationJournal there("mem://b/m", store, system_clock());
  there.append(entry_at(1));
  const std::string name = store.list_directory("mem://b/m/evaluations").value().at(0);
  fs.make_directories(directory / "evaluations").value();
  fs.write_atomically(directory / "evaluations/" + name,
                      store.read_file("mem://b/m/evaluations/" + name).value())
      .value();
  journal.append(entry_at(2));
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(1), entry_at(2)));
  EXPECT_THAT(reader.read_new(), IsEmpty());
  store.write_atomically("mem://b/m/evaluations.jsonl", fs.read_file(path).value()).value();
  EvaluationJournal again("mem://b/m", store, system_clock());
  EXPECT_THAT(again.read_new(), ElementsAre(entry_at(2), entry_at(1)));
  EXPECT_THAT(again.read_new(), IsEmpty());
}

TEST_F(JournalTest, NaNStaysNaN) {
  JournalEntry entry = entry_at(1);
  entry.metrics["auc"] = std::nan("");
  journal.append(entry);
  EXPECT_TRUE(std::isnan(reader.read_new().at(0).metrics.at("auc")));
}

// Left by a process that was killed while it wrote.
TEST_F(JournalTest, HalfALineIsWaitedForAndEndedByTheNext) {
  journal.append(entry_at(1));
  append(R"({"name":"","checkpoint":"model)");
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(1)));
  journal.append(entry_at(2));
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(2)));
}

TEST_F(JournalTest, LinesThatAreNoEvaluationsArePassedOver) {
  for (const char* line : {"[]", "{}", "nonsense", R"({"name":1})",
                           R"({"name":"","checkpoint":"c","version":"v","metrics":{}})",
                           R"({"name":"","checkpoint":"c","version":"v","metrics":{"a":[]}})"})
    append(std::string(line) + "\n");
  journal.append(entry_at(4));
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(4)));
}

TEST_F(JournalTest, OneThatWasRemovedBeginsAnew) {
  for (const int64_t step : {1, 2}) journal.append(entry_at(step));
  EXPECT_EQ(reader.read_new().size(), 2u);
  fs.remove(path).value();
  EXPECT_THAT(reader.read_new(), IsEmpty());
  journal.append(entry_at(5));
  EXPECT_THAT(reader.read_new(), ElementsAre(entry_at(5)));
}

TEST_F(JournalTest, TellsAFileFromALaterOneOfTheSameStep) {
  const std::string prefix = directory / "model.ckpt-7";
  EXPECT_TRUE(checkpoint_file_of(prefix, fs).version.empty());
  fs.write_atomically(prefix + ".safetensors", std::string_view("once")).value();
  const CheckpointFile once = checkpoint_file_of(prefix, fs);
  EXPECT_EQ(once.name, "model.ckpt-7");
  EXPECT_EQ(once.step, 7);
  EXPECT_EQ(checkpoint_file_of(prefix, fs), once);
  fs.write_atomically(prefix + ".safetensors", std::string_view("again")).value();
  EXPECT_NE(checkpoint_file_of(prefix, fs).version, once.version);
}

}  // namespace
}  // namespace muster::inline v0_1::internal
