#include "apps/train/missing_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MissingWordsTest, SomeAreTextsAmongTexts) {
  const MissingWords words(std::nullopt);
  for (const char* text : {"", "?", "NaN", "#N/A", "<NA>", "\\N", "#DIV/0!"})
    EXPECT_EQ(words.of(text), Missing::kYes) << text;
  for (const char* text : {"NA", "n/a", "None", "NULL", "-", ".", "\xe2\x80\x94"})
    EXPECT_EQ(words.of(text), Missing::kWord) << text;
  for (const char* text : {"0", "-1", "note", "nanny", "nothing", "+", "unknown"})
    EXPECT_EQ(words.of(text), Missing::kNo) << text;
}

TEST(MissingWordsTest, AListIsAllThereIs) {
  const MissingWords words(missing_words_of("x, NA"));
  EXPECT_EQ(words.of(""), Missing::kYes);
  EXPECT_EQ(words.of("x"), Missing::kYes);
  EXPECT_EQ(words.of("NA"), Missing::kYes);
  EXPECT_EQ(words.of("na"), Missing::kNo);
  EXPECT_EQ(words.of("?"), Missing::kNo);
  EXPECT_EQ(missing_words_of("auto"), std::nullopt);
  EXPECT_THAT(missing_words_of("empty").value(), IsEmpty());
  EXPECT_THAT(missing_words_of("a,,b").value(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace muster::app
