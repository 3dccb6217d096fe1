#include "muster/files/regular_expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Groups = RegularExpression::Groups;

TEST(RegularExpressionTest, IsFoundSomewhereOrIsTheWhole) {
  const RegularExpression bias("bias$");
  EXPECT_EQ(bias.pattern(), "bias$");
  EXPECT_TRUE(bias.search("dense/bias"));
  EXPECT_FALSE(bias.search("dense/bias_1"));
  EXPECT_FALSE(bias.full_match("dense/bias"));
  EXPECT_TRUE(bias.full_match("bias"));
  EXPECT_TRUE(RegularExpression("").search(""));
}

TEST(RegularExpressionTest, GivesWhatParenthesesTook) {
  const RegularExpression file(R"((.+)-(\d+)(-of-\d+)?)");
  Groups groups{"as it was"};
  EXPECT_FALSE(file.full_match("model", &groups));
  EXPECT_THAT(groups, ElementsAre("as it was"));
  ASSERT_TRUE(file.full_match("model-12", &groups));
  EXPECT_THAT(groups, ElementsAre("model-12", "model", "12", ""));
  ASSERT_TRUE(RegularExpression(R"(\d(\d))").search("a 12 34", &groups));
  EXPECT_THAT(groups, ElementsAre("12", "2"));
}

TEST(RegularExpressionTest, SaysWhatIsWrongInAPattern) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"(a", "\"(a\" is not a regular expression: missing ): (a"},
      {"[a", "\"[a\" is not a regular expression: missing ]: [a"},
      {"[z-a]", "\"[z-a]\" is not a regular expression: invalid character class range: z-a"},
      {"a**", "\"a**\" is not a regular expression: bad repetition operator: **"},
      {"a(?=b)", "\"a(?=b)\" is not a regular expression: invalid perl operator: (?="},
      {"(a)\\1", "\"(a)\\1\" is not a regular expression: invalid escape sequence: \\1"}};
  for (const auto& [pattern, message] : wrong) {
    const Error error = error_of([&] { RegularExpression{pattern}; });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(), message);
    EXPECT_THAT(error.hint(), HasSubstr("RE2"));
  }
}

// An expression that tries one way after another never ends here, or runs out of stack.
TEST(RegularExpressionTest, LongTextsTakeLinearTime) {
  const std::string text(1'000'000, 'a');
  EXPECT_TRUE(RegularExpression("(((a))*)*$").full_match(text));
  EXPECT_FALSE(RegularExpression("(a|a)*b").search(text));
}

TEST(RegularExpressionTest, NamesAreBytes) {
  EXPECT_TRUE(
      RegularExpression("a.b").full_match("a\xff"
                                          "b"));
  EXPECT_TRUE(RegularExpression("\xc3\xa9$").search("caf\xc3\xa9"));
}

}  // namespace
}  // namespace muster::inline v0_1
