#include "muster/jobs/internal/kubernetes_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

constexpr std::array kRoles = {"chief", "worker", "ps", "evaluator"};

void check_quantity(const std::string& flag, const std::string& text) {
  static const RegularExpression kQuantity("[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?");
  if (kQuantity.full_match(text)) return;
  throw invalid_argument(fmt::format("--{} is '{}': no quantity of Kubernetes", flag, text),
                         flag == "memory" ? "write 16Gi, or chief=32Gi,worker=16Gi"
                                          : "write 4 or 500m, or chief=8,worker=4");
}

}  // namespace

std::string literal(const std::string& text) {
  if (text.find("$(") == std::string::npos && text.find("$$") == std::string::npos) return text;
  std::string escaped;
  for (const char c : text) escaped += c == '$' ? "$$" : std::string(1, c);
  return escaped;
}

std::map<std::string, std::string> quantities(const std::string& flag, const std::string& text) {
  std::map<std::string, std::string> result;
  if (text.empty()) return result;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string role = equals == std::string::npos ? "" : part.substr(0, equals);
    const std::string quantity = equals == std::string::npos ? part : part.substr(equals + 1);
    if (!role.empty() && std::ranges::find(kRoles, role) == kRoles.end()) {
      const auto meant = nearest(role, {kRoles.begin(), kRoles.end()});
      throw invalid_argument(
          fmt::format("--{} names the role '{}'", flag, role),
          meant ? "did you mean " + *meant : "the roles are chief, worker, ps and evaluator");
    }
    check_quantity(flag, quantity);
    if (!result.emplace(role, quantity).second) {
      throw invalid_argument(fmt::format("--{}={} has two values for {}", flag, text,
                                         role.empty() ? "all roles" : "the role " + role),
                             "leave one of them out");
    }
  }
  return result;
}

nlohmann::ordered_json toleration(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string taint = text.substr(0, colon);
  const size_t equals = taint.find('=');
  const std::string key = taint.substr(0, equals);
  const std::string effect = colon == std::string::npos ? "" : text.substr(colon + 1);
  const std::array effects = {"", "NoSchedule", "PreferNoSchedule", "NoExecute"};
  if (key.empty() || std::ranges::find(effects, effect) == effects.end()) {
    throw invalid_argument(
        fmt::format("--tolerations has '{}'", text),
        "write KEY, KEY=VALUE, KEY:NoSchedule or KEY=VALUE:NoSchedule; the effects are NoSchedule, "
        "PreferNoSchedule and NoExecute");
  }
  nlohmann::ordered_json result = {{"key", key}};
  if (equals == std::string::npos) {
    result["operator"] = "Exists";
  } else {
    result["operator"] = "Equal";
    result["value"] = taint.substr(equals + 1);
  }
  if (!effect.empty()) result["effect"] = effect;
  return result;
}

void check_label(const std::string& key, const std::string& value) {
  static const RegularExpression kKey(
      "([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?");
  static const RegularExpression kValue("([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?");
  if (kKey.full_match(key) && kValue.full_match(value)) return;
  throw invalid_argument(fmt::format("the label '{}' with the value '{}' cannot be", key, value),
                         "labels of Kubernetes are letters, digits, '-', '_' and '.', 63 at most, "
                         "the first and the last a letter or a digit");
}

std::string accelerator_label_value(const std::string& type) {
  std::string value = to_lower(type);
  std::ranges::replace(value, '_', '-');
  return value;
}

}  // namespace muster::inline v0_1::jobs::internal
