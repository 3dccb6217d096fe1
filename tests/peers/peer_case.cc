#include "tests/peers/peer_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "muster/base/file_system.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

std::map<std::string, PeerRun>& runs() {
  static std::map<std::string, PeerRun> all;
  return all;
}

const std::vector<std::pair<std::string, DType>>& dtypes() {
  static const std::vector<std::pair<std::string, DType>> all = {
      {"float32", kFloat32}, {"float64", kFloat64}, {"int64", kInt64},
      {"int32", kInt32},     {"uint8", kUInt8},     {"bool", at::ScalarType::Bool}};
  return all;
}

double number(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    throw std::runtime_error("'" + text + "' is not a number");
  }
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  return value.get<double>();
}

Json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

PeerArrays arrays(const Json& json) {
  PeerArrays result;
  for (const auto& [name, array] : json.items()) {
    result[name] = {array.at("dtype"), array.at("shape"), array.at("values")};
  }
  return result;
}

std::string difference(const PeerArray& expected, const PeerArray& got, double tolerance) {
  if (expected.shape != got.shape) {
    return fmt::format("has the shape [{}], the peer's [{}]", fmt::join(got.shape, ", "),
                       fmt::join(expected.shape, ", "));
  }
  if (expected.dtype == "string" || got.dtype == "string") {
    if (expected.dtype != got.dtype) {
      return fmt::format("has the dtype {}, the peer's {}", got.dtype, expected.dtype);
    }
    for (size_t i = 0; i < expected.values.size(); ++i) {
      if (expected.values[i] != got.values[i]) {
        return fmt::format("at {}: {}, the peer's {}", i, got.values[i].dump(),
                           expected.values[i].dump());
      }
    }
    return "";
  }
  double largest = 1;
  for (const Json& value : expected.values) {
    if (std::isfinite(number(value))) largest = std::max(largest, std::abs(number(value)));
  }
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double theirs = number(expected.values[i]);
    const double ours = number(got.values[i]);
    if (theirs == ours || (std::isnan(theirs) && std::isnan(ours))) continue;
    const double apart = std::isfinite(theirs) && std::isfinite(ours)
                             ? std::abs(theirs - ours)
                             : std::numeric_limits<double>::infinity();
    if (apart > worst) {
      worst = apart;
      at = i;
    }
  }
  if (worst <= tolerance * largest) return "";
  return fmt::format("at {}: {}, the peer's {}; the largest difference, and {} was allowed", at,
                     got.values[at].dump(), expected.values[at].dump(), tolerance * largest);
}

}  // namespace

PeerArray PeerArray::of(const Tensor& tensor) {
  PeerArray array;
  const Tensor whole = tensor.detach().cpu().contiguous();
  array.dtype = "";
  for (const auto& [name, type] : dtypes()) {
    if (whole.scalar_type() == type) array.dtype = name;
  }
  if (array.dtype.empty()) {
    throw std::runtime_error(
        fmt::format("a tensor of {} has no place in a case", c10::toString(whole.scalar_type())));
  }
  array.shape = whole.sizes().vec();
  if (whole.is_floating_point()) {
    const Tensor numbers = whole.to(kFloat64).reshape(-1);
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      array.values.push_back(json_number(numbers.data_ptr<double>()[i]));
    }
  } else {
    const Tensor numbers = whole.to(kInt64).reshape(-1);
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      array.values.push_back(numbers.data_ptr<int64_t>()[i]);
    }
  }
  return array;
}

PeerArray PeerArray::of(double number) {
  PeerArray array;
  array.dtype = "float64";
  array.values.push_back(json_number(number));
  return array;
}

PeerArray PeerArray::of(const std::vector<std::string>& texts) {
  return {"string", {static_cast<int64_t>(texts.size())}, texts};
}

Tensor PeerArray::tensor() const {
  for (const auto& [name, type] : dtypes()) {
    if (dtype != name) continue;
    if (type == kInt64 || type == kInt32) {
      return torch::tensor(values.get<std::vector<int64_t>>(), kInt64).reshape(shape).to(type);
    }
    std::vector<double> numbers;
    for (const Json& value : values) numbers.push_back(number(value));
    return torch::tensor(numbers, kFloat64).reshape(shape).to(type);
  }
  throw std::runtime_error("an array of " + dtype + " is not a tensor");
}

std::vector<std::string> PeerArray::texts() const { return values.get<std::vector<std::string>>(); }

PeerCase read_peer_case(const std::string& path) {
  try {
    const auto bytes = local_file_system().read_file(path).value();
    const Json json = Json::parse(bytes.begin(), bytes.end());
    PeerCase a_case;
    a_case.kind = json.at("kind");
    a_case.program = json.at("program");
    a_case.inputs = arrays(json.at("inputs"));
    a_case.expected = arrays(json.at("expected"));
    a_case.refused = json.value("refused", false);
    const size_t slash = path.rfind('/');
    a_case.folder = path.substr(0, slash);
    a_case.name = path.substr(slash + 1, path.size() - slash - 1 - std::string(".json").size());
    return a_case;
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

PeerKind::PeerKind(const std::string& kind, PeerRun run) { runs()[kind] = std::move(run); }

std::vector<std::string> differences(const PeerCase& a_case) {
  const auto run = runs().find(a_case.kind);
  if (run == runs().end()) return {"nothing here runs cases of the kind " + a_case.kind};
  PeerArrays got;
  try {
    got = run->second(a_case);
  } catch (const std::exception& error) {
    if (a_case.refused) return {};
    return {std::string("Muster refuses what the peer runs: ") + error.what()};
  }
  if (a_case.refused) return {"Muster runs what the peer refuses"};
  const Json tolerances = a_case.program.value("tolerance", Json::object());
  std::vector<std::string> lines;
  for (const auto& [name, expected] : a_case.expected) {
    const auto found = got.find(name);
    if (found == got.end()) {
      lines.push_back(name + " is missing");
      continue;
    }
    const std::string line = difference(expected, found->second, tolerances.value(name, 1e-5));
    if (!line.empty()) lines.push_back(name + " " + line);
  }
  return lines;
}

}  // namespace muster::inline v0_1
