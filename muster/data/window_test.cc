// Elements in groups: window(), group_by_window(), bucket_by_sequence_length().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/random.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::string> errors_in(const Dataset& dataset) {
  const auto iterator = dataset.iterator();
  std::vector<std::string> errors;
  while (true) {
    try {
      if (!iterator->next()) return errors;
    } catch (const Error& error) {
      errors.emplace_back(error.what());
    }
  }
}
Dataset::WindowFunction same_window() {
  return [](const Dataset& window) { return window; };
}

TEST(Window, KnownCases) {
  const auto of = [](int64_t n, int64_t size, const WindowOptions& options) {
    return read(Dataset::range(n).window(size, options));
  };
  EXPECT_EQ(of(7, 3, {.drop_remainder = true}), (Lists{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(of(7, 3, {.shift = 1, .stride = 2}),
            (Lists{{0, 2, 4}, {1, 3, 5}, {2, 4, 6}, {3, 5}, {4, 6}, {5}, {6}}));
  EXPECT_EQ(of(4, 2, {.shift = 2, .stride = 2}), (Lists{{0, 2}, {2}}));
  EXPECT_EQ(of(5, 10, {.shift = 10, .drop_remainder = true}), (Lists{}));
  EXPECT_EQ(of(8, 2, {.shift = 3}), (Lists{{0, 1}, {3, 4}, {6, 7}}));
}

// Against the definition: window k has the elements from k * shift on, `stride` apart.
TEST(Window, OfAnySizesAgreesWithTheDefinition) {
  Random random(derive_key(5, {1}));
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.uniform_below(n)); };
  for (int trial = 0; trial < 150; ++trial) {
    const int64_t n = below(20), size = 1 + below(5), shift = 1 + below(7), stride = 1 + below(3);
    const bool drop = below(2) == 0, sequential = below(2) == 0;
    SCOPED_TRACE(fmt::format("range({}).window({}, {}, {}, {})", n, size, shift, stride, drop));
    Lists expected;
    for (int64_t begin = 0; begin < n; begin += shift) {
      std::vector<int64_t> window;
      for (int64_t i = 0; i < size && begin + i * stride < n; ++i) {
        window.push_back(begin + i * stride);
      }
      if (!drop || static_cast<int64_t>(window.size()) == size) expected.push_back(window);
    }
    const Dataset numbers = sequential ? number_files({fmt::format("0-{}", n)}) : Dataset::range(n);
    const WindowOptions options{.shift = shift, .stride = stride, .drop_remainder = drop};
    EXPECT_EQ(read(numbers.window(size, options)), expected);
    const auto batched = [](const Dataset& window) { return window.batch(9); };
    EXPECT_EQ(read(numbers.window(size, batched, options)), expected);
    if (!sequential) {
      EXPECT_EQ(numbers.window(size, options).cardinality(), static_cast<int64_t>(expected.size()));
    }
  }
}

TEST(Window, GivesTheElementsOfWhatItsFunctionMakes) {
  const auto pairs = [](const Dataset& window) {
    return Dataset::zip({window.take(2).batch(2), window.skip(2).batch(1)});
  };
  EXPECT_EQ(read(Dataset::range(5).window(3, pairs, {.shift = 1, .drop_remainder = true})),
            (Lists{{0, 1, 2}, {1, 2, 3}, {2, 3, 4}}));
  // Shuffles inside draw another order for each window, and the same in every run.
  const Dataset shuffled =
      Dataset::range(40).window(10, [](const Dataset& window) { return window.shuffle(10); });
  const std::vector<int64_t> order = flat(shuffled, 3);
  EXPECT_EQ(order, flat(shuffled, 3));
  std::vector<int64_t> second;
  for (int64_t i = 0; i < 10; ++i) second.push_back(order[static_cast<size_t>(i)] + 10);
  EXPECT_NE(std::vector(order.begin() + 10, order.begin() + 20), second);
  EXPECT_EQ(read(Dataset::range(4).window(2, [](const Dataset&) { return Dataset::range(0); })),
            (Lists{}));
}

// The code that gets an element may write to it, although windows overlap.
TEST(Window, ElementsHaveMemoryOfTheirOwn) {
  const auto write = [](const Element& x) {
    Tensor(x.value().tensor()).add_(100);
    return x;
  };
  EXPECT_EQ(
      read(Dataset::range(3).window(
          2, [&](const Dataset& window) { return window.map(write).batch(2); }, {.shift = 1})),
      (Lists{{100, 101}, {101, 102}, {102}}));
}

TEST(Window, ErrorsNameTheElement) {
  const Dataset bad = failing_on(2, number_files({"0-5"}));
  EXPECT_EQ(read(bad.window(2, {.shift = 1})), (Lists{{0, 1}, {-1}, {-1}, {3, 4}, {4}}));
  EXPECT_THAT(errors_in(bad.window(2)).at(0), HasSubstr("failed on element 2 of 0-5"));
  EXPECT_EQ(read(bad.window(2, same_window(), {.shift = 1})),
            (Lists{{0}, {1}, {1}, {-1}, {-1}, {3}, {3}, {4}, {4}}));
  EXPECT_THAT(errors_in(bad.window(2, same_window())).at(0),
              AllOf(HasSubstr("failed on element 2 of 0-5"),
                    HasSubstr("in what window(2) makes of the window that begins at element 2")));
  const auto fails = [](const Dataset&) -> Dataset { throw std::runtime_error("no data set"); };
  EXPECT_THAT(
      errors_in(Dataset::range(4).window(2, fails, {.name = "pairs"})).at(1),
      AllOf(HasSubstr("window 'pairs' failed on the window that begins at element 2 (pass 0)"),
            HasSubstr("no data set")));
  const auto behind = [](const Element& x) {
    if (numbers_in(x)[0] == 2) throw std::runtime_error("not this one");
    return x;
  };
  EXPECT_THAT(errors_in(Dataset::range(4).window(2).map(behind)).at(0),
              HasSubstr("map failed on the window that begins at element 2 (pass 0)"));
  const auto ragged = Dataset::range(3).map(
      [](const Element& x) { return Element(torch::zeros({number(x) + 1})); });
  EXPECT_THAT(errors_in(ragged.window(2)).at(0),
              AllOf(HasSubstr("that begins with source element 0"), HasSubstr("window(2)")));
}

// Replicas divide batches of windows; skipped ones are read but not put together.
TEST(Window, IsDividedBetweenReplicas) {
  const Dataset dataset =
      number_files({"0-11"}).window(2, {.shift = 1}).batch(2, {.drop_remainder = true});
  const auto of = [&](int64_t replica) {
    return read(dataset, {.sharding = {.num_replicas = 2, .replica = replica}});
  };
  EXPECT_EQ(of(0), (Lists{{0, 1, 1, 2}, {4, 5, 5, 6}}));
  EXPECT_EQ(of(1), (Lists{{2, 3, 3, 4}, {6, 7, 7, 8}}));
}

TEST(Window, RefusesWhatCannotBe) {
  const Dataset numbers = Dataset::range(3);
  for (const auto& make : std::vector<std::function<void()>>{
           [&] { (void)numbers.window(0); }, [&] { (void)numbers.window(2, {.shift = -1}); },
           [&] { (void)numbers.window(2, {.stride = 0}); },
           [&] { (void)numbers.window(2, Dataset::WindowFunction()); },
           [&] { (void)numbers.group_by_window(nullptr, nullptr, 2); }}) {
    EXPECT_EQ(error_of(make).kind(), ErrorKind::kInvalidArgument);
  }
  EXPECT_THAT(numbers.window(2, {.shift = 1}).explain(),
              HasSubstr("2 elements held, a batch every 1"));
}

int64_t modulo_3(const Element& x) { return number(x) % 3; }

// Against the definition, with a map of lists.
TEST(GroupByWindow, OfAnySizesAgreesWithTheDefinition) {
  Random random(derive_key(6, {1}));
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.uniform_below(n)); };
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t n = below(40);
    const std::vector<int64_t> sizes{1 + below(4), 1 + below(4), 1 + below(4)};
    Lists expected;
    std::map<int64_t, std::vector<int64_t>> held;
    for (int64_t i = 0; i < n; ++i) {
      std::vector<int64_t>& group = held[i % 3];
      group.push_back(i);
      if (static_cast<int64_t>(group.size()) < sizes[static_cast<size_t>(i % 3)]) continue;
      expected.push_back(group);
      held.erase(i % 3);
    }
    for (const auto& [key, group] : held) expected.push_back(group);
    const Dataset dataset = Dataset::range(n).group_by_window(
        modulo_3,
        [](int64_t key, const Dataset& window) {
          return window.batch(100).map([key](const Element& batch) {
            EXPECT_EQ(numbers_in(batch)[0] % 3, key);
            return batch;
          });
        },
        [&](int64_t key) { return sizes[static_cast<size_t>(key)]; });
    EXPECT_EQ(read(dataset), expected);
  }
}

