// The law of positions for pipelines without an index, on random compositions: an iterator saved
// anywhere and restored gives the same rest.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/random.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

// Draws pipelines whose elements are int64 scalars, or batches of them.
class Pipelines {
 public:
  explicit Pipelines(uint64_t trial) : random_(derive_key(11, {trial})) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_.uniform_below(static_cast<uint64_t>(n)));
  }

  Dataset source() {
    switch (below(4)) {
      case 0:
        return Dataset::range(below(20));
      case 1:
        return Dataset::from_generator([n = below(15)]() -> Dataset::Generator {
          return [n, next = int64_t{0}]() mutable -> std::optional<Element> {
            if (next == n) return std::nullopt;
            return Element(torch::scalar_tensor(next++, at::kLong));
          };
        });
      default: {
        std::vector<std::string> files;
        for (int64_t f = below(4); f >= 0; --f) {
          files.push_back(
              fmt::format("{}-{}{}", 100 * f, 100 * f + below(9), below(6) == 0 ? "bad" : ""));
        }
        if (below(8) == 0) files.push_back("missing");
        return number_files(files, below(2) == 0);
      }
    }
  }

  Dataset scalars(int depth) {
    Dataset dataset = source();
    for (int64_t i = below(4); i > 0; --i) dataset = stage(dataset, depth);
    return dataset;
  }

  Dataset pipeline() {
    Dataset dataset = scalars(2);
    if (below(3) == 0) return dataset;
    dataset = below(5) == 0 ? dataset.padded_batch(1 + below(4)) : dataset.batch(1 + below(4));
    for (int64_t i = below(3); i > 0; --i) {
      switch (below(7)) {
        case 0:
          dataset = dataset.rebatch({1 + below(3), below(3)}, {.drop_remainder = below(3) == 0});
          break;
        case 1:
          dataset = dataset.shuffle(1 + below(4));
          break;
        case 2:
          dataset = dataset.unbatch().batch(1 + below(5));
          break;
        case 3:
          dataset = dataset.prefetch(1 + below(3));
          break;
        case 4:
          dataset = dataset.cache().repeat(below(3));
          break;
        case 5:
          dataset = dataset.map([](const Element& x) { return Element(x.value().tensor() + 1); },
                                {.num_parallel_calls = 1 + below(3)});
          break;
        default:
          dataset = dataset.take(below(6));
      }
    }
    return dataset;
  }

 private:
  Dataset stage(const Dataset& dataset, int depth) {
    switch (below(depth > 0 ? 15 : 11)) {
      case 0:
        return dataset.filter([k = 2 + below(3)](const Element& x) {
          return x.value().tensor().item<int64_t>() % k != 0;
        });
      case 1:
        return dataset.take(below(12));
      case 2:
        return dataset.skip(below(4));
      case 3:
        return dataset.shuffle(1 + below(8), {.reshuffle_each_iteration = below(3) > 0});
      case 4:
        return dataset.repeat(below(3));
      case 5:
        return dataset.prefetch(1 + below(3));
      case 6:
        return dataset.cache();
      case 7:
        return dataset.ignore_errors();
      case 8:
        return dataset.shard(1 + below(2), 0);
      case 9:
        return dataset.map(
            [](const Element& x, RandomKey key) {
              return Element(x.value().tensor() * 100 +
                             static_cast<int64_t>(Random(key).next_u32() % 97));
            },
            {.num_parallel_calls = 1 + below(3)});
      case 10:
        return dataset.enumerate(below(5)).map([](const Element& x) {
          return Element(x.part(0).value().tensor() * 1000 + x.part(1).value().tensor());
        });
      case 11:
        return dataset.concatenate(scalars(depth - 1));
      case 12:
        return Dataset::zip({dataset, scalars(depth - 1)}).map([](const Element& x) {
          return Element(x.part(0).value().tensor() * 7 + x.part(1).value().tensor());
        });
      case 13:
        return dataset.flat_map([inner = scalars(depth - 1)](const Element& x) {
          const int64_t n = x.value().tensor().item<int64_t>() % 4;
          return n == 3 ? inner : Dataset::range(n).shuffle(4);
        });
      default:
        return dataset.interleave(
            [inner = scalars(depth - 1)](const Element& x) {
              const int64_t n = x.value().tensor().item<int64_t>();
              return n % 3 == 0 ? inner.take(3) : Dataset::range(n, n + n % 5);
            },
            {.cycle_length = 1 + below(3),
             .block_length = 1 + below(3),
             .parallel = below(3) == 0});
    }
  }

  Random random_;
};

