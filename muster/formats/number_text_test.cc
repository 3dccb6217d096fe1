#include "muster/formats/number_text.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>

#include "muster/base/random.h"

namespace muster::inline v0_1::formats {
namespace {

void expect_as_c_reads_it(const std::string& text) {
  float single = 0;
  ASSERT_TRUE(parse_number(text, &single)) << text;
  EXPECT_EQ(std::bit_cast<uint32_t>(single),
            std::bit_cast<uint32_t>(std::strtof(text.c_str(), nullptr)))
      << text;
  double wide = 0;
  ASSERT_TRUE(parse_number(text, &wide)) << text;
  EXPECT_EQ(std::bit_cast<uint64_t>(wide),
            std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr)))
      << text;
}

std::string printed(const char* format, double number) {
  std::array<char, 64> text;
  return {text.data(),
          static_cast<size_t>(std::snprintf(text.data(), text.size(), format, number))};
}

TEST(NumberText, RandomNumbersAreThoseOfStrtofAndStrtod) {
  Random random(derive_key(7, {1}));
  for (int i = 0; i < 20'000; ++i) {
    // Decimals as files have them, of every length.
    std::string text = random.next_u32() % 2 == 0 ? "-" : "";
    const uint64_t before = random.uniform_below(12), behind = random.uniform_below(14);
    for (uint64_t k = 0; k < before; ++k) text += static_cast<char>('0' + random.uniform_below(10));
    text += '.';
    for (uint64_t k = 0; k < behind; ++k) text += static_cast<char>('0' + random.uniform_below(10));
    if (before + behind == 0) text += '0';
    expect_as_c_reads_it(text);
    if (random.next_u32() % 4 == 0) {
      expect_as_c_reads_it(text + "e" +
                           std::to_string(static_cast<int>(random.uniform_below(40)) - 20));
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    // Every bit pattern there is, as programs print it.
    const auto single = std::bit_cast<float>(random.next_u32());
    if (!std::isfinite(single)) continue;
    expect_as_c_reads_it(printed("%.9g", single));
    expect_as_c_reads_it(printed("%g", single));
    if (std::abs(single) < 1e15) expect_as_c_reads_it(printed("%f", single));
  }
}

// Numbers half-way between two floats, and next to it: rounding to a double first hides on which
// side they lie.
TEST(NumberText, HalfWayNumbersRoundOnce) {
  Random random(derive_key(7, {2}));
  for (int i = 0; i < 5'000; ++i) {
    const float below = static_cast<float>(std::exp2(random.uniform() * 40 - 10));
    const float above = std::nextafter(below, std::numeric_limits<float>::infinity());
    const double middle = (static_cast<double>(below) + above) / 2;
    const std::string exact = printed("%.40g", middle);
    expect_as_c_reads_it(exact);
    expect_as_c_reads_it(printed("%.17g", std::nextafter(middle, 0.0)));
    expect_as_c_reads_it(printed("%.17g", middle));
    // 16 digits around it stay on the quick way.
    expect_as_c_reads_it(printed("%.15g", middle));
    expect_as_c_reads_it(printed("%.16g", middle));
  }
  // 2^24 + 1 lies half-way between two floats.
  for (const char* text : {"16777217", "16777217.0", "16777217.000000001", "16777216.999999999",
                           "9007199791611905", "9007199791611904.0", "0.1", "123456789012345678"}) {
    expect_as_c_reads_it(text);
  }
}

TEST(NumberText, EveryFormOfANumber) {
  for (const char* text : {"0",
                           "-0",
                           "0.0",
                           "-0.0",
                           "+1.5",
                           "1.",
                           ".5",
                           "-.5",
                           "1e5",
                           "1E5",
                           "1e+5",
                           "1e-5",
                           "1.5e3",
                           "1e22",
                           "1e23",
                           "1e-22",
                           "1e-23",
                           "00012",
                           "9007199254740993",
                           "0.000000000000000000000001",
                           "3.4028235e38",
                           "1.1754944e-38",
                           "1e-45",
                           "1.4e-45",
                           "18446744073709551615",
                           "1e0000003",
                           "123456789.123456789e-9",
                           "inf",
                           "-inf",
                           "Infinity",
                           "nan"}) {
    expect_as_c_reads_it(text);
  }
  float number = 0;
  ASSERT_TRUE(parse_number("\t 2.5 ", &number));
  EXPECT_EQ(number, 2.5f);
}

TEST(NumberText, TextThatIsNoNumberLeavesTheOldOne) {
  for (const char* text : {"", " ", "abc", "1x", "1 2", "--1", "+-1", "-+1", "+", "-", ".", "e5",
                           "1e", "1e+", "0x10", "1,5", "1..2", "1.2.3",
                           "\xef\xbb\xbf"
                           "1"}) {
    float single = 7;
    double wide = 7;
    int64_t whole = 7;
    EXPECT_FALSE(parse_number(text, &single)) << text;
    EXPECT_FALSE(parse_number(text, &wide)) << text;
    EXPECT_FALSE(parse_number(text, &whole)) << text;
    EXPECT_EQ(single, 7);
    EXPECT_EQ(wide, 7);
    EXPECT_EQ(whole, 7);
  }
}

TEST(NumberText, TooLargeIsNoneTooSmallIsZero) {
  float single = 7;
  double wide = 7;
  for (const char* text : {"1e39", "3.5e38", "-1e40", "1e400", "1e99999999999999999999",
                           "9999999999999999999999999999999999999999"}) {
    EXPECT_FALSE(parse_number(text, &single)) << text;
  }
  EXPECT_FALSE(parse_number("1e309", &wide));
  EXPECT_FALSE(parse_number(std::string(400, '9'), &wide));
  EXPECT_EQ(single, 7);
  for (const std::string& text :
       {std::string("1e-400"), std::string("0.001e-399"), "0." + std::string(400, '0') + "1",
        std::string("1e-99999999999999999999"), std::string("123e-9223372036854775807")}) {
    ASSERT_TRUE(parse_number(text, &single)) << text;
    EXPECT_EQ(single, 0) << text;
    ASSERT_TRUE(parse_number("-" + text, &wide)) << text;
    EXPECT_EQ(wide, 0);
    EXPECT_TRUE(std::signbit(wide));
  }
}

TEST(NumberText, WholeNumbersFitToTheLast) {
  const auto parsed = [](const std::string& text) {
    int64_t number = 7;
    EXPECT_TRUE(parse_number(text, &number)) << text;
    return number;
  };
  EXPECT_EQ(parsed("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parsed("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(parsed(" +42\t"), 42);
  EXPECT_EQ(parsed("-0"), 0);
  EXPECT_EQ(parsed(std::string(100, '0') + "12"), 12);
  int64_t number = 7;
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "18446744073709551616",
                           "99999999999999999999", "1.0", "1e3"}) {
    EXPECT_FALSE(parse_number(text, &number)) << text;
  }
  Random random(derive_key(7, {3}));
  for (int i = 0; i < 10'000; ++i) {
    const auto wanted = static_cast<int64_t>(random.next_u64() >> random.uniform_below(64));
    EXPECT_EQ(parsed(std::to_string(wanted)), wanted);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::formats
