#include "muster/export/internal/export_comparison.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/export/internal/request_rows.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// Batches of these sizes are compared: 1 is the usual one, and 8 is larger than those traced.
constexpr int64_t kRows[] = {1, 8};
constexpr int64_t kRowsOfLengths[] = {1, 3, 8};
// How often a row of wide numbers is compared: a branch on the value of a sum goes either way.
constexpr uint64_t kWideRows = 8;

std::string names_of(const std::map<std::string, OutputKeys>& keys) {
  std::set<std::string> names;
  for (const auto& [signature, outputs] : keys) {
    for (const auto& [name, key] : outputs) names.insert(name);
  }
  return join_quoted({names.begin(), names.end()});
}

void compare_output(const std::string& name, const Tensor& expected, const Tensor& got,
                    const std::string& sizes) {
  const std::string hint =
      "what the model function computes must follow the number of rows, and use tensors alone: "
      "no branch on sizes or values, no loop over rows, no random numbers";
  const std::string begin = fmt::format(
      "export_model: the exported output \"{}\" differs from the model function's at {}: ", name,
      sizes);
  if (got.scalar_type() != expected.scalar_type() || got.sizes() != expected.sizes())
    throw invalid_argument(begin + describe(got) + " rather than " + describe(expected), hint);
  if (expected.numel() == 0) return;
  const bool exact = !expected.is_floating_point();
  const Tensor a = expected.to(kFloat64), b = got.to(kFloat64);
  const double tolerance = expected.element_size() < 4 ? 2e-2 : 1e-4;
  if (at::allclose(b, a, exact ? 0 : tolerance, exact ? 0 : tolerance, /*equal_nan=*/true)) return;
  throw invalid_argument(
      begin + fmt::format("by up to {:.3g}", (a - b).abs().nan_to_num(1e300).max().item<double>()),
      hint);
}

class Comparer {
 public:
  Comparer(const torch::jit::Method& forward, const ComparedFunction& compared)
      : forward_(forward), compared_(compared) {}

  void compare_rows() const {
    const std::vector<int64_t> lengths = compared_.plan.by_axis(compared_.plan.base);
    for (const int64_t rows : kRows) {
      const NamedTensors batch = batch_of(compared_.receiver, rows, lengths);
      compare(batch, compared_.function(batch), sizes_of(rows, {}));
    }
    for (uint64_t draw = 0; draw < kWideRows; ++draw)
      if (!compare_if_taken(batch_of(compared_.receiver, 1, lengths, {-4, 4, draw}),
                            sizes_of(1, {}))) {
        return;
      }
  }

  // Lengths near both ends of what the model takes, and between; different ones on axes that are
  // independent of one another.
  void compare_lengths() const {
    const LengthPlan& plan = compared_.plan;
    constexpr int kLevels = 4;
    for (int level = 0; level < kLevels && !plan.of.empty(); ++level) {
      GroupLengths lengths;
      for (size_t group = 0; group < plan.of.size(); ++group) {
        const int64_t least = plan.ranges[group].least, far = plan.far[group];
        const int64_t wanted[kLevels] = {least, least + 1, 2 * plan.base[group] + 1, far};
        const auto step = static_cast<int64_t>(group) * (level == kLevels - 1 ? -1 : 1);
        lengths.push_back(std::clamp(wanted[level] + step, least, far));
      }
      for (const int64_t rows : kRowsOfLengths)
        (void)compare_if_taken(batch_of(compared_.receiver, rows, plan.by_axis(lengths)),
                               sizes_of(rows, lengths));
    }
  }

 private:
  std::string sizes_of(int64_t rows, const GroupLengths& lengths) const {
    std::string text = fmt::format("a batch size of {}", rows);
    for (size_t group = 0; group < lengths.size(); ++group)
      text +=
          fmt::format(" and the length {} of {}", lengths[group], compared_.plan.name_of(group));
    return text;
  }

  // Returns false if the function takes no such batch.
  bool compare_if_taken(const NamedTensors& batch, const std::string& sizes) const {
    Outputs expected;
    try {
      expected = compared_.function(batch);
    } catch (const std::exception&) {
      return false;
    }
    compare(batch, expected, sizes);
    return true;
  }

  // Compares what was written with `expected`, which the function gave.
  void compare(const NamedTensors& batch, const Outputs& expected, const std::string& sizes) const {
    const auto& keys = compared_.description.keys;
    (void)by_key(expected, keys);  // the outputs are those of the other batches
    NamedTensors got;
    try {
      got = call(forward_, batch);
    } catch (const std::exception& error) {
      throw invalid_argument(
          fmt::format("export_model: the exported model cannot compute {} at {}: {}",
                      names_of(keys), sizes, cause_of(error)),
          fmt::format("it was traced at {}, and must fit all: no loop over rows, and sizes as -1",
                      compared_.traced_at));
    }
    // Outputs that were one tensor in the trace need not be one here.
    for (const auto& [signature, outputs] : keys) {
      for (const auto& [name, key] : outputs)
        compare_output(name, expected.at(signature).outputs.at(name), got.at(key), sizes);
    }
  }

  const torch::jit::Method& forward_;
  const ComparedFunction& compared_;
};

}  // namespace

NamedTensors by_key(const Outputs& signatures, const std::map<std::string, OutputKeys>& keys) {
  NamedTensors all;
  for (const auto& [signature, outputs] : keys) {
    const auto found = signatures.find(signature);
    for (const auto& [name, key] : outputs) {
      if (found == signatures.end() || !found->second.outputs.contains(name)) {
        throw invalid_argument(
            fmt::format("export_model: the signature \"{}\" gave \"{}\" for one batch and not for "
                        "another",
                        signature, name),
            "export_outputs must not depend on the batch");
      }
      all.emplace(key, found->second.outputs.at(name));
    }
  }
  return all;
}

void compare_export(const std::string& bytes, const ComparedFunction& compared) {
  std::istringstream stream(bytes);
  torch::jit::Module module = torch::jit::load(stream);
  const torch::jit::Method forward = module.get_method("forward");
  const Comparer comparer(forward, compared);
  comparer.compare_rows();
  comparer.compare_lengths();
}

}  // namespace muster::inline v0_1::internal
