#include "muster/base/base64.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

// The examples of RFC 4648.
TEST(Base64Test, IsThatOfItsStandard) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64Test, WrittenBytesAreReadBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 37);
  }
}

TEST(Base64Test, TextThatIsNotBase64IsRefused) {
  for (const char* text :
       {"Zm8", "Z!8=", "A=B=", "=Zm8", "Z===", "====", "Zm8= ", " m8=", "Zm8\n", "-__-"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace muster::inline v0_1
