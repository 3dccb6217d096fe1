// StringLookup and IntegerLookup.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "muster/base/hash.h"
#include "muster/base/temp_directory.h"
#include "muster/preprocessing/integer_lookup.h"
#include "muster/preprocessing/internal/test_calls.h"
#include "muster/preprocessing/string_lookup.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using ::testing::ElementsAre;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using ::testing::IsEmpty;
using testing::list;
using testing::texts;

Strings words() { return texts({"a", "c", "d", "d", "z", "b"}, {2, 3}); }

// The tests of this group are the examples of Keras's documentation.
TEST(DocumentedLookupTest, StringsWithAVocabulary) {
  expect_equal(StringLookup({.vocabulary = {"a", "b", "c", "d"}})(words()),
               ints({1, 3, 4, 4, 0, 2}, {2, 3}));
}

TEST(DocumentedLookupTest, StringsAdapted) {
  const StringLookup lookup = StringLookup().adapt(words());
  EXPECT_THAT(lookup.vocabulary(), ElementsAre("[UNK]", "d", "z", "c", "b", "a"));
}

TEST(DocumentedLookupTest, SeveralUnknownStrings) {
  const StringLookup lookup({.num_oov_indices = 2, .vocabulary = {"a", "b", "c", "d"}});
  expect_equal(lookup(texts({"a", "c", "d", "m", "z", "b"}, {2, 3})),
               ints({2, 4, 5, 0, 1, 3}, {2, 3}));
}

TEST(DocumentedLookupTest, OneHotMultiHotAndCount) {
  const auto with = [](OutputMode mode, const Strings& input) {
    return StringLookup({.vocabulary = {"a", "b", "c", "d"}, .output_mode = mode})(input);
  };
  expect_equal(
      with(OutputMode::kOneHot, texts({"a", "b", "c", "d", "z"}, {5})),
      floats({0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0}, {5, 5}));
  const Strings rows = texts({"a", "c", "d", "d", "d", "z", "b", "z"}, {2, 4});
  expect_equal(with(OutputMode::kMultiHot, rows), floats({0, 1, 0, 1, 1, 1, 0, 1, 0, 1}, {2, 5}));
  expect_equal(with(OutputMode::kCount, rows), floats({0, 1, 0, 1, 2, 2, 0, 1, 0, 1}, {2, 5}));
}

TEST(DocumentedLookupTest, TfIdf) {
  const Strings rows = texts({"a", "c", "d", "d", "d", "z", "b", "z"}, {2, 4});
  const StringLookup plain({.vocabulary = {"a", "b", "c", "d"},
                            .idf_weights = {0.25, 0.75, 0.6, 0.4},
                            .output_mode = OutputMode::kTfIdf});
  expect_close(plain(rows), floats({0, .25, 0, .6, .8, 1, 0, .75, 0, .4}, {2, 5}));
  const StringLookup with_unknown({.vocabulary = {"[UNK]", "a", "b", "c", "d"},
                                   .idf_weights = {0.9, 0.25, 0.75, 0.6, 0.4},
                                   .output_mode = OutputMode::kTfIdf});
  expect_close(with_unknown(rows), floats({0, .25, 0, .6, .8, 1.8, 0, .75, 0, .4}, {2, 5}));
}

TEST(DocumentedLookupTest, StringsInverted) {
  const StringLookup back({.vocabulary = {"a", "b", "c", "d"}, .invert = true});
  const Strings tokens = back(ints({1, 3, 4, 4, 0, 2}, {2, 3}));
  EXPECT_EQ(tokens.shape(), (Shape{2, 3}));
  EXPECT_THAT(list(tokens), ElementsAre("a", "c", "d", "d", "[UNK]", "b"));
}