TEST(GroupByWindow, ErrorsStayAtTheirPlace) {
  const auto window = [](int64_t, const Dataset& elements) { return elements.batch(2); };
  const Dataset bad = failing_on(4, Dataset::range(8));
  EXPECT_EQ(read(bad.group_by_window(modulo_3, window, 2)),
            (Lists{{0, 3}, {-1}, {2, 5}, {1, 7}, {6}}));
  const auto key = [](const Element& x) {
    if (number(x) == 3) throw std::runtime_error("no key");
    return int64_t{0};
  };
  const Dataset keyless = Dataset::range(5).group_by_window(key, window, 2, "by length");
  EXPECT_EQ(read(keyless), (Lists{{0, 1}, {-1}, {2, 4}}));
  EXPECT_THAT(errors_in(keyless).at(0),
              HasSubstr("group_by_window 'by length' failed on source element 3 (pass 0)"));
  const Dataset sizeless =
      Dataset::range(2).group_by_window(modulo_3, window, [](int64_t key) { return key; });
  EXPECT_THAT(errors_in(sizeless).at(0), HasSubstr("the window of key 0 has size 0"));
  EXPECT_EQ(error_of([&] { (void)Dataset::range(2).group_by_window(modulo_3, window, 0); }).kind(),
            ErrorKind::kInvalidArgument);
}

