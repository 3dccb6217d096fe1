#include "muster/estimator/internal/evaluation_input.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/auto_shard.h"
#include "muster/train/user_call.h"

namespace muster::inline v0_1::internal {
namespace {

void look_at(const EvalSpec& spec) {
  const Dataset dataset = spec.input_fn(InputContext());
  if (data::reads_a_stream(dataset)) return;
  if (dataset.iterator()->next()) return;
  throw invalid_argument("the evaluation input gave no data: " + dataset.describe(),
                         "check the data directory and the transformations of the input function");
}

}  // namespace

void look_at_inputs(const std::vector<EvalSpec>& specs) {
  for (const EvalSpec& spec : specs) {
    try {
      look_at(spec);
    } catch (...) {
      rethrow_with_place("an input function",
                         fmt::format("in the input of the evaluation{}, before training",
                                     spec.name.empty() ? "" : fmt::format(" \"{}\"", spec.name)),
                         [](const std::string&) { return std::string(); });
    }
  }
}

InputFn preceded_by(const InputFn& input_fn, const std::function<void()>& before) {
  if (input_fn.shards_itself()) {
    return [input_fn, before](const InputContext& context) {
      before();
      return input_fn(context);
    };
  }
  return [input_fn, before] {
    before();
    return input_fn(InputContext());
  };
}

}  // namespace muster::inline v0_1::internal
