#include "muster/formats/example_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "muster/base/random.h"

namespace muster::inline v0_1::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Strings = std::vector<std::string>;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

// Examples parsed into columns, in the order of the plan.
struct Parsed {
  std::vector<Floats> floats{};  // memory of fixed columns
  std::vector<Integers> integers{};
  std::vector<FeatureColumn> columns{};
  Status status;
};

Parsed parse(const std::vector<FeaturePlan>& features, const std::vector<std::string>& examples) {
  const ExamplePlan plan = ExamplePlan::compile(features).value();
  Parsed parsed{.floats = std::vector<Floats>(features.size()),
                .integers = std::vector<Integers>(features.size()),
                .columns = std::vector<FeatureColumn>(features.size()),
                .status = {}};
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].form != FeatureForm::kFixed) continue;
    const size_t numbers = static_cast<size_t>(plan.width(i)) * examples.size();
    parsed.floats[i].resize(numbers, -1);
    parsed.integers[i].resize(numbers, -1);
    if (features[i].kind == FeatureKind::kFloat) {
      parsed.columns[i].floats = parsed.floats[i].data();
    } else {
      parsed.columns[i].integers = parsed.integers[i].data();
    }
  }
  ExampleBatch batch(plan, parsed.columns);
  for (const std::string& example : examples) {
    parsed.status = batch.add(bytes_of(example));
    if (!parsed.status.ok()) break;
  }
  return parsed;
}

Error error_for(const FeaturePlan& feature, const FeatureMap& features) {
  return parse({feature}, {encode_example({features})}).status.error();
}

Strings strings_of(const FeatureColumn& column) {
  Strings all;
  for (size_t i = 0; i + 1 < column.ends.size(); ++i) {
    all.push_back(column.bytes.substr(static_cast<size_t>(column.ends[i]),
                                      static_cast<size_t>(column.ends[i + 1] - column.ends[i])));
  }
  return all;
}

const FeaturePlan kX{.key = "x", .kind = FeatureKind::kFloat, .shape = {2}};
const FeaturePlan kN{.key = "n", .kind = FeatureKind::kInt64};
const FeaturePlan kS{.key = "s", .kind = FeatureKind::kBytes, .shape = {2}};

