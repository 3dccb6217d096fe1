// Columns in front of an exported model: a client gives the features that they read, texts among
// them, and they make the inputs of the module. Export knows them by these interfaces;
// muster/features has them. Thread safety: immutable; calls may come from several threads at once.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/data/example.h"
#include "muster/export/signature.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// The columns of one model, ready to read requests.
class RequestReader {
 public:
  virtual ~RequestReader() = default;
  // The features from a client, by name.
  virtual const std::map<std::string, RawFeature>& features() const = 0;
  // How serialized tf.Examples become these; unset if they cannot.
  virtual const std::optional<data::ExampleParser>& parser() const = 0;
  // Throws InvalidArgument for a batch that is not a dict, and naming the feature for one that is
  // missing, unknown, or text instead of numbers.
  virtual void check(const Element& batch) const = 0;
  // Returns the module's inputs for a batch, a dict of these features, as a client or the parser
  // gives it. Throws InvalidArgument naming the feature or the column for one of another kind or
  // shape, or with more values of an example than the module takes.
  virtual std::map<std::string, Tensor> inputs_of(const Element& batch) const = 0;
};

// Columns as they are exported.
class RequestColumns {
 public:
  virtual ~RequestColumns() = default;
  // How they read, for signatures.json.
  virtual nlohmann::json recipe() const = 0;
  // For the module's `inputs`. `numbers` says how inputs that no column makes are parsed; unset:
  // tf.Examples are not taken.
  virtual std::unique_ptr<const RequestReader> reader(
      const std::map<std::string, TensorInfo>& inputs,
      const std::optional<data::FeatureSpec>& numbers) const = 0;
};

// Makes columns from the result of recipe().
using ReadRequestColumns = std::shared_ptr<const RequestColumns> (*)(const nlohmann::json& recipe);
// From now on exported models with columns are read by it. The part that has columns calls it when
// the program starts.
MUSTER_PART_EXPORT void register_request_columns(ReadRequestColumns read);
// Makes them. Throws InvalidArgument in a program that does not link that part, and the part's
// errors.
std::shared_ptr<const RequestColumns> read_request_columns(const nlohmann::json& recipe);

}  // namespace muster::inline v0_1
