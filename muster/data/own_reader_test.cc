#include "muster/data/own_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/error_of.h"
#include "muster/data/distribute.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::HasSubstr;

// Counts to `end` from `begin`; its position is a text.
struct Counter {
  int64_t at = 0;
  int64_t reads = 0;
};

Dataset counter(int64_t end, std::shared_ptr<Counter> last = nullptr, int64_t bad = -1) {
  return from_reader([=] {
    const auto state = last ? last : std::make_shared<Counter>();
    *state = {};
    return OwnReader{.next = [=]() -> std::optional<Element> {
                       ++state->reads;
                       if (state->at == end) return std::nullopt;
                       const int64_t value = state->at++;
                       if (value == bad) throw std::runtime_error("row 4 is bad");
                       return Element(torch::tensor(value, at::kLong));
                     },
                     .save = [=] { return "at " + std::to_string(state->at); },
                     .restore =
                         [=](const std::string& text) {
                           if (!text.starts_with("at "))
                             throw std::runtime_error("no such position");
                           state->at = std::stoll(text.substr(3));
                         }};
  });
}

// Saves after each element, and reads the rest by a new iterator.
void resumes_everywhere(const Dataset& dataset) {
  const auto whole_iterator = dataset.iterator({.seed = 3});
  const Lists whole = rest_of(*whole_iterator);
  const auto first = dataset.iterator({.seed = 3});
  for (size_t n = 0; n <= whole.size(); ++n) {
    const auto second = dataset.iterator({.seed = 3});
    // Positions come from files.
    second->restore(nlohmann::json::parse(first->save().dump()));
    EXPECT_EQ(rest_of(*second), Lists(whole.begin() + static_cast<std::ptrdiff_t>(n), whole.end()))
        << dataset.describe() << " at " << n;
    if (n == whole.size()) break;
    try {
      (void)first->next();
    } catch (const Error&) {  // takes its place
    }
  }
}

TEST(OwnReaderTest, EveryPositionIsExactThroughEveryStage) {
  const Dataset rows = counter(23);
  for (const Dataset& dataset :
       {rows, rows.batch(4), rows.shuffle(7).batch(3), rows.batch(4).prefetch(3),
        rows.repeat(2).shuffle(5).batch(4).prefetch(), rows.shard(3, 1), rows.skip(2).take(9),
        rows.batch(4).unbatch().batch(5), counter(9, nullptr, 4).batch(2)}) {
    resumes_everywhere(dataset);
  }
}

TEST(OwnReaderTest, ARestoredReaderReadsNothingAgain) {
  const auto last = std::make_shared<Counter>();
  const Dataset rows = counter(1000, last);
  const auto first = rows.iterator();
  for (int i = 0; i < 900; ++i) (void)first->next();
  const auto saved = first->save();
  const auto second = rows.iterator();
  second->restore(saved);
  EXPECT_EQ(number(*second->next()), 900);
  EXPECT_EQ(last->reads, 1);
}

TEST(OwnReaderTest, TwoWorkersReadEachRowOnce) {
  Lists all;
  for (int64_t worker = 0; worker < 2; ++worker) {
    auto input = distribute(counter(20).batch(5),
                            {.num_input_pipelines = 2, .input_pipeline_id = worker}, /*seed=*/1);
    for (const auto& batch : rest_of(*input.iterator)) {
      for (const int64_t value : batch) all.push_back({value});
    }
  }
  std::sort(all.begin(), all.end());
  Lists expected;
  for (int64_t value = 0; value < 20; ++value) expected.push_back({value});
  EXPECT_EQ(all, expected);
}

TEST(OwnReaderTest, MistakesAreNamed) {
  EXPECT_EQ(error_of([] { from_reader({}); }).kind(), ErrorKind::kInvalidArgument);
  const auto first_error = [](OwnReader reader) {
    const auto iterator = from_reader([=] { return reader; }).iterator();
    return std::string(error_of([&] { (void)iterator->next(); }).what());
  };
  EXPECT_THAT(first_error({}), HasSubstr("no function `next`"));
  EXPECT_THAT(first_error({.next = [] { return std::nullopt; }, .save = [] { return ""; }}),
              HasSubstr("only one of `save` and `restore`"));
  // A position that the data does not have.
  const auto iterator = counter(5).iterator();
  (void)iterator->next();
  const auto saved = iterator->save();
  const auto other = from_reader([] {
                       return OwnReader{.next = [] { return std::nullopt; },
                                        .save = [] { return "x"; },
                                        .restore =
                                            [](const std::string& text) {
                                              throw std::runtime_error("no position " + text);
                                            }};
                     }).iterator();
  try {
    other->restore(saved);
    FAIL() << "restored";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("no position at 1"));
  }
}

TEST(OwnReaderTest, ATableAndReadyBatchesAreReadByIndex) {
  const Dataset rows =
      from_rows(12, [](int64_t i) { return Element(torch::tensor(i * i, at::kLong)); });
  EXPECT_EQ(rows.cardinality(), 12);
  resumes_everywhere(rows.shuffle(12).batch(5));
  std::vector<Element> batches;
  for (const int64_t size : {3, 2, 3}) {
    batches.push_back(Element::tuple(
        {torch::full({size, 2}, size, at::kLong), torch::full({size}, -size, at::kLong)}));
  }
  const Dataset ready = from_elements(batches);
  resumes_everywhere(ready);
  resumes_everywhere(ready.unbatch().shuffle(4).batch(3));
  const auto iterator = ready.iterator();
  iterator->next()->part(0).value().tensor().zero_();  // the list keeps its values
  EXPECT_EQ(first_number(*ready.iterator()->next()), 3);
  EXPECT_EQ(error_of([] { from_rows(-1, [](int64_t) { return Element(); }); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { from_rows(1, {}); }).kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1::data
