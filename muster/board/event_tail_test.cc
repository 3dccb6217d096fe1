#include "muster/board/event_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/crc32c.h"
#include "muster/base/temp_directory.h"
#include "muster/board/internal/test_events.h"

namespace muster::inline v0_1::board {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EventTailTest : public ::testing::Test {
 protected:
  // Reads all there is now; returns the payloads.
  std::vector<std::string> read(EventTail& tail) {
    std::vector<std::string> payloads;
    const auto take = [&](uint64_t /*offset*/, Bytes payload) {
      payloads.emplace_back(text_of(payload));
    };
    while (tail.read(std::filesystem::file_size(path_), take)) {
    }
    return payloads;
  }

  TempDirectory folder_;
  const std::string path_ = folder_ / kTestFile;
};

TEST_F(EventTailTest, AFileIsReadAsItGrows) {
  append_to(path_, record_of("one"));
  EventTail tail(local_file_system(), path_);
  EXPECT_THAT(read(tail), ElementsAre("one"));
  EXPECT_THAT(read(tail), IsEmpty());
  const std::string two = record_of("two");
  append_to(path_, two.substr(0, 15));
  EXPECT_THAT(read(tail), IsEmpty());
  EXPECT_TRUE(tail.ends_inside());
  append_to(path_, two.substr(15) + record_of("three"));
  EXPECT_THAT(read(tail), ElementsAre("two", "three"));
  EXPECT_FALSE(tail.ends_inside());
  EXPECT_THAT(tail.take_notes(), IsEmpty());
}

TEST_F(EventTailTest, ARecordWithDamageIsNamedAndSkipped) {
  std::string bad = record_of("bad");
  bad[13] ^= 1;
  append_to(path_, record_of("one") + bad + record_of("two"));
  EventTail tail(local_file_system(), path_);
  EXPECT_THAT(read(tail), ElementsAre("one", "two"));
  EXPECT_THAT(tail.take_notes(), ElementsAre(HasSubstr("the record at byte 19")));
  EXPECT_THAT(tail.take_notes(), IsEmpty());
  // The damage may be in the last record of a file that grows.
  append_to(path_, bad);
  EXPECT_THAT(read(tail), IsEmpty());
  append_to(path_, record_of("three"));
  EXPECT_THAT(read(tail), ElementsAre("three"));
}

TEST_F(EventTailTest, ReadingContinuesAtTheNextRecordAfterOtherBytes) {
  append_to(path_, record_of("one") + std::string(3'000'000, 'x') + record_of("two"));
  EventTail tail(local_file_system(), path_);
  EXPECT_THAT(read(tail), ElementsAre("one", "two"));
  EXPECT_THAT(tail.take_notes(), ElementsAre(HasSubstr("2.9 MiB from byte 19 are damaged")));
  append_to(path_, std::string(40, 'x'));
  EXPECT_THAT(read(tail), IsEmpty());
  EXPECT_THAT(tail.take_notes(), ElementsAre(HasSubstr("to its end")));
}

TEST_F(EventTailTest, ARecordBeyondTheLimitIsSkipped) {
  append_to(path_, record_of("one") + record_of(std::string(5000, 'x')) + record_of("two"));
  EventTail tail(local_file_system(), path_, {.slice_bytes = 100, .most_record_bytes = 1000});
  EXPECT_THAT(read(tail), ElementsAre("one", "two"));
  EXPECT_THAT(tail.take_notes(), ElementsAre(HasSubstr("more than 1000 B, and is skipped")));
}

TEST_F(EventTailTest, ALengthThatTheFileDoesNotHaveCostsNoMemory) {
  // A record of 2^60 bytes, with the right checksum of its length.
  std::string header;
  append_little_endian<uint64_t>(header, uint64_t{1} << 60);
  append_little_endian<uint32_t>(header, masked_crc32c(bytes_of(header)));
  append_to(path_, record_of("one") + header + std::string(100, 'x'));
  EventTail tail(local_file_system(), path_);
  EXPECT_THAT(read(tail), ElementsAre("one"));
  EXPECT_TRUE(tail.ends_inside());
}

TEST_F(EventTailTest, SlicesEndAndContinue) {
  std::string all;
  for (int record = 0; record < 100; ++record) all += record_of(std::string(84, 'a'));
  append_to(path_, all);
  EventTail tail(local_file_system(), path_, {.slice_bytes = 1000});
  int count = 0, calls = 1;
  while (tail.read(all.size(), [&](uint64_t, Bytes) { ++count; })) ++calls;
  EXPECT_EQ(count, 100);
  EXPECT_EQ(calls, 10);
}

TEST_F(EventTailTest, AFileThatIsGoneOrShorterIsNoted) {
  append_to(path_, record_of("one") + record_of("two"));
  EventTail tail(local_file_system(), path_);
  read(tail);
  std::filesystem::resize_file(path_, 10);
  EXPECT_THAT(read(tail), IsEmpty());
  EXPECT_THAT(tail.take_notes(), ElementsAre(HasSubstr("became shorter")));
  std::filesystem::remove(path_);
  const auto take = [](uint64_t, Bytes) {};
  EXPECT_FALSE(tail.read(100, take));
  EXPECT_FALSE(tail.read(100, take));
  EXPECT_EQ(tail.take_notes().size(), 1U) << "said once";
}

}  // namespace
}  // namespace muster::inline v0_1::board
