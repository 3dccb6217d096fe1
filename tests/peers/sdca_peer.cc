// LinearSDCA: tools/peers/cases/sdca.py.
#include <map>
#include <string>

#include "muster/base/temp_directory.h"
#include "muster/canned/linear.h"
#include "muster/heads/binary_class_head.h"
#include "tests/peers/columns.h"
#include "tests/peers/estimator_parts.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

LinearSDCA sdca_of(const Json& given) {
  LinearSDCA sdca{.example_id_column = "id"};
  take(given, "symmetric_l1_regularization", sdca.symmetric_l1_regularization);
  take(given, "symmetric_l2_regularization", sdca.symmetric_l2_regularization);
  take(given, "num_loss_partitions", sdca.num_loss_partitions);
  take(given, "adaptive", sdca.adaptive);
  return sdca;
}

PeerArrays run_sdca(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const Json& head = program.at("head");
  const TempDirectory vocabularies, directory;
  const auto columns = peer_columns(program.at("columns"), vocabularies.path());
  const RunConfig config{.model_dir = directory.path(), .save_summary_steps = 0};
  const auto with = [&](auto options) {
    options.feature_columns = columns;
    options.optimizer = sdca_of(program.at("sdca"));
    take_option<std::string>(head, "weight_column", options.weight_column);
    if constexpr (requires { options.label_dimension; })
      take(head, "label_dimension", options.label_dimension);
    return options;
  };
  Estimator estimator = program.at("estimator") == "LinearClassifier"
                            ? LinearClassifier(with(LinearClassifierOptions()), config)
                            : LinearRegressor(with(LinearRegressorOptions()), config);
  const Dataset rows = Dataset::from_tensor_slices(Element::tuple(
      {peer_features(program.at("features"), {}, false), peer_labels(program.at("labels"))}));
  const InputFn once = [&] { return rows.batch(5); };
  estimator.train([&] { return rows.repeat().batch(program.at("batch")); },
                  {.max_steps = program.at("steps").get<int64_t>()});
  PeerArrays got;
  for (const std::string& name : estimator.get_variable_names()) {
    if (name.ends_with("weights"))
      got["variable " + name] = PeerArray::of(estimator.get_variable_value(name));
  }
  for (const auto& [name, value] : estimator.evaluate(once))
    got["metric " + name] = PeerArray::of(value);
  std::map<std::string, Head> heads;
  if (head.at("type") == "BinaryClassHead") heads.emplace("", BinaryClassHead());
  add_predictions(estimator, once, got, heads);
  return got;
}

const PeerKind kSdca("sdca", run_sdca);

}  // namespace
}  // namespace muster::inline v0_1