class StreamLaws : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
};

TEST_F(StreamLaws, AnyPositionOfAnyPipelineGivesTheSameRest) {
  int64_t checked = 0;
  for (uint64_t trial = 0; trial < 600; ++trial) {
    Pipelines pipelines(trial);
    const Dataset dataset = pipelines.pipeline();
    SCOPED_TRACE(fmt::format("trial {}: {}", trial, dataset.describe()));
    const auto whole = rest_of(*dataset.iterator({.seed = 3}));
    if (whole.size() > 150) continue;
    if (dataset.cardinality() >= 0) {
      ASSERT_EQ(dataset.cardinality(), static_cast<int64_t>(whole.size()));
    }
    const auto iterator = dataset.iterator({.seed = 3});
    const size_t stride = 1 + whole.size() / 12;
    Element element;
    for (size_t i = 0; i <= whole.size(); ++i) {
      if (i % stride == 0) {
        const std::string saved = iterator->save().dump();
        const auto other = dataset.iterator({.seed = 9});
        other->restore(json::parse(saved));
        ASSERT_EQ(other->position(), iterator->position()) << "element " << i << " of " << saved;
        ASSERT_EQ(rest_of(*other),
                  std::vector(whole.begin() + static_cast<int64_t>(i), whole.end()))
            << "continued at element " << i << " from " << saved;
        ++checked;
      }
      try {
        iterator->next(&element);
      } catch (const Error&) {  // an element like others
      }
    }
  }
  EXPECT_GT(checked, 2000);
}

TEST_F(StreamLaws, APositionSavedTwiceOnTheWayIsStillExact) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    Pipelines pipelines(5000 + trial);
    const Dataset dataset = pipelines.pipeline();
    SCOPED_TRACE(fmt::format("trial {}: {}", trial, dataset.describe()));
    const auto whole = rest_of(*dataset.iterator({.seed = 3}));
    if (whole.size() > 100 || whole.size() < 3) continue;
    std::vector<std::vector<int64_t>> got;
    json saved = dataset.iterator({.seed = 3})->save();
    while (got.size() < whole.size()) {
      const auto iterator = dataset.iterator({.seed = 1});
      iterator->restore(saved);
      Element element;
      for (int64_t n = 1 + pipelines.below(4); n > 0; --n) {
        try {
          if (!iterator->next(&element)) break;
          got.push_back(numbers_in(element));
        } catch (const Error&) {
          got.push_back({-1});
        }
      }
      saved = iterator->save();
    }
    ASSERT_EQ(got, whole);
  }
}

TEST_F(StreamLaws, AnUnorderedMapLosesNothingAndGivesNothingTwice) {
  for (uint64_t trial = 0; trial < 40; ++trial) {
    Pipelines pipelines(9000 + trial);
    const int64_t n = 1 + pipelines.below(40);
    const Dataset dataset = number_files({fmt::format("0-{}", n)})
                                .map([](const Element& x) { return x; },
                                     {.num_parallel_calls = 3, .deterministic = false});
    std::vector<int64_t> seen;
    json saved = dataset.iterator()->save();
    bool more = true;
    while (more) {
      const auto iterator = dataset.iterator();
      iterator->restore(saved);
      Element element;
      for (int64_t k = 1 + pipelines.below(7); k > 0; --k) {
        more = iterator->next(&element);
        if (!more) break;
        seen.push_back(numbers_in(element)[0]);
      }
      saved = iterator->save();
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(static_cast<int64_t>(seen.size()), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
