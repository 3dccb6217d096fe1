#include "muster/formats/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/gzip.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

IdxArray small_array() { return {.type = IdxType::kUint8, .shape = {2, 3}, .data = "abcdef"}; }

TEST(Idx, HasTheBytesOfTheFormat) {
  EXPECT_EQ(encode_idx(small_array()).value(), std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
                                                           "abcdef",
                                                           18));
  IdxArray numbers{.type = IdxType::kInt32, .shape = {1}};
  append_little_endian<int32_t>(numbers.data, 0x01020304);
  EXPECT_EQ(encode_idx(numbers).value(), std::string("\0\0\x0c\x01\0\0\0\x01\x01\x02\x03\x04", 12));
}

TEST(Idx, EveryTypeComesBackPlainAndPacked) {
  TempDirectory temp;
  for (const IdxType type : {IdxType::kUint8, IdxType::kInt8, IdxType::kInt16, IdxType::kInt32,
                             IdxType::kFloat32, IdxType::kFloat64}) {
    IdxArray array{.type = type, .shape = {3, 2, 2}, .data = {}};
    for (size_t i = 0; i < 12 * size_of(type); ++i) array.data += static_cast<char>(i * 7);
    for (const bool packed : {false, true}) {
      write_idx(local_file_system(), temp / "a", array, {.gzip = packed}).value();
      EXPECT_EQ(is_gzip(bytes_of(local_file_system().read_file(temp / "a").value())), packed);
      const IdxArray back = read_idx(local_file_system(), temp / "a").value();
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.shape, array.shape);
      EXPECT_EQ(back.data, array.data);
      EXPECT_EQ(back.size(), 12);
    }
  }
}

TEST(Idx, EmptyAndScalarShapes) {
  const IdxArray none = parse_idx(bytes_of(encode_idx({.shape = {0, 28}}).value()), "x").value();
  EXPECT_EQ(none.size(), 0);
  const IdxArray one =
      parse_idx(bytes_of(encode_idx({.shape = {}, .data = "z"}).value()), "x").value();
  EXPECT_EQ(one.data, "z");
  // Sizes whose product would pass 2^64, one of them 0: an empty array still.
  std::string huge("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  EXPECT_THAT(parse_idx(bytes_of(huge), "x").error().message(), HasSubstr("0 found"));
  const std::string empty = huge.replace(3, 1, "\x04") + std::string(4, '\0');
  const IdxArray array = parse_idx(bytes_of(empty), "x").value();
  EXPECT_EQ(array.size(), 0);
  EXPECT_EQ(encode_idx(array).value(), empty);
}

TEST(Idx, ErrorsSayWhatIsWrong) {
  TempDirectory temp;
  EXPECT_EQ(read_idx(local_file_system(), temp / "none").error().kind(), ErrorKind::kNotFound);
  const auto page = parse_idx(bytes_of("<html>"), "images");
  EXPECT_EQ(page.error().kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(page.error().message(), AllOf(HasSubstr("'images'"), HasSubstr("3c 68 74 6d")));
  const std::string good = encode_idx(small_array()).value();
  EXPECT_THAT(
      parse_idx(bytes_of(good.substr(0, 15)), "x").error().message(),
      AllOf(HasSubstr("6 bytes of data expected"), HasSubstr("3 found"), HasSubstr("cut short")));
  EXPECT_THAT(parse_idx(bytes_of(good + "!"), "x").error().message(), HasSubstr("too long"));
  const std::string packed = gzip(bytes_of(good));
  EXPECT_THAT(parse_idx(bytes_of(packed.substr(0, packed.size() - 3)), "x").error().message(),
              HasSubstr("gzip stream is cut short"));
}

TEST(Idx, RefusesToWriteWhatDoesNotFit) {
  EXPECT_FALSE(encode_idx({.shape = {2}, .data = "a"}).ok());
  EXPECT_FALSE(encode_idx({.shape = {-1}, .data = ""}).ok());
  EXPECT_FALSE(encode_idx({.shape = {int64_t{1} << 33}, .data = ""}).ok());
  EXPECT_FALSE(encode_idx({.shape = std::vector<int64_t>(256, 1), .data = "a"}).ok());
}

TEST(Idx, EveryPrefixIsCorrupt) {
  const std::string plain = encode_idx(small_array()).value();
  for (const std::string& whole : {plain, gzip(bytes_of(plain))}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto parsed = parse_idx(bytes_of(whole.substr(0, length)), "x");
      ASSERT_FALSE(parsed.ok()) << length;
      EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
    }
  }
}

TEST(Idx, FlippedBitsGiveAnAnswer) {
  const std::string plain = encode_idx(small_array()).value();
  for (const std::string& whole : {plain, gzip(bytes_of(plain))}) {
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      const auto parsed = parse_idx(bytes_of(damaged), "x");
      if (!parsed.ok()) {
        EXPECT_EQ(parsed.error().kind(), ErrorKind::kCorrupt);
      } else {
        EXPECT_EQ(parsed.value().data.size(),
                  static_cast<size_t>(parsed.value().size()) * size_of(parsed.value().type));
      }
    }
  }
}

TEST(Gzip, RoundTripsAndJoinsMembers) {
  Random random(derive_key(2, {}));
  std::string noise(100'000, '\0');
  for (char& letter : noise) letter = static_cast<char>(random.next_u32());
  for (const std::string& text : {std::string(), std::string(1'000'000, 'a'), noise}) {
    EXPECT_EQ(gunzip(bytes_of(gzip(bytes_of(text))), "x").value(), text);
  }
  EXPECT_EQ(gunzip(bytes_of(gzip(bytes_of("one")) + gzip(bytes_of("two"))), "x").value(), "onetwo");
  EXPECT_FALSE(gunzip(bytes_of(gzip(bytes_of("one")) + "junk"), "x").ok());
  EXPECT_EQ(gzip(bytes_of(noise)), gzip(bytes_of(noise)));
}

TEST(RealFiles, Mnist) {
  const char* folder = std::getenv("MUSTER_TEST_DATA");
  // Files written by others do not come with the project: ./dev test names their folder.
  if (folder == nullptr) GTEST_SKIP() << "MUSTER_TEST_DATA is not set";
  for (const char* set : {"mnist", "fashion-mnist"}) {
    const IdxArray images =
        read_idx(local_file_system(),
                 join_path(folder, std::string(set) + "/t10k-images-idx3-ubyte.gz"))
            .value();
    EXPECT_EQ(images.shape, (std::vector<int64_t>{10000, 28, 28}));
    EXPECT_EQ(images.data.size(), 7'840'000u);
    const IdxArray labels =
        read_idx(local_file_system(),
                 join_path(folder, std::string(set) + "/t10k-labels-idx1-ubyte.gz"))
            .value();
    EXPECT_EQ(labels.size(), 10000);
    for (const char label : labels.data) ASSERT_LT(static_cast<unsigned char>(label), 10);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
