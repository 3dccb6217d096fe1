#include "muster/formats/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::HasSubstr;

Event scalar_event() {
  return {.wall_time = 1700000001.5, .step = 100, .values = {{"loss", 0.25f}}};
}

TEST(Event, ScalarHasTheBytesOfTheFormat) {
  // double wall_time, varint step, summary{value{tag, simple_value}}.
  const std::string expected(
      "\x09\x00\x00\x60\x40\xfc\x54\xd9\x41\x10\x64\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x80"
      "\x3e",
      26);
  EXPECT_EQ(encode_event(scalar_event()).value(), expected);
}

// The bytes protobuf 3.21 writes for the same messages.
TEST(Event, EveryKindHasTheBytesOfTheFormat) {
  const auto bytes_in_hex = [](const Event& event) {
    std::string hex;
    for (const unsigned char byte : encode_event(event).value()) {
      hex += "0123456789abcdef"[byte / 16];
      hex += "0123456789abcdef"[byte % 16];
    }
    return hex;
  };
  EXPECT_EQ(bytes_in_hex({}), "");
  EXPECT_EQ(bytes_in_hex({.wall_time = 1, .file_version = std::string(kEventFileVersion)}),
            "09000000000000f03f1a0d627261696e2e4576656e743a32");
  // Zero is a value of a scalar; -0 is not the 0 that is left out.
  EXPECT_EQ(bytes_in_hex({.values = {{"z", 0.0f}, {"h", Histogram{.min = -0.0}}}}),
            "2a1a0a080a017a15000000000a0e0a01682a09090000000000000080");
  EXPECT_EQ(bytes_in_hex(
                {.step = -3,
                 .values = {{"h", Histogram{-1, 2, 3, 1, 5, {0, 2}, {1, 2}}}, {"e", Histogram{}}}}),
            "10fdffffffffffffffff012a5f0a560a01682a5109000000000000f0bf1100000000000000401900000000"
            "0000084021000000000000f03f"
            "2900000000000014403210000000000000000000000000000000403a10000000000000f03f000000000000"
            "00400a050a01652a00");
  EXPECT_EQ(
      bytes_in_hex({.values = {{"t", std::string("é")}, {"", std::string()}}}),
      "2a350a1b0a0174420c08071204120208014202c3a94a080a060a04746578740a16420a08071204120208014200"
      "4a080a060a0474657874");
  EXPECT_EQ(bytes_in_hex({.step = 7,
                          .session_log = SessionLog{SessionStatus::kCheckpoint, "model", "saved"}}),
            "10073a10080312056d6f64656c1a057361766564");
  EXPECT_EQ(bytes_in_hex({.step = 7, .session_log = SessionLog{}}), "10073a00");
}

TEST(Event, EveryKindComesBack) {
  const Event scalars = decode_event(bytes_of(encode_event(scalar_event()).value())).value();
  EXPECT_EQ(scalars.wall_time, 1700000001.5);
  EXPECT_EQ(scalars.step, 100);
  ASSERT_EQ(scalars.values.size(), 1u);
  EXPECT_EQ(scalars.values[0].tag, "loss");
  EXPECT_EQ(std::get<float>(scalars.values[0].value), 0.25f);

  Event mixed{.step = -3};
  mixed.values.push_back({"h", Histogram{-1, 2, 3, 1, 5, {0, 2}, {1, 2}}});
  mixed.values.push_back({"t", std::string("some text é")});
  const Event back = decode_event(bytes_of(encode_event(mixed).value())).value();
  EXPECT_EQ(back.step, -3);
  const auto& histogram = std::get<Histogram>(back.values.at(0).value);
  EXPECT_EQ(histogram.min, -1);
  EXPECT_EQ(histogram.sum_squares, 5);
  EXPECT_EQ(histogram.limits, (std::vector<double>{0, 2}));
  EXPECT_EQ(histogram.counts, (std::vector<double>{1, 2}));
  EXPECT_EQ(std::get<std::string>(back.values.at(1).value), "some text é");

  Event log{.step = 7,
            .session_log = SessionLog{SessionStatus::kCheckpoint, "model.ckpt-7", "saved"}};
  const Event log_back = decode_event(bytes_of(encode_event(log).value())).value();
  EXPECT_EQ(log_back.session_log->status, SessionStatus::kCheckpoint);
  EXPECT_EQ(log_back.session_log->checkpoint_path, "model.ckpt-7");
  EXPECT_EQ(log_back.session_log->message, "saved");
}

