#include "muster/distribute/reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/internal/test_variables.h"
#include "muster/distribute/strategy.h"
#include "muster/distribute/variable_table.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::no_loss;
using testing::run_ranks;
using testing::spec_of;

// A model of four weights in two dtypes, one a rank.
struct ReducingReplica {
  ReducingReplica(Communicator& communicator, const plan::BucketOptions& buckets,
                  DType wire = kFloat32, bool means = false)
      : table(1) {
    table.get_or_create(spec_of("a", {5}));
    table.get_or_create(spec_of("b", {3, 11}));
    table.get_or_create(spec_of("c", {7}));
    table.get_or_create(spec_of("wide", {9}, kFloat64));
    flat = std::make_unique<FlatParameters>(
        table, optim::sgd().minimize(no_loss()),
        [&](int64_t bytes) { return communicator.allocate(bytes); });
    reducer = std::make_unique<Reducer>(communicator, flat->layout(), 2, buckets, wire, means);
  }
  Tensor sum(const std::string& name, double factor) {
    return (table.find(name)->value() * factor).sum().to(kFloat64);
  }
  Tensor reduced(const std::string& name) {
    for (const auto& parameter : flat->parameters()) {
      if (parameter.variable->name() != name) continue;
      return reducer->gradients()[size_t(parameter.buffer)].slice(
          0, parameter.offset, parameter.offset + parameter.elements);
    }
    throw std::logic_error("no parameter " + name);
  }

  VariableTable table;
  std::unique_ptr<FlatParameters> flat;
  std::unique_ptr<Reducer> reducer;
};

// Counts what another communicator reduces and allocates.
class CountingCommunicator final : public Communicator {
 public:
  explicit CountingCommunicator(Communicator& other) : other_(other) {}
  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  std::string_view name() const override { return other_.name(); }
  Tensor allocate(int64_t bytes) override {
    allocated += bytes;
    return other_.allocate(bytes);
  }
  Work all_reduce(const Tensor& buffer) override {
    reduced += static_cast<int64_t>(buffer.nbytes());
    return other_.all_reduce(buffer);
  }
  Work reduce_scatter(const Tensor& in, const Tensor& out) override {
    return other_.reduce_scatter(in, out);
  }
  Work broadcast(const Tensor& buffer, int root) override { return other_.broadcast(buffer, root); }
  Work all_gather(const Tensor& in, const Tensor& out) override {
    return other_.all_gather(in, out);
  }
  Work barrier() override { return other_.barrier(); }
  void abort(ErrorKind kind, const std::string& reason) override { other_.abort(kind, reason); }

  int64_t reduced = 0, allocated = 0;

 private:
  Communicator& other_;
};

// Bytes of the model's gradients, each on a cache line of its own, and of the head.
constexpr int64_t kA = 64, kB = 192, kC = 64, kWide = 128, kHead = 64;

class ReducerTest : public ::testing::TestWithParam<plan::BucketOptions> {};

TEST_P(ReducerTest, SumsGradientsAndHeadAndKnowsWhatWasUsed) {
  constexpr int kRanks = 3;
  auto communicators =
      make_thread_communicators({.size = kRanks, .timeout = std::chrono::seconds(30)});
  run_ranks(kRanks, [&](int rank) {
    ReducingReplica replica(*communicators[size_t(rank)], GetParam());
    for (int step = 0; step < 4; ++step) {
      // "b" is used by one rank, another one each step; "c" from the second step on. In the first
      // step a rank that is not the chief sees its gradients in another order.
      Tensor loss = rank == 1 ? replica.sum("wide", 4) + replica.sum("a", 2)
                              : replica.sum("a", 1 + rank) + replica.sum("wide", 4);
      if (step % kRanks == rank) loss = loss + replica.sum("b", 10 + step);
      if (step > 0) loss = replica.sum("c", rank) + loss;
      replica.reducer->begin();
      loss.backward();
      replica.reducer->finish({1.0 * rank, 0.5});
      EXPECT_THAT(replica.reducer->head(), ElementsAre(0 + 1 + 2, 1.5));
      EXPECT_TRUE(replica.reduced("a").eq(1 + 2 + 3).all().item<bool>());
      EXPECT_TRUE(replica.reduced("wide").eq(12).all().item<bool>());
      EXPECT_TRUE(replica.reduced("b").eq(10 + step).all().item<bool>());
      EXPECT_TRUE(replica.reduced("c").eq(step > 0 ? 3 : 0).all().item<bool>());
      EXPECT_THAT(replica.reducer->used(), ElementsAre(true, true, step > 0, true));
      for (const auto& variable : replica.table.variables())
        EXPECT_FALSE(variable->value().grad().defined());
    }
  });
}

