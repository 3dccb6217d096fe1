#include "muster/data/torch_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/data/distribute.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

// A stateless dataset: example i is ([i, i], -i).
struct Pairs : torch::data::datasets::Dataset<Pairs> {
  torch::data::Example<> get(size_t index) override {
    const auto i = static_cast<int64_t>(index);
    return {torch::full({2}, i, at::kLong), torch::tensor(-i, at::kLong)};
  }
  torch::optional<size_t> size() const override { return 10; }
};

struct Endless : torch::data::datasets::Dataset<Endless> {
  torch::data::Example<> get(size_t) override { return {}; }
  torch::optional<size_t> size() const override { return torch::nullopt; }
};

// A stateful dataset: batches from front to back.
struct Stream : torch::data::datasets::StatefulDataset<Stream, torch::data::Example<>> {
  torch::optional<torch::data::Example<>> get_batch(size_t size) override {
    if (at >= 7) return torch::nullopt;
    const int64_t rows = std::min<int64_t>(static_cast<int64_t>(size), 7 - at);
    const Tensor data = torch::arange(at, at + rows, at::kLong);
    at += rows;
    return torch::data::Example<>(data, -data);
  }
  torch::optional<size_t> size() const override { return torch::nullopt; }
  void reset() override { at = 0; }
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}
  int64_t at = 0;
};

TEST(TorchDataTest, AStatelessDatasetIsReadByIndex) {
  for (const Dataset& rows :
       {from_torch_dataset(Pairs()),
        from_torch_dataset(Pairs().map(torch::data::transforms::Stack<>()))}) {
    EXPECT_EQ(rows.cardinality(), 10);
    EXPECT_EQ(numbers_in(*rows.skip(3).iterator()->next()), (std::vector<int64_t>{3, 3, -3}));
    const Dataset shuffled = rows.shuffle(10).batch(4);
    const auto first = shuffled.iterator({.seed = 1});
    (void)first->next();
    const auto second = shuffled.iterator({.seed = 1});
    second->restore(first->save());
    EXPECT_EQ(rest_of(*second), rest_of(*first));
  }
  EXPECT_EQ(error_of([] { from_torch_dataset(Endless()); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(TorchDataTest, ALoaderGivesBatchesOfStatelessAndStatefulDatasets) {
  const Dataset batches = from_torch_loader([] {
    return torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Pairs().map(torch::data::transforms::Stack<>()),
        torch::data::DataLoaderOptions().batch_size(4).workers(1));
  });
  EXPECT_EQ(rest_of(*batches.iterator()).size(), 3u);
  const Dataset rows = batches.unbatch();
  EXPECT_EQ(rest_of(*rows.iterator()).size(), 10u);
  const Dataset stream = from_torch_loader([] {
    return torch::data::make_data_loader(Stream(), torch::data::DataLoaderOptions().batch_size(3));
  });
  EXPECT_EQ(rest_of(*stream.iterator()),
            (Lists{{0, 1, 2, 0, -1, -2}, {3, 4, 5, -3, -4, -5}, {6, -6}}));
  for (const Dataset& dataset : {batches, stream, stream.unbatch().batch(2)}) {
    const auto first = dataset.iterator();
    (void)first->next();
    const auto second = dataset.iterator();
    second->restore(first->save());
    EXPECT_EQ(rest_of(*second), rest_of(*first));
  }
}

TEST(TorchDataTest, TwoWorkersReadEachRowOfALoaderOnce) {
  int64_t sum = 0, rows = 0;
  for (int64_t worker = 0; worker < 2; ++worker) {
    const Dataset stream = from_torch_loader([] {
      return torch::data::make_data_loader(Stream(),
                                           torch::data::DataLoaderOptions().batch_size(3));
    });
    auto input = distribute(stream.unbatch().batch(2),
                            {.num_input_pipelines = 2, .input_pipeline_id = worker}, /*seed=*/1);
    while (const auto batch = input.iterator->next()) {
      rows += batch->rows();
      sum += batch->part(0).value().tensor().sum().item<int64_t>();
    }
  }
  EXPECT_EQ(rows, 7);
  EXPECT_EQ(sum, 21);
}

}  // namespace
}  // namespace muster::inline v0_1::data
