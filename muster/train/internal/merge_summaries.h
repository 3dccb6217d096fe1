// Makes one scalar of the scalars of all replicas and batches, and one histogram of their
// histograms. Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::internal {

// A histogram as it travels to the other replicas.
nlohmann::json histogram_json(const formats::Histogram& histogram);

// `parts` holds each replica's values: {"scalars": {tag: [[batch, value, weight], ...]},
// "histograms": {tag: histogram_json()}}. Throws InvalidArgument when a tag is of two kinds.
std::vector<formats::SummaryValue> merge_summaries(const std::vector<nlohmann::json>& parts);

// The error for a tag that is used for values of two kinds.
Error mixed_kinds(const std::string& tag);

}  // namespace muster::inline v0_1::internal
