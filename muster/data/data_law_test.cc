// The invariants of data pipelines, on random compositions of transformations: the result agrees
// with a plain element-by-element model, any saved position continues exactly, and replicas
// together read the unsharded order.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/random.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

constexpr uint64_t kSeed = 20;

// One transformation, to be applied to a Dataset and to the model.
struct Op {
  enum Kind { kTake, kSkip, kShard, kShuffle, kRepeat, kMap, kKeyedMap, kPrefetch, kBatch } kind;
  int64_t a = 0, b = 0;  // counts; drop_remainder of kBatch, reshuffle of kShuffle in b
};

std::string describe(int64_t n, const std::vector<Op>& ops) {
  std::string text = fmt::format("range({})", n);
  constexpr const char* kNames[] = {"take", "skip",      "shard",    "shuffle", "repeat",
                                    "map",  "keyed_map", "prefetch", "batch"};
  for (const Op& op : ops) text += fmt::format(".{}({}, {})", kNames[op.kind], op.a, op.b);
  return text;
}

int64_t noise(RandomKey key) { return static_cast<int64_t>(Random(key).next_u32() % 97); }

Dataset transformed(Dataset dataset, const std::vector<Op>& ops) {
  for (const Op& op : ops) {
    switch (op.kind) {
      case Op::kTake:
        dataset = dataset.take(op.a);
        break;
      case Op::kSkip:
        dataset = dataset.skip(op.a);
        break;
      case Op::kShard:
        dataset = dataset.shard(op.a, op.b);
        break;
      case Op::kShuffle:
        dataset = dataset.shuffle(op.a, {.reshuffle_each_iteration = op.b != 0});
        break;
      case Op::kRepeat:
        dataset = dataset.repeat(op.a);
        break;
      case Op::kMap:
        dataset = dataset.map([](const Element& x) { return Element(x.value().tensor() * 3 + 1); });
        break;
      case Op::kKeyedMap:
        dataset = dataset.map([](const Element& x, RandomKey key) {
          return Element(x.value().tensor() * 100 + noise(key));
        });
        break;
      case Op::kPrefetch:
        dataset = dataset.prefetch(op.a);
        break;
      case Op::kBatch:
        dataset = dataset.batch(op.a, {.drop_remainder = op.b != 0});
        break;
    }
  }
  return dataset;
}

// The model: a list of values with the names keyed maps derive their keys from.
struct Row {
  std::vector<int64_t> values;
  int64_t index = 0, run = 0;
};

// The result of a shuffle with a window of that size.
std::vector<Row> shuffled(const std::vector<Row>& in, int64_t most,
                          std::initializer_list<uint64_t> ids) {
  Random random(derive_key(kSeed, ids));
  const auto size = static_cast<int64_t>(in.size());
  std::vector<Row> window, out;
  int64_t next = 0;
  while (next < size && next < most) window.push_back(in[next++]);
  while (!window.empty()) {
    const size_t at = random.uniform_below(window.size());
    out.push_back(window[at]);
    if (next < size) {
      window[at] = in[next++];
    } else {
      window[at] = window.back();
      window.pop_back();
    }
  }
  return out;
}

// The result of the ordinal-th map of the pipeline.
std::vector<Row> mapped(const std::vector<Row>& in, const Op& op, uint64_t ordinal) {
  std::vector<Row> out;
  for (Row row : in) {
    for (int64_t& value : row.values) {
      value = op.kind == Op::kMap
                  ? value * 3 + 1
                  : value * 100 + noise(derive_key(kSeed, {id_of("data.map"), ordinal,
                                                           static_cast<uint64_t>(row.run),
                                                           static_cast<uint64_t>(row.index)}));
    }
    out.push_back(row);
  }
  return out;
}

