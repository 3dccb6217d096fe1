#include "muster/base/regular_expression.h"

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
      {"(a",
       "\"(a\" is no regular expression: a '(' or ')' has no partner, or a '*' has nothing to "
       "repeat"},
      {"[a", "\"[a\" is no regular expression: a '[' has no ']'"},
      {"[z-a]", "\"[z-a]\" is no regular expression: a range such as [z-a] runs backwards"},
      {"a**", "\"a**\" is no regular expression: a '*', '+', '?' or '{' has nothing to repeat"},
      {"a{", "\"a{\" is no regular expression: what stands in '{}' is no repetition"}};
  for (const auto& [pattern, message] : wrong) {
    const Error error = error_of([&] { RegularExpression{pattern}; });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_EQ(error.message(), message);
    EXPECT_THAT(error.hint(), HasSubstr("ECMAScript"));
  }
}

// std::regex overflows the stack on long texts, which nobody could catch.
TEST(RegularExpressionTest, TextsAreBounded) {
  const RegularExpression any("(((a))*)*$");
  EXPECT_TRUE(any.search(std::string(RegularExpression::kLongestText, 'a')));
  const std::string text(RegularExpression::kLongestText + 1, 'a');
  EXPECT_THAT(message_of([&] { any.search(text); }), HasSubstr("4097 bytes"));
  EXPECT_THAT(message_of([&] { any.full_match(text); }), HasSubstr("(((a))*)*$"));
}

}  // namespace
}  // namespace muster::inline v0_1
