#include "muster/jobs/internal/vertex_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

// MachineSpec.acceleratorType.
const std::vector<std::string>& known_accelerators() {
  static const std::vector<std::string> kKnown = {"NVIDIA_TESLA_P100",
                                                  "NVIDIA_TESLA_V100",
                                                  "NVIDIA_TESLA_P4",
                                                  "NVIDIA_TESLA_T4",
                                                  "NVIDIA_TESLA_A100",
                                                  "NVIDIA_A100_80GB",
                                                  "NVIDIA_L4",
                                                  "NVIDIA_H100_80GB",
                                                  "NVIDIA_H100_MEGA_80GB",
                                                  "NVIDIA_H200_141GB",
                                                  "NVIDIA_B200",
                                                  "TPU_V2",
                                                  "TPU_V3",
                                                  "TPU_V4_POD",
                                                  "TPU_V5_LITEPOD"};
  return kKnown;
}

struct OldMachine {
  const char* type{};
  Accelerator accelerator;
};

// AI Platform's own machine types, and the machines of Compute Engine that its documentation called
// their equivalents.
const std::map<std::string, OldMachine>& old_machines() {
  static const std::map<std::string, OldMachine> kOld = {
      {"standard", {"n1-standard-4", {}}},
      {"large_model", {"n1-highmem-8", {}}},
      {"complex_model_s", {"n1-highcpu-8", {}}},
      {"complex_model_m", {"n1-highcpu-16", {}}},
      {"complex_model_l", {"n1-highcpu-32", {}}},
      {"standard_gpu", {"n1-standard-8", {"NVIDIA_TESLA_K80", 1}}},
      {"complex_model_m_gpu", {"n1-standard-16", {"NVIDIA_TESLA_K80", 4}}},
      {"complex_model_l_gpu", {"n1-standard-32", {"NVIDIA_TESLA_K80", 8}}},
      {"standard_p100", {"n1-standard-8", {"NVIDIA_TESLA_P100", 1}}},
      {"complex_model_m_p100", {"n1-standard-16", {"NVIDIA_TESLA_P100", 4}}},
      {"standard_v100", {"n1-standard-8", {"NVIDIA_TESLA_V100", 1}}},
      {"large_model_v100", {"n1-highmem-8", {"NVIDIA_TESLA_V100", 1}}},
      {"complex_model_m_v100", {"n1-standard-16", {"NVIDIA_TESLA_V100", 4}}},
      {"complex_model_l_v100", {"n1-standard-32", {"NVIDIA_TESLA_V100", 8}}}};
  return kOld;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  return text;
}

// The type as Vertex AI spells it: "nvidia-tesla-t4", "T4" and "A100" mean one. Nothing if it is
// unknown.
std::optional<std::string> spelt_as_known(const std::string& type) {
  const std::string wanted = upper(type);
  for (const std::string& known : known_accelerators()) {
    if (wanted == known || "NVIDIA_" + wanted == known || "NVIDIA_TESLA_" + wanted == known) {
      return known;
    }
  }
  return std::nullopt;
}

// "T4" of "NVIDIA_TESLA_T4": the letters before it, which all have, must not make others alike.
std::string short_name(std::string type) {
  for (const char* maker : {"NVIDIA_", "TESLA_"}) {
    if (type.starts_with(maker)) type.erase(0, std::string_view(maker).size());
  }
  return type;
}

std::string vertex_accelerator(const std::string& type, const std::string& role) {
  if (upper(type) == "NVIDIA_TESLA_K80") {
    throw invalid_argument(
        fmt::format("the {} asks for {}, which Vertex AI does not have any more", role, type),
        "take NVIDIA_TESLA_T4 on an n1 machine, or NVIDIA_L4 on a g2 machine");
  }
  if (const auto known = spelt_as_known(type)) return *known;
  const auto meant = meant_accelerator(type);
  throw invalid_argument(
      fmt::format("the {} asks for the accelerator '{}', which Vertex AI does not know", role,
                  type),
      meant ? "did you mean " + *meant + "?" : "it knows " + join(known_accelerators(), ", "));
}

}  // namespace

std::optional<std::string> meant_accelerator(const std::string& type) {
  if (spelt_as_known(type)) return std::nullopt;
  std::vector<std::string> names;
  for (const std::string& known : known_accelerators()) names.push_back(short_name(known));
  if (const auto near = nearest(short_name(upper(type)), names)) {
    return known_accelerators()[static_cast<size_t>(std::ranges::find(names, *near) -
                                                    names.begin())];
  }
  return std::nullopt;
}

VertexMachine vertex_machine(const Pool& pool, const std::string& default_type) {
  VertexMachine machine{.type = pool.machine_type.empty() ? default_type : pool.machine_type,
                        .accelerator = pool.accelerator};
  const auto old = old_machines().find(machine.type);
  if (old != old_machines().end()) {
    const OldMachine& now = old->second;
    if (machine.accelerator.count == 0) machine.accelerator = now.accelerator;
    if (machine.accelerator.type == "NVIDIA_TESLA_K80") {
      throw invalid_argument(
          fmt::format("the machine type {} of the {} has {} NVIDIA_TESLA_K80, which Vertex AI does "
                      "not have any more",
                      machine.type, pool.role, machine.accelerator.count),
          fmt::format("write {} with acceleratorConfig: {{type: NVIDIA_TESLA_T4, count: {}}}",
                      now.type, std::min(machine.accelerator.count, 4)));
    }
    machine.note =
        fmt::format("the machine type {} of the {} is AI Platform's: Vertex AI gets {}{}",
                    machine.type, pool.role, now.type,
                    now.accelerator.count == 0
                        ? ""
                        : fmt::format(" with {} {}", now.accelerator.count, now.accelerator.type));
    machine.type = now.type;
  } else if (machine.type.find('_') != std::string::npos) {
    // All of Compute Engine's have dashes.
    throw invalid_argument(fmt::format("the machine type {} of the {} does not exist on Vertex AI",
                                       machine.type, pool.role),
                           machine.type == "cloud_tpu"
                               ? "Muster trains on CPUs and on GPUs: take n1-standard-8"
                               : "take one of Compute Engine's, such as n1-standard-8");
  }
  if (machine.accelerator.count > 0) {
    machine.accelerator.type = vertex_accelerator(machine.accelerator.type, pool.role);
  }
  return machine;
}

}  // namespace muster::inline v0_1::jobs::internal
