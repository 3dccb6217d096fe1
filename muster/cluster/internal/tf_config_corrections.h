// Corrects a wrong TF_CONFIG into the user's probable intention, for the hints of errors. Thread
// safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "muster/cluster/tf_config.h"

namespace muster::inline v0_1::cluster {

// Returns a TF_CONFIG to show when nothing of the user's text can be kept.
TfConfig example_config();

// Returns the advice with the corrected TF_CONFIG in single quotes, as a shell reads it.
std::string hint_with(const TfConfig& corrected, std::string_view advice);

TfConfig with_task(const TfConfig& config, std::string type, int index);
TfConfig with_address(const TfConfig& config, const Task& task, const std::string& address);
// Gives every task the name that `place` says; this process stays the task it was, under its new
// name. Where two get one name, the first keeps it. Jobs without tasks are left away.
TfConfig moved(const TfConfig& config, const std::function<Task(const Task&)>& place);
// Makes the first worker the chief of a cluster that has none.
TfConfig with_chief(const TfConfig& config);
// Makes all chiefs but the first into workers.
TfConfig with_one(const TfConfig& config, const std::string& chief);
// Makes the tasks that `which` selects into workers, after the workers that exist.
TfConfig with_workers(const TfConfig& config, const std::function<bool(const Task&)>& which);
// Names a task that is in the cluster: the one whose name is nearly this one's, or else the chief.
TfConfig with_known_task(const TfConfig& config, const std::string& chief);
// Gives each address with port 0 a port.
TfConfig with_ports(const TfConfig& config);
bool has_port_zero(const std::string& address);

// The first address that no task can have.
struct BadAddress {
  Task task;
  std::string address;
  std::string problem;
  std::string advice;
};
std::optional<BadAddress> find_bad_address(const ClusterSpec& cluster);

// Puts usable addresses in the place of bad ones, and a task that is in the cluster.
TfConfig made_usable(const TfConfig& config);

}  // namespace muster::inline v0_1::cluster
