// What a file saved_model.pb contains: signatures and operations. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/bytes.h"

namespace muster::inline v0_1::saved_model {

struct DescribedSignature {
  std::string method{};                         // "tensorflow/serving/predict"
  std::map<std::string, std::string> inputs{};  // "float32[-1, 4]", by name
  std::map<std::string, std::string> outputs{};
};

// The first graph of a SavedModel.
struct SavedModelDescription {
  std::vector<std::string> tags{};
  std::map<std::string, DescribedSignature> signatures{};
  std::map<std::string, int64_t> operations{};  // how often each occurs, functions included
  // The nodes of the graph without functions: the inputs of each, by name.
  std::map<std::string, std::vector<std::string>> nodes{};
};

// Throws Corrupt for bytes that are not a SavedModel.
SavedModelDescription describe_saved_model(Bytes bytes);

}  // namespace muster::inline v0_1::saved_model