TEST_P(ReducerTest, ARankThatUsesNothingTakesPart) {
  auto communicators = make_thread_communicators({.size = 2, .timeout = std::chrono::seconds(30)});
  run_ranks(2, [&](int rank) {
    ReducingReplica replica(*communicators[size_t(rank)], GetParam());
    for (int step = 0; step < 3; ++step) {
      replica.reducer->begin();
      // The chief sees no gradient in the first step, when the order is found.
      if (rank == (step == 0 ? 1 : 0)) replica.sum("b", 3).backward();
      replica.reducer->finish({1, 1});
      EXPECT_TRUE(replica.reduced("b").eq(3).all().item<bool>());
      EXPECT_THAT(replica.reducer->used(), ElementsAre(false, true, false, false));
    }
  });
}
// Nothing leaves before the last backward: a rank does any number of them without the others.
TEST_P(ReducerTest, GradientsOfSeveralBackwardsAreAddedBeforeTheyLeave) {
  auto communicators = make_thread_communicators({.size = 2, .timeout = std::chrono::seconds(30)});
  run_ranks(2, [&](int rank) {
    ReducingReplica replica(*communicators[size_t(rank)], GetParam());
    for (int step = 0; step < 3; ++step) {
      // Rank 0 has four backwards; "b" is in its first ones only. Rank 1 has one.
      const int backwards = rank == 0 ? 4 : 1;
      for (int k = 0; k < backwards; ++k) {
        replica.reducer->begin(/*first=*/k == 0, /*last=*/k + 1 == backwards);
        Tensor loss = replica.sum("a", 1 + k) + replica.sum("wide", 1);
        if (rank == 0 && k < 2) loss = loss + replica.sum("b", 5);
        loss.backward();
        replica.reducer->pause();
        replica.sum("c", 100).backward();  // not the step's
        replica.table.find("c")->value().mutable_grad().reset();
      }
      replica.reducer->finish({1, 1});
      EXPECT_TRUE(replica.reduced("a").eq(1 + 2 + 3 + 4 + 1).all().item<bool>());
      EXPECT_TRUE(replica.reduced("b").eq(10).all().item<bool>());
      EXPECT_TRUE(replica.reduced("wide").eq(5).all().item<bool>());
      EXPECT_THAT(replica.reducer->used(), ElementsAre(true, true, false, true));
    }
  });
}

TEST_P(ReducerTest, WhatNobodyUsesDoesNotTravel) {
  auto communicators = make_thread_communicators({.size = 2, .timeout = std::chrono::seconds(30)});
  run_ranks(2, [&](int rank) {
    CountingCommunicator counting(*communicators[size_t(rank)]);
    ReducingReplica replica(counting, GetParam());
    EXPECT_EQ(replica.reducer->bytes(), kA + kB + kC + kWide + kHead);
    for (int step = 0; step < 24; ++step) {
      // Two parts take turns, which is known after two rounds. Once, one rank uses more: that is
      // expected again until it has left the history.
      const bool first_part = step % 2 == 0, surprise = step == 9;
      Tensor loss = first_part ? replica.sum("a", 1 + rank)
                               : replica.sum("b", 3 + rank) + replica.sum("wide", 1);
      if (surprise && rank == 1) loss = loss + replica.sum("c", 5);
      counting.reduced = 0;
      replica.reducer->begin();
      loss.backward();
      replica.reducer->finish({1, 1});
      const int64_t used = first_part ? kA : kB + kWide;
      if ((step >= 4 && step <= 9) || step >= 20) {
        EXPECT_EQ(counting.reduced, kHead + used + (surprise ? kC : 0)) << step;
      }
      EXPECT_TRUE(replica.reduced("a").eq(first_part ? 3 : 0).all().item<bool>()) << step;
      EXPECT_TRUE(replica.reduced("b").eq(first_part ? 0 : 7).all().item<bool>()) << step;
      EXPECT_TRUE(replica.reduced("wide").eq(first_part ? 0 : 2).all().item<bool>()) << step;
      EXPECT_TRUE(replica.reduced("c").eq(surprise ? 5 : 0).all().item<bool>()) << step;
      EXPECT_THAT(replica.reducer->used(),
                  ElementsAre(first_part, !first_part, surprise, !first_part));
    }
  });
}