// The result of a batch in pass `run`.
std::vector<Row> batched(const std::vector<Row>& in, const Op& op, int64_t run) {
  const auto size = static_cast<int64_t>(in.size());
  std::vector<Row> out;
  for (int64_t begin = 0; begin < size; begin += op.a) {
    const int64_t end = std::min(size, begin + op.a);
    if (op.b != 0 && end - begin < op.a) break;
    Row batch{{}, begin, run};
    for (int64_t i = begin; i < end; ++i) batch.values.push_back(in[i].values[0]);
    out.push_back(batch);
  }
  return out;
}

// The result of ops [0, count) in pass `run`.
std::vector<Row> model(int64_t n, const std::vector<Op>& ops, size_t count, int64_t run) {
  std::vector<Row> out;
  if (count == 0) {
    for (int64_t i = 0; i < n; ++i) out.push_back({{i}, i, run});
    return out;
  }
  const Op& op = ops[count - 1];
  if (op.kind == Op::kRepeat) {
    for (int64_t k = 0; k < op.a; ++k) {
      for (Row& row : model(n, ops, count - 1, run * op.a + k)) out.push_back(std::move(row));
    }
    return out;
  }
  const std::vector<Row> in = model(n, ops, count - 1, run);
  const auto size = static_cast<int64_t>(in.size());
  const uint64_t ordinal = static_cast<uint64_t>(
      std::count_if(ops.begin(), ops.begin() + static_cast<int64_t>(count) - 1, [&](const Op& o) {
        const auto group = [](const Op& x) { return x.kind == Op::kKeyedMap ? Op::kMap : x.kind; };
        return group(o) == group(op);
      }));
  switch (op.kind) {
    case Op::kTake:
      for (int64_t i = 0; i < size && (op.a < 0 || i < op.a); ++i) out.push_back(in[i]);
      break;
    case Op::kSkip:
      for (int64_t i = op.a < 0 ? size : op.a; i < size; ++i) out.push_back(in[i]);
      break;
    case Op::kShard:
      for (int64_t i = 0; i < size; ++i) {
        if (i % op.a == op.b) out.push_back(in[i]);
      }
      break;
    case Op::kShuffle:
      return shuffled(in, op.a,
                      {id_of("data.shuffle"), ordinal, static_cast<uint64_t>(op.b != 0 ? run : 0)});
    case Op::kMap:
    case Op::kKeyedMap:
      return mapped(in, op, ordinal);
    case Op::kBatch:
      return batched(in, op, run);
    default:
      out = in;
  }
  return out;
}

Lists read_all(Iterator& iterator) {
  Lists all;
  std::optional<Element> element;
  while ((element = iterator.next())) all.push_back(numbers_in(*element));
  EXPECT_FALSE(element = iterator.next());
  return all;
}

Lists values_of(const std::vector<Row>& rows) {
  Lists all;
  for (const Row& row : rows) all.push_back(row.values);
  return all;
}

// Draws chains of transformations.
class Chains {
 public:
  explicit Chains(uint64_t number) : random_(derive_key(7, {number})) {}

  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_.uniform_below(static_cast<uint64_t>(n)));
  }
  Op reorder() {
    switch (below(8)) {
      case 0:
        return {Op::kTake, below(20) - 1};
      case 1:
        return {Op::kSkip, below(6)};
      case 2: {
        const int64_t shards = 1 + below(3);
        return {Op::kShard, shards, below(shards)};
      }
      case 3:
      case 4:
        return {Op::kShuffle, 1 + below(25), below(4) > 0};
      case 5:
        return {Op::kRepeat, below(4)};
      case 6:
        return {Op::kKeyedMap};
      default:
        return {Op::kMap};
    }
  }
  std::vector<Op> chain(int64_t most, bool prefetch) {
    std::vector<Op> ops;
    for (int64_t i = below(most + 1); i > 0; --i) {
      ops.push_back(reorder());
      if (prefetch && below(5) == 0) ops.push_back({Op::kPrefetch, 1 + below(3)});
    }
    return ops;
  }

 private:
  Random random_;
};

Dataset numbers(int64_t n) { return Dataset::from_tensor_slices(Element(torch::arange(n))); }

