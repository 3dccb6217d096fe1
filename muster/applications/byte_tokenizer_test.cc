#include "muster/applications/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::applications {
namespace {

TEST(ByteTokenizer, GivesBackWhatItWasGiven) {
  const ByteTokenizer tokenizer;
  for (const std::string text : {"", "Muster",
                                 "Gr\xc3\xbc\xc3\x9f"
                                 "e, \xe2\x82\xac 3",
                                 "\xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf \xed\x9f\xbf"}) {
    const std::vector<int64_t> tokens = tokenizer.encode(text);
    EXPECT_EQ(tokens.size(), text.size());
    EXPECT_EQ(tokenizer.decode(tokens), text);
  }
  EXPECT_EQ(tokenizer.encode("A\xff"), (std::vector<int64_t>{65, 255}));
}

TEST(ByteTokenizer, ReplacesWhatIsNoCharacter) {
  const ByteTokenizer tokenizer;
  const std::string mark = "\xef\xbf\xbd";
  EXPECT_EQ(tokenizer.decode({0x41, 0xff, 0x42}), "A" + mark + "B");
  // The example of the Unicode standard, table 3-8: a longest beginning becomes one.
  EXPECT_EQ(tokenizer.decode({0xe1, 0x80, 0xe2, 0xf0, 0x91, 0x92, 0xf1, 0xbf, 0x41}),
            mark + mark + mark + mark + "A");
  // Overlong forms and surrogates, table 3-9: each byte becomes one.
  EXPECT_EQ(tokenizer.decode({0xc0, 0xaf, 0xe0, 0x80, 0xbf, 0xed, 0xa0, 0x80, 0x41}),
            mark + mark + mark + mark + mark + mark + mark + mark + "A");
  EXPECT_EQ(tokenizer.decode({0xe2, 0x82}), mark) << "an end that was cut off";
  EXPECT_EQ(tokenizer.decode({72, 256, 105, 1000}), "Hi") << "marks give nothing";
  EXPECT_EQ(message_of([&] { tokenizer.decode({1, -1}); }), "ByteTokenizer: the token at 1 is -1");
}

TEST(ByteTokenizer, GivesUtf8WhateverTheTokens) {
  const ByteTokenizer tokenizer;
  Random random(derive_key(1, {}));
  for (int i = 0; i < 2000; ++i) {
    std::vector<int64_t> tokens;
    for (uint64_t length = random.uniform_below(12); length > 0; --length)
      tokens.push_back(
          static_cast<int64_t>(128 * random.uniform_below(2) + random.uniform_below(128)));
    const std::string text = tokenizer.decode(tokens);
    EXPECT_TRUE(is_utf8(text));
    std::string bytes;
    for (const int64_t token : tokens) bytes.push_back(static_cast<char>(token));
    EXPECT_EQ(text == bytes, is_utf8(bytes));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::applications