// As data_parallel() keeps them: in the memory that is reduced.
TEST_P(ReducerTest, GradientsThatWeightsKeepStayWhereNobodyUsesThem) {
  auto communicators = make_thread_communicators({.size = 2, .timeout = std::chrono::seconds(30)});
  run_ranks(2, [&](int rank) {
    ReducingReplica replica(*communicators[size_t(rank)], GetParam(), kFloat32, /*means=*/true);
    Reducer& reducer = *replica.reducer;
    const auto weight = [&](const std::string& name) { return replica.table.find(name)->value(); };
    const auto step = [&](const Tensor& loss) {
      reducer.begin();
      loss.backward();
      reducer.take_earlier();
      reducer.finish({1, 1}, /*count=*/2);
      const auto& all = replica.flat->parameters();
      for (size_t p = 0; p < all.size(); ++p) {
        if (reducer.used()[p])
          weight(all[p].variable->name()).mutable_grad() = reducer.gradient(p).detach();
      }
    };
    const auto gradient_is = [&](const std::string& name, double expected) {
      EXPECT_TRUE(weight(name).grad().eq(expected).all().item<bool>()) << name << " " << expected;
    };
    step(replica.sum("a", 1) + replica.sum("b", 2 * rank));
    gradient_is("a", 1);
    gradient_is("b", 1);
    for (int i = 0; i < 4; ++i) {
      weight("c").mutable_grad().reset();
      step(replica.sum("c", 1 + rank));
      gradient_is("c", 1.5);
      gradient_is("a", 1);
      gradient_is("b", 1);
      EXPECT_FALSE(weight("wide").grad().defined());
    }
    // A backward that the reducer was not told of, on one rank, adds to the mean of both.
    reducer.pause();
    if (rank == 1) replica.sum("b", 4).backward();
    step(replica.sum("c", 0));
    gradient_is("b", 1 + 4 / 2);
    gradient_is("a", 1);
  });
}

TEST_P(ReducerTest, NotesEachBucketOneAfterAnother) {
  auto communicators = make_thread_communicators({.size = 2, .timeout = std::chrono::seconds(30)});
  run_ranks(2, [&](int rank) {
    ReducingReplica replica(*communicators[size_t(rank)], GetParam());
    SpanRecorder recorder;
    for (int step = 0; step < 3; ++step) {
      replica.reducer->record_into(step == 1 ? &recorder : nullptr);
      replica.reducer->begin();
      (replica.sum("a", 1) + replica.sum("b", 1) + replica.sum("c", 1) + replica.sum("wide", 1))
          .backward();
      replica.reducer->finish({1, 1});
    }
    const auto spans = recorder.take().spans;
    ASSERT_FALSE(spans.empty());
    int64_t tensors = 0, bytes = 0, before = 0;
    std::set<std::string> names;
    for (const auto& span : spans) {
      EXPECT_EQ(span.track, SpanRecorder::kReductions);
      EXPECT_GE(span.begin, before);
      EXPECT_GE(span.end, span.begin);
      before = span.end;
      names.insert(span.name);
      ASSERT_EQ(span.args.size(), 3u);
      bytes += span.args[0].second;
      tensors += span.args[1].second;
      EXPECT_GE(span.args[2].second, 0);
    }
    EXPECT_EQ(names.size(), spans.size());
    EXPECT_THAT(*names.begin(), HasSubstr(fmt::format("bucket 1 of {}", spans.size())));
    EXPECT_EQ(tensors, 4);
    EXPECT_GE(bytes, 4 * (5 + 33 + 7) + 8 * 9);
  });
}

TEST(SpanRecorderTest, KeepsSoManyAndCountsTheRest) {
  SpanRecorder recorder(2);
  for (int i = 0; i < 5; ++i) recorder.add(SpanRecorder::kSteps, "a", {}, {});
  auto recorded = recorder.take();
  EXPECT_EQ(recorded.spans.size(), 2u);
  EXPECT_EQ(recorded.left_out, 3);
  recorder.add(SpanRecorder::kSteps, "b", {}, {});
  recorded = recorder.take();
  EXPECT_EQ(recorded.spans.size(), 1u);
  EXPECT_EQ(recorded.left_out, 0);
}

INSTANTIATE_TEST_SUITE_P(Buckets, ReducerTest,
                         ::testing::Values(plan::BucketOptions{1, 1}, plan::BucketOptions{100, 300},
                                           plan::BucketOptions{}));