TEST(DocumentedLookupTest, Integers) {
  const Tensor data = ints({12, 1138, 42, 42, 1000, 36}, {2, 3});
  const IntegerLookup given({.vocabulary = {12, 36, 1138, 42}});
  expect_equal(given(data), ints({1, 3, 4, 4, 0, 2}, {2, 3}));
  EXPECT_THAT(IntegerLookup().adapt(data).vocabulary(), ElementsAre(-1, 42, 1138, 1000, 36, 12));
  const IntegerLookup several({.num_oov_indices = 2, .vocabulary = {12, 36, 1138, 42}});
  expect_equal(several(ints({12, 1138, 42, 37, 1000, 36}, {2, 3})),
               ints({2, 4, 5, 1, 0, 3}, {2, 3}));
  const IntegerLookup back({.vocabulary = {12, 36, 1138, 42}, .invert = true});
  expect_equal(back(ints({1, 3, 4, 4, 0, 2}, {2, 3})), ints({12, 1138, 42, 42, -1, 36}, {2, 3}));
}

TEST(LookupTest, TheMaskIsZeroOrCountsForNothing) {
  const std::vector<std::string> vocabulary{"a", "b"};
  const Strings tokens = texts({"", "b", "x"}, {1, 3});
  const StringLookup numbers({.mask_token = "", .vocabulary = vocabulary});
  expect_equal(numbers(tokens), ints({0, 3, 1}, {1, 3}));
  EXPECT_THAT(numbers.vocabulary(), ElementsAre("", "[UNK]", "a", "b"));
  EXPECT_THAT(numbers.vocabulary(false), ElementsAre("a", "b"));
  EXPECT_EQ(numbers.vocabulary_size(), 4);
  const StringLookup counts(
      {.mask_token = "", .vocabulary = vocabulary, .output_mode = OutputMode::kCount});
  expect_equal(counts(tokens), floats({1, 0, 1}, {1, 3}));
  const StringLookup back({.mask_token = "", .vocabulary = numbers.vocabulary(), .invert = true});
  EXPECT_THAT(list(back(ints({0, 1, 2, 3, 99, -5}, {6}))),
              ElementsAre("", "[UNK]", "a", "b", "[UNK]", "[UNK]"));
  const IntegerLookup integers({.num_oov_indices = 0, .mask_token = 7, .vocabulary = {5, -3}});
  expect_equal(integers(ints({7, -3, 5}, {3})), ints({0, 2, 1}, {3}));
}

// The result of vocabulary() can be given to another one.
TEST(LookupTest, SpecialTokensMayStandInFront) {
  const StringLookup first = StringLookup({.num_oov_indices = 2, .mask_token = ""}).adapt(words());
  const StringLookup second(
      {.num_oov_indices = 2, .mask_token = "", .vocabulary = first.vocabulary()});
  EXPECT_EQ(first.vocabulary(), second.vocabulary());
  expect_equal(first(words()), second(words()));
}

TEST(LookupTest, MaxTokensCountsSpecialOnes) {
  const StringLookup lookup = StringLookup({.max_tokens = 4, .mask_token = "b"}).adapt(words());
  // The mask takes one place, unknown tokens another; "b" is not a token.
  EXPECT_THAT(lookup.vocabulary(), ElementsAre("b", "[UNK]", "d", "z"));
  const StringLookup padded =
      StringLookup(
          {.max_tokens = 9, .output_mode = OutputMode::kMultiHot, .pad_to_max_tokens = true})
          .adapt(words());
  expect_equal(padded(texts({"d", "?"}, {1, 2})), floats({1, 1, 0, 0, 0, 0, 0, 0, 0}, {1, 9}));
  const IntegerLookup integers =
      IntegerLookup({.max_tokens = 3, .output_mode = OutputMode::kTfIdf, .pad_to_max_tokens = true})
          .adapt(ints({5, 5, 6, 7}, {4}));
  EXPECT_THAT(integers.vocabulary(), ElementsAre(-1, 5, 7));
}

