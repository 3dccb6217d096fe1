#include "muster/formats/input_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/gzip.h"
#include "muster/formats/internal/zlib_stream.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Text that packs to about a half, larger than all buffers of a stream.
std::string content_of(size_t size) {
  Random random(derive_key(5, {size}));
  std::string text(size, '\0');
  for (char& letter : text) letter = static_cast<char>('a' + random.next_u32() % 16);
  return text;
}

std::string packed_as(Compression compression, std::string_view text) {
  if (compression == Compression::kNone) return std::string(text);
  std::string packed;
  internal::Deflater(compression, 6).deflate(bytes_of(text), /*last=*/true, &packed);
  return packed;
}

std::unique_ptr<InputStream> stream_of(const std::string& bytes,
                                       Compression compression = Compression::kAuto) {
  return InputStream::open(memory_reader(bytes_of(bytes), "test"), compression).value();
}

// The rest of the stream; peeks `step` bytes at a time.
std::string rest_of(InputStream& stream, size_t step) {
  std::string rest;
  while (true) {
    const Bytes bytes = stream.peek(step).value();
    if (bytes.empty()) return rest;
    const Bytes taken = bytes.first(std::min(step, bytes.size()));
    rest += text_of(taken);
    stream.consume(taken.size());
  }
}

class EveryCompression : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(InputStream, EveryCompression,
                         ::testing::Values(Compression::kNone, Compression::kGzip,
                                           Compression::kZlib),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(EveryCompression, GivesTheContentInPiecesOfAnySize) {
  for (const size_t size : {0u, 1u, 1000u, 1'000'000u}) {
    const std::string text = content_of(size);
    const std::string bytes = packed_as(GetParam(), text);
    for (const size_t step : {7u, 4096u, 300'000u, 5'000'000u}) {
      const auto stream = stream_of(bytes, GetParam());
      EXPECT_EQ(stream->compression(), GetParam());
      EXPECT_EQ(rest_of(*stream, step), text) << size << " " << step;
      EXPECT_EQ(stream->offset(), size);
      EXPECT_EQ(stream->peek(1).value().size(), 0u);
    }
  }
}

TEST_P(EveryCompression, SeeksForwardsAndBackwards) {
  const std::string text = content_of(1'000'000);
  const std::string bytes = packed_as(GetParam(), text);
  const auto stream = stream_of(bytes, GetParam());
  for (const size_t offset : {999'999u, 0u, 5u, 300'000u, 299'999u, 1'000'000u, 17u}) {
    stream->seek(offset).value();
    EXPECT_EQ(stream->offset(), offset);
    const size_t expected = std::min<size_t>(100, text.size() - offset);
    const Bytes seen = stream->peek(100).value();
    ASSERT_GE(seen.size(), expected);
    EXPECT_EQ(text_of(seen.first(expected)), text.substr(offset, 100));
  }
  const Status beyond = stream->seek(1'000'001);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(beyond.error().message(), AllOf(HasSubstr("'test'"), HasSubstr("1000001")));
  stream->seek(999'990).value();
  EXPECT_EQ(rest_of(*stream, 3), text.substr(999'990));
}

class EveryPacking : public ::testing::TestWithParam<Compression> {};
INSTANTIATE_TEST_SUITE_P(InputStream, EveryPacking,
                         ::testing::Values(Compression::kGzip, Compression::kZlib),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(InputStream, AutoTakesGzipByItsMagicBytes) {
  EXPECT_EQ(stream_of(gzip(bytes_of("a")))->compression(), Compression::kGzip);
  for (const std::string plain : {"", "\x1f", "text"}) {
    EXPECT_EQ(stream_of(plain)->compression(), Compression::kNone);
    EXPECT_EQ(rest_of(*stream_of(plain), 10), plain);
  }
}

TEST(InputStream, MembersThatFollowEachOtherAreOneContent) {
  const std::string text = content_of(400'000);
  const std::string bytes = gzip(bytes_of(text)) + gzip(bytes_of("")) + gzip(bytes_of("end"));
  EXPECT_EQ(rest_of(*stream_of(bytes), 1000), text + "end");
}

TEST_P(EveryPacking, EveryCutOfAPackedFileIsFoundAfterTheGoodRecords) {
  const std::string text = content_of(600);
  const std::string bytes = packed_as(GetParam(), text);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    const auto stream = stream_of(cut, GetParam());
    const Result<Bytes> whole = stream->peek(601);
    ASSERT_FALSE(whole.ok()) << length;
    EXPECT_EQ(whole.error().kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(whole.error().message(),
                AllOf(HasSubstr("'test'"), HasSubstr("cut short"),
                      HasSubstr("at compressed byte " + std::to_string(length))));
    const Bytes good = stream->peek(0).value();
    EXPECT_EQ(text_of(good), text.substr(0, good.size()));
    EXPECT_THAT(whole.error().message(),
                HasSubstr("; " + std::to_string(good.size()) + " uncompressed bytes"));
    stream->consume(good.size());
    EXPECT_FALSE(stream->peek(1).ok());  // and again
  }
}

TEST_P(EveryPacking, FlippedBitsOfAPackedFileNeverGiveAnotherContent) {
  const std::string text = content_of(300);
  const std::string bytes = packed_as(GetParam(), text);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto stream = stream_of(damaged, GetParam());
    const Result<Bytes> whole = stream->peek(10'000'000);
    if (whole.ok()) {
      EXPECT_EQ(text_of(whole.value()), text) << bit;
    } else {
      EXPECT_EQ(whole.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

TEST(InputStream, ForeignBytesSayWhatTheyAreNot) {
  for (const Compression compression : {Compression::kGzip, Compression::kZlib}) {
    const Error plain = stream_of("no stream at all", compression)->peek(1).error();
    EXPECT_EQ(plain.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(plain.hint(), HasSubstr("is the file compressed as"));
    const std::string more = packed_as(compression, "content") + "more";
    EXPECT_THAT(stream_of(more, compression)->peek(100).error().message(),
                HasSubstr("bytes that belong to no stream"));
  }
}

TEST(InputStream, APlainFileMayGrow) {
  TempDirectory temp;
  FileSystem& files = local_file_system();
  const auto writer = files.open_writer(temp / "log").value();
  const auto stream = InputStream::open(files, temp / "log").value();
  EXPECT_TRUE(stream->peek(1).value().empty());
  writer->append(bytes_of("abc")).value();
  EXPECT_EQ(text_of(stream->peek(5).value()), "abc");
  writer->append(bytes_of("def")).value();
  EXPECT_EQ(text_of(stream->peek(5).value()), "abcdef");
}

TEST(InputStream, MissingFilesAreNotFound) {
  TempDirectory temp;
  EXPECT_EQ(InputStream::open(local_file_system(), temp / "none").error().kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::inline v0_1::formats