TEST(ReducerTest, GradientsOfSixteenBitsAreThoseOfThirtyTwoRounded) {
  constexpr int kRanks = 3;
  const auto narrow = [](const Tensor& value) { return value.to(kBFloat16).to(kFloat32); };
  for (const plan::BucketOptions& buckets :
       {plan::BucketOptions{1, 1}, plan::BucketOptions{100, 300}, plan::BucketOptions{}}) {
    auto communicators =
        make_thread_communicators({.size = kRanks, .timeout = std::chrono::seconds(30)});
    std::vector<Tensor> reduced(kRanks);
    const Tensor factors = torch::arange(99, kFloat32).view({3, 33}).sin();  // by rank
    run_ranks(kRanks, [&](int rank) {
      ReducingReplica replica(*communicators[size_t(rank)], buckets, kBFloat16);
      for (int step = 0; step < 3; ++step) {
        replica.reducer->begin();
        const Tensor b = replica.table.find("b")->value().view({-1});
        const Tensor wide = replica.table.find("wide")->value() * (0.1 + rank);
        ((b * factors[rank]).sum().to(kFloat64) + wide.sum()).backward();
        // Numbers 16 bits do not hold.
        replica.reducer->finish({123457, 0.1f});
        EXPECT_EQ(replica.reducer->head()[0], 3 * 123457);
        EXPECT_EQ(replica.reducer->head()[1], 0.1f + 0.1f + 0.1f);
        EXPECT_THAT(replica.reducer->used(), ElementsAre(false, true, false, true));
        EXPECT_TRUE(replica.reduced("a").eq(0).all().item<bool>());
        EXPECT_TRUE(replica.reduced("wide").eq(0.1 + 1.1 + 2.1).all().item<bool>());
      }
      reduced[size_t(rank)] = replica.reduced("b").clone();
    });
    const Tensor sum = narrow((narrow(factors[0]) + narrow(factors[1])) + narrow(factors[2]));
    for (const Tensor& mine : reduced) EXPECT_TRUE(mine.equal(sum));
    EXPECT_FALSE(sum.equal(factors.sum(0)));
    EXPECT_TRUE(torch::allclose(sum, factors.sum(0), 0, 4 * std::pow(2.0, -9)));
  }
}

TEST(ReducerTest, TheWireIsOneOfTwo) {
  EXPECT_THAT(error_of([] { mirrored({.wire_dtype = kFloat64}); }).message(),
              HasSubstr("MirroredOptions.wire_dtype is float64"));
  EXPECT_THAT(error_of([] { multi_worker_mirrored({.wire_dtype = at::kHalf}); }).hint(),
              HasSubstr("use kBFloat16"));
}

// Whether they are divided before or after they are added up.
TEST(ReducerTest, MeansAreTheSumsDividedByThoseThatBringGradients) {
  for (const int ranks : {2, 3, 4}) {
    auto communicators =
        make_thread_communicators({.size = ranks, .timeout = std::chrono::seconds(30)});
    run_ranks(ranks, [&](int rank) {
      ReducingReplica replica(*communicators[size_t(rank)], {}, kFloat32, /*means=*/true);
      for (int step = 0; step < 4; ++step) {
        // The last rank has no gradients in the second half, and one rank adds two up.
        const int count = step < 2 ? ranks : ranks - 1;
        replica.reducer->begin(/*first=*/true, /*last=*/rank != 0);
        if (rank < count) replica.sum("b", 0.1 + rank).backward();
        if (rank == 0) {
          replica.reducer->begin(/*first=*/false, /*last=*/true);
          replica.sum("b", 0.3).backward();
        }
        replica.reducer->finish({1, 1}, count);
        float sum = 0;
        for (int r = 0; r < count; ++r) sum += r == 0 ? 0.1f + 0.3f : static_cast<float>(0.1 + r);
        EXPECT_TRUE(replica.reduced("b").eq(sum / static_cast<float>(count)).all().item<bool>())
            << ranks << " " << step;
        EXPECT_TRUE(replica.reduced("a").eq(0).all().item<bool>());
      }
    });
  }
}

// Memory: the gradients once, in what the communicator allocates, and the head; in 16 bits half as
// much again.
TEST(ReducerTest, HoldsTheGradientsOnce) {
  auto communicators = make_thread_communicators({.size = 1});
  for (const DType wire : {kFloat32, kBFloat16}) {
    CountingCommunicator counting(*communicators[0]);
    ReducingReplica replica(counting, {}, wire);
    // The flat weights of the replica are allocated there too.
    const int64_t weights = replica.flat->layout().bytes();
    EXPECT_EQ(weights, kA + kB + kC + kWide);
    const int64_t narrow = wire == kFloat32 ? 0 : (kA + kB + kC + kHead) / 2;
    EXPECT_EQ(replica.reducer->bytes(), weights + kHead + narrow);
    EXPECT_LE(counting.allocated, replica.reducer->bytes() + weights);
  }
}

TEST(ReducerTest, ALossMayOutliveIt) {
  auto communicators = make_thread_communicators({.size = 1});
  ReducingReplica replica(*communicators[0], {});
  const Tensor loss = replica.sum("a", 2);
  replica.reducer.reset();
  loss.backward();
  EXPECT_TRUE(replica.table.find("a")->value().grad().eq(2).all().item<bool>());
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
