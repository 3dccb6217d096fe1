// Compares an exported model with the function that it was made of. Thread safety: free functions;
// the calling thread computes.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "muster/export/export_output.h"
#include "muster/export/internal/description.h"
#include "muster/export/internal/length_plan.h"
#include "muster/export/internal/trace.h"
#include "muster/export/serving_input_receiver.h"

namespace muster::inline v0_1::internal {

// The signatures that the function gives.
using Outputs = std::map<std::string, ExportOutput>;

// Returns the outputs of all signatures by the names that they have in the module. Throws
// InvalidArgument, naming the output, for one that this batch gave no value.
NamedTensors by_key(const Outputs& signatures, const std::map<std::string, OutputKeys>& keys);

// How a function is called.
struct ComparedFunction {
  const std::function<Outputs(const NamedTensors& features)>& function;
  const ServingInputReceiver& receiver;
  const ServableDescription& description;
  const LengthPlan& plan;
  std::string traced_at{};  // "3 and 5 rows", for errors
};

// Compares the module in `bytes` with the function at sizes and on numbers that were not traced:
// with 1 and 8 rows, with 1, 3 and 8 rows at each of several lengths, and on wide numbers. Throws
// InvalidArgument, naming the output and the sizes, if they differ.
void compare_export(const std::string& bytes, const ComparedFunction& compared);

}  // namespace muster::inline v0_1::internal