// A position holds the numbers of the waiting elements, and reads them again: nothing of elements
// that were returned.
TEST(GroupByWindow, ContinuesFromTheOldestElementThatWaits) {
  const auto key = [](const Element& x) { return number(x) == 5 ? int64_t{1} : int64_t{0}; };
  const Dataset dataset = Dataset::range(20).map(same).group_by_window(
      key, [](int64_t, const Dataset& window) { return window.batch(9); }, 4);
  const auto first = dataset.iterator();
  std::optional<Element> element;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(element = first->next());
  EXPECT_EQ(numbers_in(*element), (std::vector<int64_t>{13, 14, 15, 16}));
  EXPECT_LT(first->save().dump().size(), 500u);
  const auto second = dataset.iterator();
  second->restore(first->save());
  EXPECT_EQ(rest_of(*second), (Lists{{17, 18, 19}, {5}}));
}

// A word of `length` ones.
Element of_length(int64_t length) { return Element(torch::ones({length}, at::kLong)); }
Dataset words(std::vector<int64_t> lengths) {
  return Dataset::from_tensor_slices(Element(torch::tensor(lengths, at::kLong)))
      .map([](const Element& x) { return of_length(number(x)); });
}
int64_t length_of(const Element& x) { return x.value().tensor().size(0); }
std::vector<Shape> shapes_in(const Dataset& dataset) {
  std::vector<Shape> shapes;
  const auto iterator = dataset.iterator();
  while (const auto element = iterator->next())
    shapes.push_back(element->value().tensor().sizes().vec());
  return shapes;
}

TEST(Buckets, HoldLengthsFromOneBoundaryToBelowTheNext) {
  const Dataset data = words({1, 2, 4, 3, 5, 9, 4, 7, 2});
  BucketOptions options{.boundaries = {3, 5}, .batch_sizes = {2, 3, 2}};
  EXPECT_EQ(shapes_in(data.bucket_by_sequence_length(length_of, options)),
            (std::vector<Shape>{{2, 2}, {2, 9}, {3, 4}, {1, 2}, {1, 7}}));
  options.padding.drop_remainder = true;
  EXPECT_EQ(shapes_in(data.bucket_by_sequence_length(length_of, options)),
            (std::vector<Shape>{{2, 2}, {2, 9}, {3, 4}}));
  options.padding.padding_values = {7};
  const auto iterator = data.bucket_by_sequence_length(length_of, options).iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(numbers_in(*batch), (std::vector<int64_t>{1, 7, 1, 1}));
}

TEST(Buckets, PadToTheirBoundary) {
  const Dataset data = words({1, 2, 4, 3, 4, 6});
  const BucketOptions options{
      .boundaries = {3, 6}, .batch_sizes = {2, 2, 2}, .pad_to_bucket_boundary = true};
  const Dataset dataset = data.bucket_by_sequence_length(length_of, options);
  EXPECT_EQ(shapes_in(dataset.ignore_errors()), (std::vector<Shape>{{2, 2}, {2, 5}, {1, 5}}));
  EXPECT_THAT(errors_in(dataset).at(0),
              AllOf(HasSubstr("bucket_by_sequence_length failed on source element 5"),
                    HasSubstr("the length 6 is not below the last boundary, 6")));
}

TEST(Buckets, WithoutPaddingTakeElementsOfOneShape) {
  const Dataset data = words({2, 4, 2, 4, 2});
  EXPECT_EQ(shapes_in(data.bucket_by_sequence_length(
                length_of, {.boundaries = {3}, .batch_sizes = {3, 2}, .no_padding = true})),
            (std::vector<Shape>{{2, 4}, {3, 2}}));
}

TEST(Buckets, RefuseWhatCannotBe) {
  const Dataset data = words({1});
  const auto refused = [&](const BucketOptions& options) {
    return error_of([&] { (void)data.bucket_by_sequence_length(length_of, options); }).message();
  };
  EXPECT_THAT(refused({.boundaries = {3, 5}, .batch_sizes = {1, 1}}),
              HasSubstr("2 batch sizes for 2 boundaries"));
  EXPECT_THAT(refused({.boundaries = {5, 5}, .batch_sizes = {1, 1, 1}}),
              HasSubstr("boundary 1 is 5, after 5"));
  EXPECT_THAT(refused({.boundaries = {5}, .batch_sizes = {1, 0}}), HasSubstr("a batch size is 0"));
  EXPECT_THAT(
      error_of([&] {
        (void)data.bucket_by_sequence_length(length_of, {.boundaries = {3}, .batch_sizes = {1, 1}})
            .iterator({.sharding = {.num_replicas = 2}});
      }).what(),
      AllOf(HasSubstr("behind bucket_by_sequence_length"), HasSubstr("shard()")));
}

}  // namespace
}  // namespace muster::inline v0_1