TEST(Event, RefusesWhatTheFormatCannotHold) {
  Event two = scalar_event();
  two.file_version = "brain.Event:2";
  EXPECT_EQ(encode_event(two).error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(encode_event({.values = {{"empty", {}}}}).error().message(), HasSubstr("'empty'"));
  EXPECT_THAT(encode_event({.values = {{"a\xff", 1.0f}}}).error().message(), HasSubstr("61 ff"));
  EXPECT_FALSE(encode_event({.values = {{"h", Histogram{.limits = {1}}}}}).ok());
}

TEST(Event, AnyPrefixAndAnyFlipIsAnAnswerNotACrash) {
  const std::string bytes = encode_event(scalar_event()).value();
  int refused = 0;
  for (size_t length = 1; length < bytes.size(); ++length) {
    refused += decode_event(bytes_of(bytes.substr(0, length))).ok() ? 0 : 1;
  }
  // Cut between two fields the rest is a message still: after wall_time and after step.
  EXPECT_EQ(refused, 23);
  Random random(derive_key(11, {}));
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    for (int flips = 0; flips < 3; ++flips) {
      const uint64_t bit = random.uniform_below(bytes.size() * 8);
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    }
    const Result<Event> event = decode_event(bytes_of(damaged));
    if (!event.ok()) {
      EXPECT_EQ(event.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

TEST(EventFile, EveryCutGivesTheEventsBefore) {
  TempDirectory temp;
  std::string bytes;
  append_tfrecord(
      bytes,
      bytes_of(
          encode_event({.wall_time = 1, .file_version = std::string(kEventFileVersion)}).value()));
  const size_t first = bytes.size();
  append_tfrecord(bytes, bytes_of(encode_event(scalar_event()).value()));
  for (size_t length = 0; length <= bytes.size(); ++length) {
    local_file_system().write_atomically(temp / "events", bytes.substr(0, length)).value();
    const EventFile file = read_events(local_file_system(), temp / "events").value();
    EXPECT_EQ(file.events.size(), length == bytes.size() ? 2u : length >= first ? 1u : 0u);
    EXPECT_EQ(file.partial_tail, length != 0 && length != first && length != bytes.size())
        << length;
    EXPECT_FALSE(file.corruption.has_value());
  }
}

TEST(EventFile, SaysWhereItIsDamaged) {
  TempDirectory temp;
  std::string bytes;
  append_tfrecord(bytes, bytes_of(encode_event(scalar_event()).value()));
  const std::string good = bytes;
  append_tfrecord(bytes, bytes_of("no event"));
  local_file_system().write_atomically(temp / "a", bytes).value();
  EventFile file = read_events(local_file_system(), temp / "a").value();
  EXPECT_EQ(file.events.size(), 1u);
  EXPECT_THAT(file.corruption.value().message(), HasSubstr("byte " + std::to_string(good.size())));
  bytes = good + good;
  bytes[good.size() + 14] ^= 1;
  local_file_system().write_atomically(temp / "a", bytes).value();
  file = read_events(local_file_system(), temp / "a").value();
  EXPECT_EQ(file.events.size(), 1u);
  EXPECT_TRUE(file.corruption.has_value());
  EXPECT_EQ(read_events(local_file_system(), temp / "none").error().kind(), ErrorKind::kNotFound);
}

TEST(EventFile, ListedByName) {
  TempDirectory temp;
  for (const char* name :
       {"events.out.tfevents.0000000002.h", "events.out.tfevents.0000000001.h", "checkpoint"}) {
    local_file_system().write_atomically(temp / name, "").value();
  }
  const auto paths = list_event_files(local_file_system(), temp.path()).value();
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0], temp / "events.out.tfevents.0000000001.h");
  EXPECT_TRUE(list_event_files(local_file_system(), temp / "none").value().empty());
}

TEST(RealFiles, EventsOfOthers) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  FileSystem& files = local_file_system();
  const std::string root = join_path(folder, "tensorflow/events");
  for (const char* directory : {"tf2/train", "tf2/test", "tf0.7/mnist_conv_20160330-195724"}) {
    const auto paths = list_event_files(files, join_path(root, directory)).value();
    ASSERT_EQ(paths.size(), 1u) << directory;
    const EventFile file = read_events(files, paths[0]).value();
    EXPECT_FALSE(file.corruption.has_value());
    // The old run was stopped inside a record.
    EXPECT_EQ(file.partial_tail, std::string(directory).starts_with("tf0.7"));
    ASSERT_GT(file.events.size(), 1u);
    EXPECT_THAT(file.events[0].file_version, HasSubstr("brain.Event:"));
    int scalars = 0;
    for (const Event& event : file.events) {
      for (const SummaryValue& value : event.values)
        scalars += std::holds_alternative<float>(value.value) ? 1 : 0;
    }
    EXPECT_GT(scalars, 0) << directory;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
