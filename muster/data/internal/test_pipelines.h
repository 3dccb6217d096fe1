// For tests: pipelines drawn at random. Thread safety: as Random.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

// Draws pipelines whose elements are int64 scalars, or batches of them.
class Pipelines {
 public:
  // `held`: half of the stages hold elements back or choose among them.
  explicit Pipelines(uint64_t trial, bool held = false)
      : random_(derive_key(11, {trial})), held_(held) {}

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
    if (held_ && below(2) == 0) return held_stage(dataset, depth);
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

  static Element sum_of(const Element& x) { return Element(x.value().tensor().sum()); }
  static int64_t key_of(const Element& x, int64_t keys) {
    return (x.value().tensor().item<int64_t>() % keys + keys) % keys;
  }

  Dataset held_stage(const Dataset& dataset, int depth) {
    switch (below(depth > 0 ? 10 : 8)) {
      case 0:
        return dataset
            .window(1 + below(4),
                    {.shift = below(4), .stride = 1 + below(2), .drop_remainder = below(3) == 0})
            .map(sum_of);
      case 1:
        return dataset.window(1 + below(4),
                              [kept = below(3)](const Dataset& window) {
                                return kept == 0 ? window : window.shuffle(3).take(kept);
                              },
                              {.shift = below(4), .stride = 1 + below(2)});
      case 2:
        return dataset.group_by_window([](const Element& x) { return key_of(x, 3); },
                                       [](int64_t key, const Dataset& window) {
                                         return key == 1 ? window : window.batch(2).map(sum_of);
                                       },
                                       1 + below(4));
      case 3: {
        const Dataset rows = dataset.map(
            [](const Element& x) { return Element(x.value().tensor().expand({key_of(x, 6)})); });
        return rows
            .bucket_by_sequence_length([](const Element& x) { return x.value().tensor().size(0); },
                                       {.boundaries = {2, 5},
                                        .batch_sizes = {3, 2, 1 + below(2)},
                                        .pad_to_bucket_boundary = below(2) == 0})
            .map(sum_of);
      }
      case 4:
        return dataset.take_while([](const Element& x) { return key_of(x, 13) != 11; });
      case 5:
        return dataset.map([](const Element& x) { return Element(x.value().tensor() % 9); })
            .unique();
      case 6:
        return dataset.scan(Element(torch::scalar_tensor(3, at::kLong)), [](const Element& state,
                                                                            const Element& x) {
          if (key_of(x, 17) == 4) throw std::runtime_error("not this one");
          const Tensor next = (state.value().tensor() * 5 + x.value().tensor()) % 1001;
          return std::pair(Element(next), Element(next + 1));
        });
      case 7:
        return dataset.with_seed(static_cast<uint64_t>(below(3)));
      case 8:
        return Dataset::choose_from_datasets(
            {dataset, scalars(depth - 1), scalars(depth - 1)},
            Dataset::range(below(30)).shuffle(40).map([most = 3 + below(2)](const Element& x) {
              return Element(x.value().tensor() % most);
            }),
            below(2) == 0);
      default:
        return Dataset::sample_from_datasets(
            {dataset, scalars(depth - 1), scalars(depth - 1)},
            {.weights = {1, 0.5, 2}, .stop_on_empty_dataset = below(2) == 0});
    }
  }

  Random random_;
  const bool held_;
};

}  // namespace muster::inline v0_1
