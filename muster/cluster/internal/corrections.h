// What a user could have meant by a TF_CONFIG that is wrong: the corrected texts that hints show.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {

// For texts of which nothing can be kept.
TfConfig example_config();

// The advice, and the corrected TF_CONFIG in quotes.
std::string hint_with(const TfConfig& corrected, std::string_view advice);

TfConfig with_task(const TfConfig& config, std::string type, int index);
// A cluster without chief gets one: its first worker.
TfConfig with_chief(const TfConfig& config);
// Of several chiefs all but the first become workers.
TfConfig with_one(const TfConfig& config, const std::string& chief);

// The first address that no task can have.
struct BadAddress {
  Task task;
  std::string address;
  std::string problem;
  std::string advice;
};
std::optional<BadAddress> find_bad_address(const ClusterSpec& cluster);

// Usable addresses instead of bad ones, and a task that is in the cluster.
TfConfig made_usable(const TfConfig& config);

}  // namespace muster::inline v0_1::cluster