// Hundreds of short-lived prefetch threads: with one OpenMP thread each, none has to start a team.
class Laws : public ::testing::Test {
 protected:
  void SetUp() override { set_threads(1); }
};

TEST_F(Laws, OrderAgreesWithTheModelAndEveryPositionContinuesExactly) {
  for (uint64_t trial = 0; trial < 500; ++trial) {
    Chains chains(trial);
    const int64_t n = chains.below(18);
    std::vector<Op> ops = chains.chain(4, true);
    if (chains.below(4) > 0) {
      ops.push_back({Op::kBatch, 1 + chains.below(5), chains.below(3) == 0});
      for (const Op& op : chains.chain(3, true)) ops.push_back(op);
    }
    SCOPED_TRACE(describe(n, ops));
    const Dataset dataset = transformed(trial % 2 == 0 ? numbers(n) : Dataset::range(n), ops);
    const auto expected = values_of(model(n, ops, ops.size(), 0));
    if (expected.size() > 400) continue;
    ASSERT_EQ(dataset.cardinality(), static_cast<int64_t>(expected.size()));

    const auto iterator = dataset.iterator({.seed = kSeed});
    std::vector<std::string> saved{iterator->save().dump()};
    std::vector<Position> positions{iterator->position()};
    std::optional<Element> element;
    for (size_t i = 0; element = iterator->next(); ++i) {
      ASSERT_LT(i, expected.size());
      ASSERT_EQ(numbers_in(*element), expected[i]) << "element " << i;
      saved.push_back(iterator->save().dump());
      positions.push_back(iterator->position());
    }
    ASSERT_EQ(saved.size(), expected.size() + 1);

    const size_t stride = 1 + expected.size() / 25;
    for (size_t i = 0; i < saved.size(); i += stride) {
      // A used iterator and a fresh one of another seed.
      for (const bool fresh : {true, false}) {
        const auto other = dataset.iterator({.seed = fresh ? 5 : kSeed});
        if (!fresh) (element = other->next());
        other->restore(json::parse(saved[i]));
        ASSERT_EQ(other->save().dump(), saved[i]);
        ASSERT_EQ(other->position(), positions[i]);
        ASSERT_EQ(read_all(*other),
                  std::vector(expected.begin() + static_cast<int64_t>(i), expected.end()))
            << "continued at element " << i << " from " << saved[i];
      }
    }
  }
}

TEST_F(Laws, ReplicasTogetherReadTheUnshardedOrder) {
  for (uint64_t trial = 0; trial < 300; ++trial) {
    Chains chains(1000 + trial);
    const int64_t n = chains.below(30);
    const std::vector<Op> ops = chains.chain(3, trial % 3 == 0);
    const int64_t size = 1 + chains.below(6);
    const bool global = chains.below(2) == 0, drop = chains.below(3) == 0;
    const Dataset before = transformed(numbers(n), ops);
    const Dataset dataset = global ? before.global_batch(size, {.drop_remainder = drop})
                                   : before.batch(size, {.drop_remainder = drop});
    std::vector<int64_t> order;
    for (const Row& row : model(n, ops, ops.size(), 0)) order.push_back(row.values[0]);
    const auto total = static_cast<int64_t>(order.size());

    for (int64_t replicas = 1; replicas <= 5; ++replicas) {
      SCOPED_TRACE(fmt::format("{}.{}({}, {}) on {}", describe(n, ops),
                               global ? "global_batch" : "batch", size, drop, replicas));
      const int64_t round = global ? size : size * replicas;
      std::vector<std::unique_ptr<Iterator>> iterators;
      for (int64_t r = 0; r < replicas; ++r) {
        iterators.push_back(dataset.iterator(
            {.seed = kSeed, .sharding = {.num_replicas = replicas, .replica = r}}));
      }
      int64_t at = 0;
      while (true) {
        const int64_t left = std::min(round, total - at);
        const bool more = left > 0 && !(drop && left < round);
        std::vector<int64_t> dealt;
        std::string saved;
        for (int64_t r = 0; r < replicas; ++r) {
          const auto element = iterators[r]->next();
          ASSERT_EQ(element.has_value(), more) << "replica " << r << " at " << at;
          const std::string state = iterators[r]->save().dump();
          if (r == 0) saved = state;
          ASSERT_EQ(state, saved) << "replica " << r << " at " << at;
          if (!more) continue;
          const auto rows = numbers_in(*element);
          const int64_t share = global ? size / replicas + (r < size % replicas ? 1 : 0) : size;
          const int64_t already = static_cast<int64_t>(dealt.size());
          ASSERT_EQ(static_cast<int64_t>(rows.size()), std::min(share, left - already));
          ASSERT_EQ(element->value().tensor().dim(), 1);
          ASSERT_EQ(element->value().tensor().scalar_type(), at::kLong);
          dealt.insert(dealt.end(), rows.begin(), rows.end());
        }
        if (!more) break;
        ASSERT_EQ(dealt, std::vector(order.begin() + at, order.begin() + at + left));
        at += left;
      }
    }
  }
}