// Three documents: "x" is in two of them, though three times.
TEST(LookupTest, AdaptedWeightsAreOfDocuments) {
  const StringLookup lookup = StringLookup({.output_mode = OutputMode::kTfIdf})
                                  .adapt(texts({"x", "x", "x", "y", "z", "z"}, {3, 2}));
  ASSERT_THAT(lookup.vocabulary(), ElementsAre("[UNK]", "x", "z", "y"));
  const double x = std::log(1 + 3.0 / 3), z = std::log(1 + 3.0 / 2), y = z;
  expect_close(lookup(texts({"x", "x", "y", "?"}, {1, 4})),
               floats({(x + y + z) / 3, 2 * x, 0, y}, {1, 4}));
}

TEST(LookupTest, AnySplitIntoBatchesLearnsTheSame) {
  std::vector<std::string> values;
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < 600; ++i) {
    numbers.push_back(i * i % 53);
    values.push_back("token " + std::to_string(i * i % 53));
  }
  const Strings all = texts(values, {200, 3});
  const Tensor integers = ints(numbers, {200, 3});
  const StringLookup unadapted({.max_tokens = 20, .output_mode = OutputMode::kTfIdf});
  const IntegerLookup unadapted_integers({.max_tokens = 20});
  const StringLookup whole = unadapted.adapt(all);
  EXPECT_EQ(whole.vocabulary_size(), 20);
  for (const int64_t batch : {1, 7, 199}) {
    const StringLookup cut = unadapted.adapt(Dataset::from_tensor_slices(all).batch(batch));
    EXPECT_EQ(cut.vocabulary(), whole.vocabulary());
    expect_equal(cut(all), whole(all));
    EXPECT_EQ(
        unadapted_integers.adapt(Dataset::from_tensor_slices(integers).batch(batch)).vocabulary(),
        unadapted_integers.adapt(integers).vocabulary());
  }
}

TEST(LookupTest, UnknownTokensShareNumbersByTheirHash) {
  const StringLookup lookup({.num_oov_indices = 5, .mask_token = "", .vocabulary = {"a"}});
  for (const char* token : {"x", "yy", "zzz", "a longer one"}) {
    EXPECT_EQ(lookup(Strings::scalar(token)).item<int64_t>(),
              1 + static_cast<int64_t>(fingerprint64(token) % 5));
  }
  const IntegerLookup integers({.num_oov_indices = 3, .vocabulary = {1}});
  expect_equal(integers(ints({-1, 0, 2, 1}, {4})), ints({2, 0, 2, 3}, {4}));
}

TEST(LookupTest, VocabulariesComeFromFiles) {
  const TempDirectory folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  const StringLookup lookup({.vocabulary_file = write("words", "a\r\nb c\nd")});
  EXPECT_THAT(lookup.vocabulary(), ElementsAre("[UNK]", "a", "b c", "d"));
  const IntegerLookup integers({.vocabulary_file = write("numbers", "12\n-3\n")});
  EXPECT_THAT(integers.vocabulary(), ElementsAre(-1, 12, -3));
  const std::string bad = write("bad", "12\n1.5\n");
  EXPECT_THAT(message_of([&] { IntegerLookup({.vocabulary_file = bad}); }),
              HasSubstr("line 2 of " + bad + " is \"1.5\""));
  EXPECT_THAT(message_of([&] { StringLookup({.vocabulary_file = write("twice", "a\nb\na\n")}); }),
              HasSubstr("twice' names \"a\" twice, in lines 1 and 3"));
  const std::string empty = write("empty", "");
  EXPECT_THAT(message_of([&] { StringLookup({.vocabulary_file = empty}); }), HasSubstr("is empty"));
  const Error missing =
      error_of([&] { StringLookup({.vocabulary_file = folder.path() + "/none"}); });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound) << missing.what();
}

TEST(LookupTest, IntegersMakeALayer) {
  Calls calls;
  const Layer layer = IntegerLookup({.vocabulary = {10, 20}, .name = "ids"});
  expect_equal(layer(ints({20, 5}, {2, 1}).to(kInt32), calls.context), ints({2, 0}, {2, 1}));
  EXPECT_EQ(calls.context.name_of(layer.impl().identity()), "ids");
}

