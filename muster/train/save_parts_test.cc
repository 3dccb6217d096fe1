#include "muster/train/save_parts.h"

#include <gtest/gtest.h>

#include <string>

#include "muster/base/random.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/manager.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1 {
namespace {

using Specs = std::map<std::string, TensorSpec>;

int64_t bytes_of_share(const std::vector<StateRows>& share, const Specs& specs) {
  int64_t bytes = 0;
  for (const StateRows& rows : share) {
    const TensorSpec& spec = specs.at(rows.as.tensor);
    int64_t row = static_cast<int64_t>(c10::elementSize(spec.dtype));
    for (size_t axis = 1; axis < spec.shape.size(); ++axis) row *= spec.shape[axis];
    bytes += row * (rows.end - rows.begin);
  }
  return bytes;
}

// Shapes of all kinds, drawn for `seed`.
Specs random_specs(uint64_t seed) {
  Random random(derive_key(seed, {id_of("specs")}));
  Specs specs;
  const auto count = 1 + random.uniform_below(6);
  for (uint64_t i = 0; i < count; ++i) {
    Shape shape;
    for (uint64_t axes = random.uniform_below(4); axes > 0; --axes)
      shape.push_back(static_cast<int64_t>(1 + random.uniform_below(40)));
    specs["t" + std::to_string(i)] = {
        .shape = shape, .dtype = random.uniform_below(2) == 0 ? at::kFloat : at::kDouble};
  }
  return specs;
}

TEST(SaveParts, EachRowIsInOneShareAndSharesAreAlikeInBytes) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Specs specs = random_specs(seed);
    int64_t total = 0, largest_row = 0;
    for (const auto& [name, spec] : specs) {
      int64_t row = static_cast<int64_t>(c10::elementSize(spec.dtype));
      for (size_t axis = 1; axis < spec.shape.size(); ++axis) row *= spec.shape[axis];
      total += row * (spec.shape.empty() ? 1 : spec.shape[0]);
      largest_row = std::max(largest_row, row);
    }
    for (const size_t parts : {1, 2, 3, 7}) {
      const auto shares = divide_state(specs, parts);
      ASSERT_EQ(shares.size(), parts);
      std::map<std::string, int64_t> next;    // row
      std::map<std::string, int64_t> places;  // the next one
      for (const auto& share : shares) {
        for (const StateRows& rows : share) {
          EXPECT_EQ(rows.begin, next[rows.as.tensor]) << seed;
          EXPECT_EQ(rows.as.place, places[rows.as.tensor]++) << seed;
          EXPECT_LT(rows.begin, rows.end) << seed;
          next[rows.as.tensor] = rows.end;
        }
        // Each end is at most half a row away from where it should be.
        EXPECT_NEAR(static_cast<double>(bytes_of_share(share, specs)),
                    static_cast<double>(total) / static_cast<double>(parts),
                    static_cast<double>(largest_row))
            << seed;
      }
      for (const auto& [name, spec] : specs)
        EXPECT_EQ(next[name], spec.shape.empty() ? 1 : spec.shape[0]) << seed << " " << name;
    }
  }
}

// What N copy and write is what one writes, bit by bit.
TEST(SaveParts, PartsHoldTheBitsOfOneFile) {
  const std::map<std::string, Tensor> state = {
      {"a/table", torch::rand({9'000'001})},  // several pieces with a checksum
      {"b", torch::rand({3, 5}, at::kDouble)},
      {"c/counter", torch::full({}, 7, at::kLong)},
      {"d", torch::rand({40'000, 100}, at::kHalf)},
      {"e", torch::rand({300, 2000}).t()}};
  Specs specs;
  for (const auto& [name, tensor] : state)
    specs[name] = {.shape = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
  for (const size_t parts : {1, 2, 3, 5}) {
    const TempDirectory directory;
    std::vector<formats::SafetensorsParts> tables;
    std::vector<std::vector<PartTensor>> held;
    size_t part = 0;
    for (const auto& share : divide_state(specs, parts)) {
      std::map<std::string, Tensor> views;
      held.emplace_back();
      for (const StateRows& rows : share) {
        const Tensor& tensor = state.at(rows.as.tensor);
        views[rows.as.name] =
            rows.whole ? tensor : tensor.narrow(0, rows.begin, rows.end - rows.begin);
        held.back().push_back(rows.as);
      }
      StateCopy copy;
      tables.push_back(write_checkpoint_part(local_file_system(),
                                             directory / checkpoint_part_name(7, part++, parts, 1),
                                             copy.of(views)));
    }
    CheckpointManager manager(directory.path());
    const std::string prefix =
        manager.save({.global_step = 7, .parts = join_parts(std::move(tables), held, specs)});
    const Checkpoint read = manager.load(prefix);
    ASSERT_EQ(read.tensors.size(), state.size());
    for (const auto& [name, tensor] : state)
      EXPECT_TRUE(read.tensors.at(name).equal(tensor)) << name << " in " << parts;
    EXPECT_TRUE(manager.open(prefix)
                    ->read_rows("a/table", 4'400'000, 4'700'000)
                    .equal(state.at("a/table").narrow(0, 4'400'000, 300'000)));
    EXPECT_NO_THROW(manager.open(prefix)->verify());
  }
}

}  // namespace
}  // namespace muster::inline v0_1
