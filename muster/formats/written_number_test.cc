#include "muster/formats/written_number.h"

#include <gtest/gtest.h>

#include <string>

namespace muster::inline v0_1::formats {
namespace {

constexpr std::optional<double> kNone;

struct Written {
  const char* text{};
  std::optional<double> point, comma;
  const char* unit = "";
};

TEST(WrittenNumberTest, MeansWhatItsMarksMean) {
  const Written all[] = {
      {"12", 12, 12},
      {" -12 ", -12, -12},
      {"+7", 7, 7},
      {"3.14", 3.14, kNone},
      {"3,14", kNone, 3.14},
      {"0.123", 0.123, kNone},
      {"0,123", kNone, 0.123},
      {"1.234", 1.234, 1234},
      {"1,234", 1234, 1.234},
      {"1,234.5", 1234.5, kNone},
      {"1.234,5", kNone, 1234.5},
      {"1,234,567", 1234567, kNone},
      {"1.234.567,89", kNone, 1234567.89},
      {"12,34,567.5", 1234567.5, kNone},
      {"1 234,5", kNone, 1234.5},
      {"1\xc2\xa0"
       "234\xc2\xa0"
       "567",
       1234567, 1234567},
      {"1\xe2\x80\xaf"
       "234,5",
       kNone, 1234.5},
      {"1\xe2\x80\x89"
       "234.5",
       1234.5, kNone},
      {"1'234.50", 1234.5, kNone},
      {"1\xe2\x80\x99"
       "234",
       1234, 1234},
      {".5", .5, kNone},
      {",5", kNone, .5},
      {"5.", 5, kNone},
      {"1e5", 1e5, 1e5},
      {"1E+05", 1e5, 1e5},
      {"1,5E-03", kNone, 1.5e-3},
      {"\xe2\x88\x92"
       "3.5",
       -3.5, kNone},
      {"\xe2\x80\x93"
       "3",
       -3, -3},
      {"12.5%", .125, kNone, "%"},
      {"12,5 %", kNone, .125, "%"},
      {"$1,234.50", 1234.5, kNone, "$"},
      {"-$5", -5, -5, "$"},
      {"$-5", -5, -5, "$"},
      {"($1,000)", -1000, -1, "$"},
      {"(12)", -12, -12},
      {"12-", -12, -12},
      {"1.234,50-", kNone, -1234.5},
      {"\xe2\x82\xac 3,50", kNone, 3.5, "\xe2\x82\xac"},
      {"1.234,50\xc2\xa0\xe2\x82\xac", kNone, 1234.5, "\xe2\x82\xac"},
      {"EUR 12", 12, 12, "EUR"},
      {"12 kg", 12, 12, "kg"},
      {"100km/h", 100, 100, "km/h"},
      {"21.5 \xc2\xb0"
       "C",
       21.5, kNone,
       "\xc2\xb0"
       "C"},
      {"0.1", 0.1, kNone},
      {"123456789012345678", 123456789012345678.0, 123456789012345678.0},
  };
  for (const Written& each : all) {
    const auto read = WrittenNumber::read(each.text);
    ASSERT_TRUE(read) << each.text;
    EXPECT_EQ(read->value(false), each.point) << each.text;
    EXPECT_EQ(read->value(true), each.comma) << each.text;
    EXPECT_EQ(read->unit(), each.unit) << each.text;
  }
}

TEST(WrittenNumberTest, OtherTextsAreNone) {
  for (const char* text : {"",
                           " ",
                           "-",
                           "x",
                           "inf",
                           "nan",
                           "NaN",
                           "-inf",
                           "1e999",
                           "1,2,3",
                           "1.2.3",
                           "1,23,4",
                           "0,123,456x1",
                           "01 234",
                           "12 34",
                           "1 2",
                           "31.05.2024",
                           "2024-05-31",
                           "5/31/24",
                           "12:30",
                           "192.168.0.1",
                           "1,234 567",
                           "A1",
                           "Q1",
                           "v2",
                           "no. 5",
                           "1st 2nd",
                           "5-10",
                           "--5",
                           "+-5",
                           "(5",
                           "5)",
                           "(-5)",
                           "((5))",
                           "0x1F",
                           "$5 kg",
                           "12 kilograms a day",
                           "5'11\"",
                           "#1",
                           "%5"}) {
    EXPECT_FALSE(WrittenNumber::read(text)) << text;
  }
  EXPECT_FALSE(WrittenNumber::read(std::string(300, '1')));
}

TEST(WrittenNumberTest, AColumnHasOneFormat) {
  const NumberFormat plain, comma{.decimal_comma = true}, kilos{.unit = "kg"};
  EXPECT_EQ(number_of("1.234", plain), 1.234);
  EXPECT_EQ(number_of("1.234", comma), 1234);
  EXPECT_EQ(number_of("3,5", comma), 3.5);
  EXPECT_EQ(number_of("3,5", plain), std::nullopt);
  EXPECT_EQ(number_of("3.5", comma), std::nullopt);
  EXPECT_EQ(number_of("12 kg", kilos), 12);
  EXPECT_EQ(number_of("12", kilos), 12);
  EXPECT_EQ(number_of("12 lb", kilos), std::nullopt);
  EXPECT_EQ(number_of("12 kg", plain), std::nullopt);
  EXPECT_EQ(number_of("inf", plain), std::nullopt);
  EXPECT_EQ(number_of("", plain), std::nullopt);
}

TEST(WrittenNumberTest, AFileHasItsMarks) {
  const auto plain = [](std::string_view text, NumberMarks marks) {
    std::string made;
    return to_plain_number(text, marks, &made) ? made : "none";
  };
  const NumberMarks german{',', '.'}, french{',', ' '}, english{'.', ','}, swiss{'.', '\''};
  EXPECT_EQ(plain(" -1.234,5 ", german), "-1234.5");
  EXPECT_EQ(plain("1.234", german), "1234");
  EXPECT_EQ(plain("3,14", german), "3.14");
  EXPECT_EQ(plain("1,5E+05", german), "1.5e05");
  EXPECT_EQ(plain("3.14", german), "none");
  EXPECT_EQ(plain("1 234", german), "none");
  EXPECT_EQ(plain("1\xc2\xa0"
                  "234,5",
                  french),
            "1234.5");
  EXPECT_EQ(plain("1,234,567.5", english), "1234567.5");
  EXPECT_EQ(plain("1,2,3", english), "none");
  EXPECT_EQ(plain("1'234", swiss), "1234");
  EXPECT_EQ(plain("\xe2\x88\x92"
                  "7",
                  english),
            "-7");
  EXPECT_EQ(plain("3,5", {.decimal = ','}), "3.5");
  EXPECT_EQ(plain("1.234", {.decimal = ','}), "none");
  EXPECT_EQ(plain("1_000", {.thousands = '_'}), "1000");
  EXPECT_EQ(plain("12 kg", english), "none");
  EXPECT_EQ(plain("nan", german), "nan");
}

TEST(WrittenNumberTest, BlanksOfUnicodeAreBlanks) {
  EXPECT_EQ(trim_all_blanks("\xc2\xa0 x y\xe2\x80\xaf\t"), "x y");
  EXPECT_EQ(trim_all_blanks("\xc2\xa0"), "");
}

}  // namespace
}  // namespace muster::inline v0_1::formats