TEST(ExampleBatch, FillsFixedColumnsRowByRow) {
  const Parsed parsed =
      parse({kX, kN, kS},
            {encode_example({{{"x", Floats{1, 2}}, {"n", Integers{-7}}, {"s", Strings{"a", ""}}}}),
             encode_example({{{"s", Strings{"bc", "d"}},
                              {"nobody asked", Floats{9}},
                              {"n", Integers{INT64_MAX}},
                              {"x", Floats{3, 4}}}})});
  parsed.status.value();
  EXPECT_THAT(parsed.floats[0], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(parsed.integers[1], ElementsAre(-7, INT64_MAX));
  EXPECT_THAT(strings_of(parsed.columns[2]), ElementsAre("a", "", "bc", "d"));
}

TEST(ExampleBatch, AppendsWhatChangesInLength) {
  std::vector<FeaturePlan> features = {kX, kN, kS};
  for (FeaturePlan& feature : features) {
    feature.form = FeatureForm::kVariable;
    feature.shape = {};
  }
  features[0].form = FeatureForm::kSequence;
  features[0].shape = {2};
  features[0].allow_missing = true;
  const Parsed parsed = parse(
      features,
      {encode_example({{{"x", Floats{1, 2, 3, 4}}, {"n", Integers{300}}}}), encode_example({}),
       encode_example({{{"x", Floats{}}, {"n", Integers{}}, {"s", Strings{"a", "b"}}}}),
       encode_example({{{"x", Floats{5, 6}}, {"n", Integers{1, -1}}, {"s", Strings{}}}})});
  parsed.status.value();
  EXPECT_THAT(parsed.columns[0].float_values, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(parsed.columns[0].row_lengths, ElementsAre(4, 0, 0, 2));
  EXPECT_THAT(parsed.columns[1].integer_values, ElementsAre(300, 1, -1));
  EXPECT_THAT(parsed.columns[1].row_lengths, ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(strings_of(parsed.columns[2]), ElementsAre("a", "b"));
  EXPECT_THAT(parsed.columns[2].row_lengths, ElementsAre(0, 0, 2, 0));
}

TEST(ExampleBatch, TheLaterOfTwoEntriesCounts) {
  for (const FeatureForm form : {FeatureForm::kFixed, FeatureForm::kVariable}) {
    std::vector<FeaturePlan> features = {kX, kN, kS};
    for (FeaturePlan& feature : features) feature.form = form;
    // Features fields in two parts are one map. The first entries would be errors alone.
    const std::string twice =
        encode_example({{{"x", Integers{1}}, {"n", Integers{5, 6}}, {"s", Strings{"zz"}}}}) +
        encode_example({{{"x", Floats{8, 9}}, {"n", Integers{7}}, {"s", Strings{"a", "b"}}}});
    const Parsed parsed = parse(features, {twice, twice});
    parsed.status.value();
    const bool fixed = form == FeatureForm::kFixed;
    EXPECT_THAT(fixed ? parsed.floats[0] : parsed.columns[0].float_values, ElementsAre(8, 9, 8, 9));
    EXPECT_THAT(fixed ? parsed.integers[1] : parsed.columns[1].integer_values, ElementsAre(7, 7));
    EXPECT_THAT(strings_of(parsed.columns[2]), ElementsAre("a", "b", "a", "b"));
  }
}

TEST(ExampleBatch, DefaultsFillMissingFeatures) {
  std::vector<FeaturePlan> features = {kX, kN, kS};
  features[0].default_value = Floats{0.5f, 1.5f};
  features[1].default_value = Integers{3};
  features[2].default_value = Strings{"?"};
  const Parsed parsed =
      parse(features, {encode_example({{{"n", std::monostate()}}}),
                       encode_example({{{"x", Floats{1, 2}}, {"n", Integers{4}}}})});
  parsed.status.value();
  EXPECT_THAT(parsed.floats[0], ElementsAre(0.5f, 1.5f, 1, 2));
  EXPECT_THAT(parsed.integers[1], ElementsAre(3, 4));
  EXPECT_THAT(strings_of(parsed.columns[2]), ElementsAre("?", "?", "?", "?"));
}

TEST(ExampleBatch, ErrorsNameTheKeyAndWhatIsThere) {
  const Error missing = error_for(kX, {{"X", Floats{1}}, {"y", Floats{2}}});
  EXPECT_EQ(missing.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("\"x\" is missing"), HasSubstr("'X', 'y'")));
  EXPECT_THAT(missing.hint(), HasSubstr("did you mean \"X\""));
  EXPECT_THAT(error_for(kX, {}).hint(), HasSubstr("default_value"));
  EXPECT_THAT(error_for(kX, {{"x", Integers{1, 2}}}).message(),
              HasSubstr("\"x\" holds int64 values, not float"));
  EXPECT_THAT(error_for(kX, {{"x", Floats{1}}}).message(),
              HasSubstr("\"x\" holds 1 values, but its shape [2] takes 2"));
  EXPECT_THAT(error_for(kN, {{"n", Integers{1, 2, 3}}}).message(),
              HasSubstr("holds 3 values, but its shape [] takes 1"));
  EXPECT_THAT(error_for(kS, {{"s", Strings{"a", "b", "c"}}}).message(),
              HasSubstr("holds 3 values"));
  FeaturePlan steps = kX;
  steps.form = FeatureForm::kSequence;
  EXPECT_THAT(error_for(steps, {{"x", Floats{1, 2, 3}}}).message(),
              HasSubstr("3 values, which are not whole steps of shape [2]"));
  EXPECT_THAT(error_for(steps, {}).hint(), HasSubstr("allow_missing"));
}

TEST(ExamplePlan, RefusesWhatCannotBe) {
  const auto refuses = [](const std::vector<FeaturePlan>& features) {
    const auto plan = ExamplePlan::compile(features);
    return !plan.ok() && plan.error().kind() == ErrorKind::kInvalidArgument;
  };
  EXPECT_TRUE(refuses({kX, kN, kX}));
  EXPECT_TRUE(refuses({{.key = "x", .kind = FeatureKind::kNone}}));
  EXPECT_TRUE(refuses({{.key = "x", .shape = {-1}}}));
  EXPECT_TRUE(refuses({{.key = "x", .shape = {INT64_MAX, 2}}}));
  EXPECT_TRUE(refuses({{.key = "x", .form = FeatureForm::kSequence, .shape = {0}}}));
  EXPECT_TRUE(refuses({{.key = "x", .shape = {3}, .default_value = Floats{1, 2}}}));
  EXPECT_TRUE(refuses({{.key = "x", .default_value = Integers{1}}}));
  EXPECT_FALSE(refuses({kX, kN, kS, {.key = "", .shape = {0}}}));
}

// Makes examples of features of all kinds, in any order, some of them twice, and some that are not
// in the plan.
class RandomExamples {
 public:
  explicit RandomExamples(std::vector<FeaturePlan> features) : features_(std::move(features)) {}

  std::string next() {
    std::string bytes;
    for (uint32_t part = 0; part <= below(3); ++part) {
      FeatureMap map;
      for (const FeaturePlan& feature : features_) {
        if (below(5) == 0) continue;
        map.emplace_back(feature.key, random_feature(feature.kind));
        if (below(6) == 0) map.emplace_back("unasked", random_feature(FeatureKind::kFloat));
      }
      if (below(3) == 0) std::reverse(map.begin(), map.end());
      bytes += encode_example({map});
    }
    return bytes;
  }

 private:
  uint32_t below(uint32_t bound) { return random_.next_u32() % bound; }

  Feature random_feature(FeatureKind kind) {
    const size_t count = below(4) == 0 ? 200 : below(4);
    if (kind == FeatureKind::kFloat) {
      Floats values(count);
      for (float& value : values) value = static_cast<float>(below(1000));
      return values;
    }
    if (kind == FeatureKind::kInt64) {
      Integers values(count);
      for (int64_t& value : values) {
        value = static_cast<int64_t>(random_.next_u64() >> below(64)) * (below(2) == 0 ? 1 : -1);
      }
      return values;
    }
    Strings values(count);
    for (std::string& value : values) value = std::string(below(200), 'x');
    return values;
  }

  std::vector<FeaturePlan> features_;
  Random random_{derive_key(7, {})};
};

// Invariant: the batch contains what decode_example() returns.
TEST(ExampleBatch, AgreesWithTheDecoder) {
  std::vector<FeaturePlan> features;
  for (int i = 0; i < 9; ++i) {
    features.push_back({.key = "key" + std::to_string(i),
                        .kind = static_cast<FeatureKind>(1 + i % 3),
                        .form = FeatureForm::kVariable});
  }
  RandomExamples random(features);
  std::vector<std::string> examples;
  std::vector<Floats> floats(features.size());
  std::vector<Integers> integers(features.size());
  std::vector<Strings> strings(features.size());
  for (int row = 0; row < 300; ++row) {
    const std::string bytes = random.next();
    examples.push_back(bytes);
    const FeatureMap decoded = decode_example(bytes_of(bytes)).value().features;
    for (size_t i = 0; i < features.size(); ++i) {
      for (const auto& [key, feature] : decoded) {
        if (key != features[i].key) continue;
        const auto append = [](const auto* from, auto& to) {
          if (from != nullptr) to.insert(to.end(), from->begin(), from->end());
        };
        append(std::get_if<Floats>(&feature), floats[i]);
        append(std::get_if<Integers>(&feature), integers[i]);
        append(std::get_if<Strings>(&feature), strings[i]);
      }
    }
  }
  const Parsed parsed = parse(features, examples);
  parsed.status.value();
  for (size_t i = 0; i < features.size(); ++i) {
    EXPECT_EQ(parsed.columns[i].float_values, floats[i]);
    EXPECT_EQ(parsed.columns[i].integer_values, integers[i]);
    EXPECT_EQ(strings_of(parsed.columns[i]), strings[i]);
    EXPECT_EQ(parsed.columns[i].row_lengths.size(), examples.size());
  }
}

TEST(ExampleBatch, DamageIsFoundOrHarmless) {
  const std::string good =
      encode_example({{{"x", Floats{1, 2}}, {"n", Integers{300}}, {"s", Strings{"text", "more"}}}});
  for (size_t length = 1; length < good.size(); ++length) {
    EXPECT_FALSE(parse({kX, kN, kS}, {good.substr(0, length)}).status.ok()) << length;
  }
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const Parsed parsed = parse({kX, kN, kS}, {good, damaged});
    if (!parsed.status.ok()) continue;
    EXPECT_EQ(strings_of(parsed.columns[2]).size(), 4u);
  }
  const Error error = parse({kX}, {"\x0a\x05<html"}).status.error();
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("7 bytes are not a tf.Example: damage at byte 2"));
}

}  // namespace
}  // namespace muster::inline v0_1::formats
