#include "muster/board/run_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/board/internal/scalar_event.h"
#include "muster/board/internal/test_events.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1::board {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class RunDataTest : public ::testing::Test {
 protected:
  RunData& read(const std::string& bytes, RunLimits limits = {}) {
    append_to(path_, bytes);
    if (!run_) run_.emplace(local_file_system(), folder_.path(), limits);
    run_->set_file(path_, std::filesystem::file_size(path_));
    while (run_->read()) {
    }
    return *run_;
  }
  std::vector<int64_t> steps_of(const std::string& tag) {
    std::vector<int64_t> steps;
    for (const ScalarBin& bin : run_->tags().at(tag).scalars.bins())
      steps.push_back(bin.first_step);
    return steps;
  }

  TempDirectory folder_;
  const std::string path_ = folder_ / kTestFile;
  std::optional<RunData> run_;
};

TEST_F(RunDataTest, ScalarsAndOtherRecords) {
  read(losses(1, 3) + record_at(4, {{"note", std::string("hello")}, {"loss", 0.5F}}));
  EXPECT_THAT(steps_of("loss"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(run_->last_step(), 4);
  EXPECT_EQ(run_->first_wall(), kTestStart + 1);
  EXPECT_EQ(run_->events(), 4);
  const TagData& note = run_->tags().at("note");
  EXPECT_EQ(note.kind, TagKind::kText);
  ASSERT_EQ(note.records.places().size(), 1U);
  const formats::Event event = run_->event_at(note.records.places()[0]);
  EXPECT_EQ(std::get<std::string>(event.values[0].value), "hello");
  EXPECT_EQ(run_->read_bytes(), run_->bytes());
}

TEST_F(RunDataTest, ARestartReplacesLaterSteps) {
  read(losses(1, 10) + start_at(6) + losses(6, 7));
  EXPECT_THAT(steps_of("loss"), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  const ScalarPoints points = run_->read_points(std::nullopt, 100);
  ASSERT_EQ(points.at("loss").size(), 7U);
  EXPECT_EQ(points.at("loss")[5].value, 1.0F / 6);
  EXPECT_THAT(error_of([&] { (void)run_->read_points("loss", 6); }).message(),
              HasSubstr("more than 6 points"));
}

TEST_F(RunDataTest, DamageIsNoted) {
  std::string bad = record_at(2, {{"loss", 1.0F}});
  bad[20] ^= 1;
  read(losses(1, 1) + bad + record_of(std::string("\xff\xff")) + losses(3, 3) + "x");
  EXPECT_THAT(steps_of("loss"), ElementsAre(1, 3));
  EXPECT_THAT(run_->notes(), UnorderedElementsAre(HasSubstr("wrong checksum of the content"),
                                                  HasSubstr("is not an event"),
                                                  HasSubstr("ends inside a record")));
}

TEST_F(RunDataTest, LimitsHold) {
  std::string bytes;
  for (int tag = 0; tag < 10; ++tag) bytes += record_at(1, {{"tag" + std::to_string(tag), 1.0F}});
  bytes += record_at(1, {{std::string(50, 'x'), 1.0F}});
  for (int damage = 0; damage < 10; ++damage) bytes += record_of(std::string("\xff"));
  read(bytes, {.most_tags = 4, .most_tag_bytes = 20, .most_notes = 3});
  EXPECT_EQ(run_->tags().size(), 4U);
  const auto notes = run_->notes();
  ASSERT_EQ(notes.size(), 5U);
  EXPECT_EQ(notes[3], "... and 7 more like these");
  EXPECT_THAT(notes[4], HasSubstr("7 values are not shown"));
}

TEST_F(RunDataTest, LaterTagsOfManyHaveFewerBins) {
  std::string bytes;
  for (int tag = 0; tag < 2000; ++tag) {
    for (int step = 0; step < (tag % 1999 == 0 ? 600 : 1); ++step)
      bytes += record_at(step, {{"tag" + std::to_string(tag), 1.0F}});
  }
  read(bytes);
  EXPECT_EQ(run_->tags().at("tag0").scalars.bins().size(), 600U);
  EXPECT_LE(run_->tags().at("tag1999").scalars.bins().size(), 2048U * 128 / 1999);
  EXPECT_EQ(run_->tags().at("tag1999").scalars.count(), 600);
}

TEST_F(RunDataTest, ATagOfAnotherKindIsNotMixed) {
  read(record_at(1, {{"a", 1.0F}}) + record_at(2, {{"a", std::string("text")}}));
  EXPECT_EQ(run_->tags().at("a").kind, TagKind::kScalar);
  EXPECT_THAT(steps_of("a"), ElementsAre(1));
}

// In a store the events of joined files come again, in the file that was first.
TEST(RunDataInAStore, JoinedFilesShowNothingTwice) {
  MemoryStore store;
  RunData run(store, "s3://bucket/run");
  const auto put = [&](const std::string& name, const std::string& bytes) {
    const std::string path = "s3://bucket/run/" + name;
    store.write_atomically(path, bytes).value();
    run.set_file(path, bytes.size());
    while (run.read()) {
    }
  };
  put("events.out.tfevents.1", losses(1, 2));
  put("events.out.tfevents.2", losses(3, 4));
  put("events.out.tfevents.1", losses(1, 4));
  put("events.out.tfevents.3", losses(5, 5));
  EXPECT_EQ(run.tags().at("loss").scalars.count(), 5);
  EXPECT_EQ(run.read_points("loss", 100).at("loss").size(), 5U);
}

// The quick way gives what formats::decode_event() gives.
TEST(ScalarEventTest, IsReadAsEveryEvent) {
  const formats::Event event{
      .wall_time = 2.5, .step = -7, .values = {{"a", 1.5F}, {"größe", -0.0F}, {"", 3.0F}}};
  internal::ScalarEvent read;
  const std::string bytes = formats::encode_event(event).value();
  ASSERT_TRUE(internal::read_scalar_event(bytes_of(bytes), &read));
  EXPECT_EQ(read.wall, 2.5);
  EXPECT_EQ(read.step, -7);
  ASSERT_EQ(read.scalars.size(), 3U);
  EXPECT_EQ(read.scalars[1].tag, "größe");
  EXPECT_EQ(read.scalars[0].value, 1.5F);
  const formats::Event mixed{.values = {{"a", 1.5F}, {"b", std::string("text")}}};
  EXPECT_FALSE(internal::read_scalar_event(bytes_of(formats::encode_event(mixed).value()), &read));
  EXPECT_FALSE(internal::read_scalar_event(bytes_of(bytes).first(bytes.size() - 1), &read));
}

// The files of other writers; ./dev check board compares each number with TensorBoard's.
TEST(RunDataOfTensorFlow, EventsOfVersionsPointSevenAndTwo) {
  const char* data = std::getenv("MUSTER_TEST_DATA");
  // The files are real data of others, which the project does not contain.
  if (data == nullptr) GTEST_SKIP() << "needs MUSTER_TEST_DATA";
  const auto read = [&](const std::string& folder) {
    const std::string path = std::string(data) + "/tensorflow/" + folder;
    auto run = std::make_unique<RunData>(local_file_system(), path);
    for (const auto& entry : local_file_system().list_entries(path).value())
      if (formats::is_event_file(entry.name))
        run->set_file(join_path(path, entry.name), entry.info.size);
    while (run->read()) {
    }
    return run;
  };
  const auto second = read("events/tf2/train");
  EXPECT_THAT(second->notes(), IsEmpty());
  EXPECT_EQ(second->tags().at("loss").kind, TagKind::kScalar);
  EXPECT_EQ(second->tags().at("loss").scalars.count(), 10);
  EXPECT_EQ(second->tags().at("accuracy").scalars.count(), 10);
  const auto old = read("events/tf0.7/linear_20160330-204448");
  EXPECT_EQ(old->tags().at("alpha").scalars.count(), 200);
  const auto cut = read("events/tf0.7/mnist_conv_20160330-195724");
  EXPECT_EQ(cut->tags().at("convs/image/0").kind, TagKind::kImage);
  EXPECT_THAT(cut->notes(), ElementsAre(HasSubstr("ends inside a record")));
  const auto estimator = read("estimator_model_dir");
  EXPECT_TRUE(estimator->graph().has_value());
  EXPECT_EQ(estimator->tags().at("loss").scalars.bins().front().first_step, 1);
}

}  // namespace
}  // namespace muster::inline v0_1::board