TEST_F(Laws, ARunContinuesOnAnotherNumberOfReplicasAndBatchSize) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    Chains chains(2000 + trial);
    const int64_t n = 1 + chains.below(40);
    const int64_t buffer = 1 + chains.below(50);
    const bool straddle = chains.below(2) == 0;
    const auto dataset = [&](int64_t size) {
      const Dataset shuffled = numbers(n).shuffle(buffer);
      const Dataset batched =
          straddle ? shuffled.repeat(3).batch(size) : shuffled.batch(size).repeat(3);
      return batched.prefetch(2);
    };
    const std::vector<Op> ops{{Op::kShuffle, buffer, 1}, {Op::kRepeat, 3}};
    std::vector<int64_t> order;
    for (const Row& row : model(n, ops, 2, 0)) order.push_back(row.values[0]);

    std::vector<int64_t> trained;
    json saved;
    for (const auto& [replicas, size, rounds] : {std::tuple{2, 3, chains.below(6)},
                                                 {3, 2, chains.below(6)},
                                                 {1, 4, chains.below(6)},
                                                 {5, 1, int64_t{1000}}}) {
      std::vector<json> states;
      Lists rows(static_cast<size_t>(rounds));
      for (int64_t r = 0; r < replicas; ++r) {
        const auto iterator = dataset(size).iterator(
            {.seed = kSeed, .sharding = {.num_replicas = replicas, .replica = r}});
        if (!saved.is_null()) iterator->restore(saved);
        std::optional<Element> element;
        for (int64_t k = 0; k < rounds && (element = iterator->next()); ++k) {
          for (const int64_t value : numbers_in(*element)) rows[k].push_back(value);
        }
        states.push_back(iterator->save());
        ASSERT_EQ(states.back(), states.front());
      }
      for (const auto& round : rows) trained.insert(trained.end(), round.begin(), round.end());
      saved = states.front();
    }
    EXPECT_EQ(trained, order) << "n = " << n << ", buffer " << buffer << ", straddle " << straddle;
  }
}

TEST(Sharding, AShardReadsNothingOfOthersAlsoAfterPrefetch) {
  for (int64_t index : {0, 1, 2}) {
    std::vector<int64_t> mapped, expected;
    const Dataset dataset = Dataset::range(40)
                                .batch(4)
                                .map([&](const Element& batch) {
                                  mapped.push_back(numbers_in(batch)[0] / 4);
                                  return batch;
                                })
                                .prefetch()
                                .shard(3, index);
    std::vector<int64_t> given;
    const auto iterator = dataset.iterator();
    while (const auto batch = iterator->next()) given.push_back(numbers_in(*batch)[0] / 4);
    for (int64_t b = index; b < 10; b += 3) expected.push_back(b);
    EXPECT_EQ(given, expected);
    EXPECT_EQ(mapped, expected);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
