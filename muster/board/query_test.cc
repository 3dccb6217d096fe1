#include "muster/board/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::board {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Query, Values) {
  const Query query("a=1&b=x%20y%2Bz+w&c&n=-2.5e3");
  EXPECT_EQ(query.integer("a", 0, 9), 1);
  EXPECT_EQ(query.text("b"), "x y+z w");
  EXPECT_TRUE(query.has("c"));
  EXPECT_EQ(query.text("d", "other"), "other");
  EXPECT_EQ(query.integer("d", 0, 9, 4), 4);
  EXPECT_EQ(query.number("n"), -2500);
  EXPECT_EQ(query.number("d"), std::nullopt);
}

TEST(Query, ListsOfNumbers) {
  EXPECT_THAT(Query("r=0,3,7-9").numbers("r", 10), ElementsAre(0, 3, 7, 8, 9));
  for (const char* wrong : {"", "r=", "r=10", "r=-1", "r=3-1", "r=a", "r=0-99999999999999999999",
                            "r=0-9,0-9", "r=1-", "r=0-4000000000"})
    EXPECT_THAT(message_of([&] { (void)Query(wrong).numbers("r", 10); }), HasSubstr("'r'"))
        << wrong;
}

TEST(Query, WrongValuesAreNamed) {
  EXPECT_THAT(message_of([] { (void)Query("a=12").integer("a", 0, 9); }),
              HasSubstr("'a' is '12'; it must be a whole number from 0 to 9"));
  EXPECT_THAT(message_of([] { (void)Query("").integer("a", 0, 9); }), HasSubstr("'a'"));
  EXPECT_THAT(message_of([] { (void)Query("a=inf").number("a"); }), HasSubstr("finite"));
  for (const char* wrong : {"a=%", "a=%4", "a=%zz"})
    EXPECT_THAT(message_of([&] { (void)Query(wrong); }), HasSubstr("hexadecimal")) << wrong;
}

}  // namespace
}  // namespace muster::inline v0_1::board
