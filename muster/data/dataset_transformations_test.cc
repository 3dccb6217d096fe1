// The result of each transformation, element by element; the known cases of tf.data among them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset repeated(int64_t value, int64_t times) {
  return Dataset::range(value, value + 1).repeat(times);
}

TEST(Range, HasAStartAStopAndAStep) {
  EXPECT_THAT(flat(Dataset::range(2, 11, 3)), ElementsAre(2, 5, 8));
  EXPECT_THAT(flat(Dataset::range(5, 0, -2)), ElementsAre(5, 3, 1));
  EXPECT_TRUE(read(Dataset::range(4, 4)).empty());
  EXPECT_EQ(Dataset::range(2, 11, 3).cardinality(), 3);
  EXPECT_EQ(error_of([] { Dataset::range(0, 4, 0); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(Interleave, TakesBlocksInTurnAndRefillsWhenTheCursorReturns) {
  const auto cycle = [](int64_t from, int64_t to, int64_t cycle_length, int64_t block_length,
                        std::function<int64_t(int64_t)> times, bool parallel = false) {
    return flat(Dataset::range(from, to).interleave(
        [times](const Element& x) { return repeated(number(x), times(number(x))); },
        {.cycle_length = cycle_length, .block_length = block_length, .parallel = parallel}));
  };
  for (const bool parallel : {false, true}) {
    EXPECT_EQ(cycle(
                  1, 6, 2, 4, [](int64_t) { return 6; }, parallel),
              (std::vector<int64_t>{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3,
                                    3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5}));
    EXPECT_EQ(cycle(
                  1, 5, 2, 3, [](int64_t) { return 4; }, parallel),
              (std::vector<int64_t>{1, 1, 1, 2, 2, 2, 1, 2, 3, 3, 3, 4, 4, 4, 3, 4}));
    EXPECT_EQ(cycle(
                  1, 5, 2, 1, [](int64_t x) { return x; }, parallel),
              (std::vector<int64_t>{1, 2, 2, 3, 3, 4, 3, 4, 4, 4}));
  }
}

TEST(Interleave, AFunctionThatThrowsIsAnErrorAtItsPlace) {
  const Dataset dataset = Dataset::range(3).flat_map(
      [](const Element& x) {
        if (number(x) == 1) throw invalid_argument("no such list");
        return repeated(number(x), 2);
      },
      "lists");
  EXPECT_EQ(read(dataset), (Lists{{0}, {0}, {-1}, {2}, {2}}));
  const auto iterator = dataset.iterator();
  iterator->next();
  iterator->next();
  EXPECT_THAT(error_of([&] { iterator->next(); }).what(),
              AllOf(HasSubstr("flat_map 'lists'"), HasSubstr("no such list")));
}

TEST(Interleave, DataSetsOfUnequalArgumentsShuffleDifferently) {
  const auto orders = read(Dataset::range(2).flat_map(
      [](const Element&) { return Dataset::range(50).shuffle(50).batch(50); }));
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Zip, EndsWithTheShortest) {
  const Dataset zipped = Dataset::zip({Dataset::range(3), Dataset::range(10, 15)});
  EXPECT_EQ(read(zipped), (Lists{{0, 10}, {1, 11}, {2, 12}}));
  EXPECT_EQ(zipped.cardinality(), 3);
  EXPECT_EQ(read(zipped.repeat(2)), (Lists{{0, 10}, {1, 11}, {2, 12}, {0, 10}, {1, 11}, {2, 12}}));
  const Dataset named = Dataset::zip({{"b", Dataset::range(2)}, {"a", Dataset::range(5, 7)}});
  std::optional<Element> element;
  ASSERT_TRUE(element = named.iterator()->next());
  EXPECT_EQ(element->at("b").value().tensor().item<int64_t>(), 0);
  EXPECT_EQ(element->at("a").value().tensor().item<int64_t>(), 5);
}

TEST(Zip, BranchesShuffleDifferently) {
  const auto rows =
      read(Dataset::zip({Dataset::range(50).shuffle(50), Dataset::range(50).shuffle(50)}));
  int equal = 0;
  for (const auto& row : rows) equal += row[0] == row[1] ? 1 : 0;
  EXPECT_LT(equal, 10);
}

TEST(Concatenate, GivesOneAfterTheOther) {
  const Dataset both = Dataset::range(2).concatenate(Dataset::range(10, 12));
  EXPECT_THAT(flat(both), ElementsAre(0, 1, 10, 11));
  EXPECT_EQ(both.cardinality(), 4);
  EXPECT_EQ(both.repeat().cardinality(), kInfinite);
  EXPECT_THAT(both.describe(), HasSubstr("concatenate[range(2), range(2)]"));
}

TEST(Enumerate, CountsFromAStart) {
  EXPECT_EQ(read(Dataset::range(7, 9).enumerate(5)), (Lists{{5, 7}, {6, 8}}));
}

TEST(Filter, KeepsWhatThePredicateSays) {
  const Dataset even =
      Dataset::range(10).filter([](const Element& x) { return number(x) % 2 == 0; });
  EXPECT_THAT(flat(even), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_EQ(even.cardinality(), kUnknown);
  EXPECT_EQ(read(even.batch(2)), (Lists{{0, 2}, {4, 6}, {8}}));
  const Dataset failing = Dataset::range(3).filter(
      [](const Element& x) -> bool {
        if (number(x) == 1) throw invalid_argument("odd");
        return true;
      },
      "even");
  EXPECT_EQ(read(failing), (Lists{{0}, {-1}, {2}}));
}

TEST(IgnoreErrors, LeavesOutWhatFailed) {
  const Dataset dataset = Dataset::range(5).map([](const Element& x) {
    if (number(x) % 2 == 1) throw invalid_argument("odd");
    return x;
  });
  EXPECT_EQ(read(dataset), (Lists{{0}, {-1}, {2}, {-1}, {4}}));
  EXPECT_EQ(read(dataset.ignore_errors()), (Lists{{0}, {2}, {4}}));
  EXPECT_EQ(read(dataset.ignore_errors().batch(2)), (Lists{{0, 2}, {4}}));
}

TEST(Unbatch, GivesRowsBack) {
  EXPECT_EQ(read(Dataset::range(7).batch(3).unbatch().batch(2)),
            (Lists{{0, 1}, {2, 3}, {4, 5}, {6}}));
}

TEST(Rebatch, CutsBatchesToSizes) {
  const auto rebatched = [](int64_t n, int64_t size, std::vector<int64_t> sizes,
                            bool drop = false) {
    return read(Dataset::range(n).batch(size).rebatch(std::move(sizes), {.drop_remainder = drop}));
  };
  EXPECT_EQ(rebatched(8, 4, {2, 2}), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(rebatched(12, 4, {6}), (Lists{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(rebatched(3, 4, {1, 0}), (Lists{{0}, {}, {1}, {}, {2}, {}}));
  EXPECT_EQ(rebatched(5, 2, {3}), (Lists{{0, 1, 2}, {3, 4}}));
  EXPECT_EQ(rebatched(5, 2, {3}, true), (Lists{{0, 1, 2}}));
  EXPECT_EQ(error_of([] {
              Dataset::range(2).batch(1).rebatch({0, 0});
            }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(PaddedBatch, PadsToTheLargestOrTheShapeAskedFor) {
  const Dataset lists = Dataset::range(1, 4).map([](const Element& x) {
    const int64_t n = number(x);
    return Element(torch::arange(n * (n - 1) / 2 + 1, n * (n - 1) / 2 + 1 + n));
  });
  EXPECT_EQ(read(lists.padded_batch(2)), (Lists{{1, 0, 2, 3}, {4, 5, 6}}));
  EXPECT_EQ(read(lists.padded_batch(2, {.padded_shapes = {{4}}, .padding_values = {-1}})),
            (Lists{{1, -1, -1, -1, 2, 3, -1, -1}, {4, 5, 6, -1}}));
  const auto iterator = lists.padded_batch(3, {.padded_shapes = {{2}}}).iterator();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("[3]"), HasSubstr("[2]")));
}

TEST(PaddedBatch, FillsTextsOfTwoAxesWithEmptyOnes) {
  const auto table = [](const Element& number) -> Element {
    const int64_t rows = 1 + number.value().tensor().item<int64_t>();
    std::string bytes;
    std::vector<int64_t> offsets{0};
    for (int64_t i = 0; i < 2 * rows; ++i) {
      bytes += static_cast<char>('a' + i);
      offsets.push_back(i + 1);
    }
    return Strings({2, rows}, offsets, bytes);
  };
  const auto batch = Dataset::range(2).map(table).padded_batch(2).iterator()->next();
  const Strings texts = batch->value().strings();
  EXPECT_EQ(texts.shape(), (Shape{2, 2, 2}));
  std::string all;
  for (int64_t i = 0; i < texts.size(); ++i) all += std::string(texts[i]) + ",";
  EXPECT_EQ(all, "a,,b,,a,b,c,d,");
}

// One long row among many short ones would be 800 MB.
TEST(PaddedBatch, FewBytesDoNotBecomeManyByBeingFilledUp) {
  const Dataset rows = Dataset::range(5000).map([](const Element& x) {
    return Element(torch::zeros({number(x) == 7 ? 20'000 : 1}, at::kLong));
  });
  const auto iterator = rows.padded_batch(5000).iterator();
  const Error error = error_of([&] { iterator->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("5000 rows of up to [20000]"),
                                  HasSubstr("bucket_by_sequence_length")));
}

TEST(Cache, RunsWhatIsBeforeItOnce) {
  std::atomic<int> calls{0};
  const Dataset dataset = Dataset::range(4)
                              .map([&](const Element& x) {
                                ++calls;
                                return x;
                              })
                              .cache()
                              .repeat(3)
                              .batch(4);
  EXPECT_EQ(read(dataset), (Lists{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 1, 2, 3}}));
  EXPECT_EQ(calls, 4);
}

TEST(Cache, AFileIsWrittenOnceAndReadByLaterRuns) {
  const TempDirectory folder;
  const std::string path = folder.path() + "/kept";
  int calls = 0;
  const auto counted = [&](const Element& x) {
    ++calls;
    return Element::dict(
        {{"x", x},
         {"s", Element(Value::stack({Value(Strings({std::to_string(number(x))}))}).row(0))}});
  };
  const Dataset dataset =
      Dataset::range(4).map(counted).cache(path).repeat(2).map([](const Element& x) {
        EXPECT_EQ(x.at("s").value().strings()[0], std::to_string(number(x.at("x"))));
        return x.at("x");
      });
  const Lists twice{{0}, {1}, {2}, {3}, {0}, {1}, {2}, {3}};
  EXPECT_EQ(read(dataset), twice);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(read(dataset), twice);  // another run
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(read(Dataset::range(5).cache(path)), (Lists{{-1}}));  // not its file
  EXPECT_THAT(error_of([&] { Dataset::range(5).cache(path).iterator()->next(); }).what(),
              AllOf(HasSubstr(path), HasSubstr("another pipeline")));
}

TEST(Cache, APassThatWasLeftOrFailedLeavesNoFile) {
  const TempDirectory folder;
  const std::string path = folder.path() + "/kept";
  {
    const auto iterator = Dataset::range(4).cache(path).iterator();
    iterator->next();
  }
  EXPECT_EQ(read(number_files({"0-3bad"}).cache(path)), (Lists{{0}, {-1}, {2}}));
  EXPECT_FALSE(local_file_system().exists(path).value());
  EXPECT_TRUE(local_file_system().list_directory(folder.path()).value().empty());
}

TEST(Cache, APositionInAFileContinues) {
  const TempDirectory folder;
  const Dataset dataset = Dataset::range(4).cache(folder.path() + "/kept").repeat(3);
  const auto iterator = dataset.iterator();
  std::vector<nlohmann::json> saved{iterator->save()};
  while (iterator->next()) saved.push_back(iterator->save());
  ASSERT_EQ(saved.size(), 13u);
  for (size_t i = 0; i < saved.size(); ++i) {
    const auto other = dataset.iterator();
    other->restore(saved[i]);
    EXPECT_EQ(rest_of(*other).size(), 12 - i);
  }
}

TEST(Cache, ACallerMayWriteToItsElement) {
  const Dataset dataset = Dataset::range(2).cache().repeat(2).map([](const Element& x) {
    Tensor(x.value().tensor()).add_(10);
    return x;
  });
  EXPECT_EQ(read(dataset), (Lists{{10}, {11}, {10}, {11}}));
}

TEST(AssertCardinality, FindsTooFewAndTooMany) {
  const Dataset even =
      Dataset::range(6).filter([](const Element& x) { return number(x) % 2 == 0; });
  EXPECT_EQ(even.assert_cardinality(3).cardinality(), 3);
  EXPECT_EQ(read(even.assert_cardinality(3)), (Lists{{0}, {2}, {4}}));
  EXPECT_EQ(read(even.assert_cardinality(4)), (Lists{{0}, {2}, {4}, {-1}}));
  EXPECT_EQ(read(even.assert_cardinality(2)), (Lists{{0}, {2}, {-1}}));
  EXPECT_EQ(error_of([] { Dataset::range(3).assert_cardinality(4); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST(ParallelMap, KeepsTheOrderAndTheErrors) {
  const auto slow = [](const Element& x) {
    if (number(x) == 7) throw invalid_argument("seven");
    volatile int64_t sum = 0;
    for (int64_t i = 0; i < (20 - number(x)) * 1000; ++i) sum = sum + i;
    return x;
  };
  Lists expected;
  for (int64_t i = 0; i < 20; ++i) expected.push_back({i == 7 ? -1 : i});
  for (const Dataset& dataset : {Dataset::range(20), number_files({"0-20"})}) {
    EXPECT_EQ(read(dataset.map(slow, {.num_parallel_calls = 4})), expected) << dataset.describe();
    Lists unordered = read(dataset.map(slow, {.num_parallel_calls = 4, .deterministic = false}));
    std::sort(unordered.begin(), unordered.end());
    Lists sorted = expected;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(unordered, sorted) << dataset.describe();
  }
  const auto batched = Dataset::range(6).map(slow, {.num_parallel_calls = 3}).batch(3);
  EXPECT_EQ(read(batched), (Lists{{0, 1, 2}, {3, 4, 5}}));
}

TEST(Files, AreReadInOrderAndDamageIsAtItsPlace) {
  EXPECT_THAT(flat(number_files({"0-3", "10-12"})), ElementsAre(0, 1, 2, 10, 11));
  EXPECT_EQ(read(number_files({"0-3bad", "missing", "10-12"})),
            (Lists{{0}, {-1}, {2}, {-1}, {10}, {11}}));
  const auto iterator = number_files({"missing"}).iterator();
  EXPECT_EQ(error_of([&] { iterator->next(); }).kind(), ErrorKind::kNotFound);
  EXPECT_FALSE(iterator->next());
}

TEST(Files, RowsReadTogetherBecomeABatchAndShuffleLikeOthers) {
  const Dataset files = number_files({"0-100", "100-200"});
  EXPECT_EQ(read(files.batch(80)).size(), 3u);
  const auto shuffled = read(files.shuffle(30).batch(200));
  std::vector<int64_t> sorted = shuffled.at(0);
  for (size_t i = 0; i < sorted.size(); ++i) EXPECT_LT(sorted[i], static_cast<int64_t>(i) + 30);
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
  std::sort(sorted.begin(), sorted.end());
  std::vector<int64_t> all(200);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
}

TEST(Generator, IsMadeAnewEachPass) {
  int made = 0;
  const Dataset dataset = Dataset::from_generator([&made]() -> Dataset::Generator {
    ++made;
    return [next = int64_t{0}]() mutable -> std::optional<Element> {
      if (next == 2) {
        ++next;
        throw invalid_argument("two");
      }
      return next == 4 ? std::nullopt
                       : std::optional(Element(torch::scalar_tensor(next++, at::kLong)));
    };
  });
  EXPECT_EQ(read(dataset.repeat(2)), (Lists{{0}, {1}, {-1}, {3}, {0}, {1}, {-1}, {3}}));
  EXPECT_EQ(made, 2);
}

TEST(Explain, SaysHowStagesRun) {
  const std::string text = Dataset::range(100)
                               .shuffle(100)
                               .map([](const Element& x) { return x; })
                               .batch(10)
                               .prefetch()
                               .explain();
  EXPECT_THAT(text, AllOf(HasSubstr("a full permutation, of indices"),
                          HasSubstr("elements read and mapped where the batch is made"),
                          HasSubstr("2 ahead on a thread of its own")));
}

TEST(Times, CountElementsOfEveryStage) {
  const auto iterator = number_files({"0-10"})
                            .filter([](const Element& x) { return number(x) < 6; })
                            .batch(2)
                            .iterator();
  (void)rest_of(*iterator);
  const auto times = iterator->times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times[0].stage, "numbers(1 file)");
  EXPECT_EQ(times[0].elements, 10);
  EXPECT_EQ(times[1].elements, 6);
  EXPECT_EQ(times[2].elements, 3);
}

// A cache changes only time: in each pass maps after it draw the same numbers as without it.
TEST(Cache, KeysAfterItAreThoseOfThePass) {
  const auto drawn = [](const Element&, RandomKey key) {
    return Element(
        torch::scalar_tensor(static_cast<int64_t>(Random(key).uniform_below(1 << 30)), at::kLong));
  };
  const auto rows = [](const Dataset& dataset) { return rest_of(*dataset.iterator({.seed = 3})); };
  for (const bool twice : {false, true}) {
    const TempDirectory dir;
    const Dataset input = number_files({"0-4", "10-14"}).shuffle(3).repeat(twice ? 2 : 1);
    const auto expected = rows(input.map(drawn).repeat(3));
    EXPECT_NE(expected.front(), expected[expected.size() / 3]);
    const Dataset cached = input.cache().map(drawn).repeat(3);
    const auto all = rows(cached);
    // The order is the one of the first pass, so later on the numbers belong to other elements.
    ASSERT_EQ(all.size(), expected.size());
    EXPECT_TRUE(std::equal(all.begin(), all.begin() + static_cast<int64_t>(all.size() / 3),
                           expected.begin()));
    const auto sorted = [](auto lists) {
      std::sort(lists.begin(), lists.end());
      return lists;
    };
    EXPECT_EQ(sorted(all), sorted(expected));
    if (!twice) {
      const Dataset filed = input.cache(dir / "kept").map(drawn).repeat(3);
      EXPECT_EQ(rows(filed), all);
      EXPECT_EQ(rows(filed), all);  // of the file there is now
    }
    for (const int64_t done : {0, 3, 8, 11, 16, 20}) {
      const auto iterator = cached.iterator({.seed = 3});
      for (int64_t i = 0; i < done; ++i) ASSERT_TRUE(iterator->next());
      const auto again = cached.iterator({.seed = 3});
      again->restore(iterator->save());
      EXPECT_EQ(rest_of(*again), rest_of(*iterator)) << done;
    }
  }
}

// A cache whose input repeats below it: no two passes of the whole draw the same number.
TEST(Cache, PassesOverAnInputThatRepeatsDrawNumbersOfTheirOwn) {
  const auto drawn = [](const Element&, RandomKey key) {
    return Element(
        torch::scalar_tensor(static_cast<int64_t>(Random(key).next_u64() >> 1), at::kLong));
  };
  const Dataset numbers = Dataset::range(5), files = number_files({"0-4", "10-14"});
  const std::vector<Dataset> inputs{numbers.repeat(2),
                                    numbers.repeat(2).repeat(3),
                                    files.repeat(3).shuffle(24),
                                    numbers.repeat().take(12),
                                    files.concatenate(numbers.repeat(2)),
                                    Dataset::zip({numbers.repeat(2), files.repeat(2)})};
  for (const Dataset& input : inputs) {
    const TempDirectory folder;
    const auto pipeline = [&](const Dataset& cached) { return cached.map(drawn).repeat(3); };
    const auto rows = [&](const Dataset& dataset) {
      return rest_of(*dataset.iterator({.seed = 3}));
    };
    const Lists in_memory = rows(pipeline(input.cache()));
    EXPECT_EQ(std::set(in_memory.begin(), in_memory.end()).size(), in_memory.size())
        << input.describe();
    const Dataset filed = pipeline(input.cache(folder / "kept"));
    EXPECT_EQ(rows(filed), in_memory) << input.describe();
    EXPECT_EQ(rows(filed), in_memory) << "of the file, " << input.describe();
  }
}

}  // namespace
}  // namespace muster::inline v0_1
