#include "muster/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/random.h"

namespace muster::inline v0_1 {
namespace {

// RFC 3720, appendix B.4, and the check value of the Castagnoli polynomial.
TEST(Crc32c, PublishedVectors) {
  std::string up, down;
  for (int i = 0; i < 32; ++i) {
    up += static_cast<char>(i);
    down += static_cast<char>(31 - i);
  }
  EXPECT_EQ(crc32c(bytes_of("")), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(crc32c(bytes_of(up)), 0x46dd794eu);
  EXPECT_EQ(crc32c(bytes_of(down)), 0x113fdb5cu);
}

TEST(Crc32c, TablesAndInstructionAgreeAtEveryLengthAndAlignment) {
  Random random(derive_key(1, {}));
  std::string text(128, '\0');
  for (char& letter : text) letter = static_cast<char>(random.next_u32());
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t length = 0; length + begin <= text.size(); ++length) {
      const Bytes bytes = bytes_of(text).subspan(begin, length);
      const uint32_t whole = crc32c(bytes);
      EXPECT_EQ(whole, extend_crc32c_portable(0, bytes));
      const size_t cut = length / 3;
      EXPECT_EQ(whole, extend_crc32c(crc32c(bytes.first(cut)), bytes.subspan(cut)));
      EXPECT_EQ(whole, extend_crc32c_portable(crc32c(bytes.first(cut)), bytes.subspan(cut)));
    }
  }
}

// Long enough for parallel streams, for more than one round of them, and for a remainder.
TEST(Crc32c, LongTextsAgreeToo) {
  Random random(derive_key(2, {}));
  std::string text(20'011, '\0');
  for (char& letter : text) letter = static_cast<char>(random.next_u32());
  std::vector<size_t> lengths = {text.size(), 6143, 6144, 6145, 6336, 12'288, 12'289};
  for (size_t length = 128; length < 700; ++length) lengths.push_back(length);
  for (const size_t length : lengths) {
    const Bytes bytes = bytes_of(text).first(length);
    ASSERT_EQ(crc32c(bytes), extend_crc32c_portable(0, bytes)) << length;
    ASSERT_EQ(crc32c(bytes),
              extend_crc32c(crc32c(bytes.first(length / 2)), bytes.subspan(length / 2)));
  }
}

TEST(Crc32c, ChecksumsOfPartsGiveThatOfTheWhole) {
  Random random(derive_key(3, {}));
  std::string text(100'000, '\0');
  for (char& letter : text) letter = static_cast<char>(random.next_u32());
  const Bytes bytes = bytes_of(text);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{4095}, size_t{99'999}, text.size()}) {
    const Bytes first = bytes.first(cut), second = bytes.subspan(cut);
    EXPECT_EQ(joined_crc32c(crc32c(first), crc32c(second), second.size()), crc32c(bytes)) << cut;
  }
}

TEST(Crc32c, MaskGoesBothWays) {
  for (const uint32_t crc : {0u, 1u, 0xe3069283u, ~0u}) {
    EXPECT_EQ(unmask_crc32c(mask_crc32c(crc)), crc);
    EXPECT_NE(mask_crc32c(crc), crc);
  }
  EXPECT_EQ(mask_crc32c(0), 0xa282ead8u);
}

}  // namespace
}  // namespace muster::inline v0_1
