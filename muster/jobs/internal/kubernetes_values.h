// The small texts that Kubernetes' documents are made of: checked, and converted. Thread safety:
// pure functions. Each throws InvalidArgument for a text that Kubernetes does not take.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace muster::inline v0_1::jobs::internal {

// Returns `text` as a value of a container's command, args or env that stays unchanged: Kubernetes
// replaces $(NAME) there, and $$ by $.
std::string literal(const std::string& text);

// Reads "4", or "chief=8,worker=4", into a quantity for each role; the key "" means all others.
// `flag` is the name of the flag, for errors.
std::map<std::string, std::string> quantities(const std::string& flag, const std::string& text);

// Reads "KEY", "KEY=VALUE", "KEY:EFFECT" or "KEY=VALUE:EFFECT" into a toleration.
nlohmann::ordered_json toleration(const std::string& text);

// Throws unless `value` can be the value of a label; `key` is its name, for the error.
void check_label(const std::string& key, const std::string& value);

// Returns the name by which nodes are labelled for an accelerator: "nvidia-tesla-t4" for
// "NVIDIA_TESLA_T4".
std::string accelerator_label_value(const std::string& type);

}  // namespace muster::inline v0_1::jobs::internal