TEST(LookupTest, RowsOfNothing) {
  const StringLookup lookup({.vocabulary = {"a"}, .output_mode = OutputMode::kMultiHot});
  EXPECT_EQ(lookup(Strings({0, 4}, {0}, "")).sizes(), at::IntArrayRef({0, 2}));
  EXPECT_THAT(StringLookup().vocabulary(), IsEmpty());
}

TEST(LookupTest, OptionsOutOfRangeAreRefused) {
  const auto made = [](StringLookupOptions options) {
    return message_of([&] { StringLookup{options}; });
  };
  EXPECT_THAT(made({.max_tokens = 1}), HasSubstr("StringLookup: max_tokens is 1"));
  EXPECT_THAT(made({.max_tokens = 2, .mask_token = ""}), HasSubstr("2 numbers are for other"));
  EXPECT_THAT(made({.num_oov_indices = -1}), HasSubstr("num_oov_indices is -1"));
  EXPECT_THAT(made({.invert = true, .output_mode = OutputMode::kCount}),
              HasSubstr("invert is true, and output_mode is kCount"));
  EXPECT_THAT(made({.pad_to_max_tokens = true}), HasSubstr("pad_to_max_tokens is true"));
  EXPECT_THAT(made({.vocabulary = {"a", "b", "a"}}), HasSubstr("has \"a\" twice"));
  EXPECT_THAT(made({.mask_token = "b", .vocabulary = {"a", "b"}}), HasSubstr("the mask token"));
  EXPECT_THAT(made({.vocabulary = {"a", "[UNK]"}}), HasSubstr("means unknown tokens"));
  EXPECT_THAT(made({.vocabulary = {"[UNK]"}}), HasSubstr("the vocabulary has no tokens"));
  EXPECT_THAT(made({.max_tokens = 2, .vocabulary = {"a", "b"}}),
              HasSubstr("3 tokens, of which 1 are special, and max_tokens is 2"));
  EXPECT_THAT(made({.vocabulary = {"a"}, .vocabulary_file = "words"}),
              HasSubstr("vocabulary_file is words, and a vocabulary of 1 tokens"));
  EXPECT_THAT(made({.vocabulary = {"a"}, .idf_weights = {1}}), HasSubstr("1 idf_weights for 1"));
  EXPECT_THAT(made({.vocabulary = {"a"}, .output_mode = OutputMode::kTfIdf}),
              HasSubstr("0 idf_weights for 1 tokens, and output_mode is kTfIdf"));
}

TEST(LookupTest, CallsThatCannotBeAreRefused) {
  EXPECT_THAT(message_of([] { StringLookup()(words()); }), HasSubstr("no vocabulary yet"));
  const StringLookup known({.num_oov_indices = 0, .vocabulary = {"a"}});
  EXPECT_THAT(message_of([&] {
                known(texts({"a", "z\n"}, {2}));
              }),
              HasSubstr("\"z\\x0a\" is not in the vocabulary, and num_oov_indices is 0"));
  EXPECT_THAT(message_of([&] { known(ints({1}, {1})); }),
              HasSubstr("invert is false, and it was called with numbers"));
  EXPECT_THAT(message_of([&] { (void)known.adapt(words()); }), HasSubstr("already"));
  const IntegerLookup integers({.num_oov_indices = 0, .vocabulary = {5}});
  EXPECT_THAT(message_of([&] { integers(ints({6}, {1})); }), HasSubstr("6 is not in the"));
  EXPECT_THAT(message_of([&] { integers(torch::ones({1})); }), HasSubstr("expected integers"));
  EXPECT_THAT(message_of([] { (void)StringLookup().adapt(texts({}, {0})); }),
              HasSubstr("StringLookup.adapt: the data has no tokens"));
}

}  // namespace
}  // namespace muster::inline v0_1
