// A case that a peer (TensorFlow, Keras) computed: the program, its numbers, and its results.
// tools/peers/compare.py writes cases; the functions registered here run them in Muster.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// An array of a case, as JSON writes it: {"dtype": "float32", "shape": [2, 3], "values": [...]}.
// The values are in row-major order; "nan", "inf" and "-inf" mean these numbers, and the dtype
// "string" has texts.
struct PeerArray {
  std::string dtype = "float32";
  std::vector<int64_t> shape;
  nlohmann::json values = nlohmann::json::array();

  static PeerArray of(const Tensor& tensor);
  static PeerArray of(double number);
  static PeerArray of(const std::vector<std::string>& texts);

  // The numbers as a tensor of the dtype. Throws std::runtime_error where the values are texts.
  Tensor tensor() const;
  std::vector<std::string> texts() const;
};

using PeerArrays = std::map<std::string, PeerArray>;

struct PeerCase {
  std::string kind;
  nlohmann::json program;  // the program that was run: the kind defines its content
  PeerArrays inputs;       // initial variables and data
  PeerArrays expected;     // the peer's results; empty if it refused
  bool refused = false;    // the peer ended with an error
  std::string folder;      // where the case lies, with further files of it
  std::string name;        // of its file, without ".json"
};

// Throws std::runtime_error that names the file and its fault.
PeerCase read_peer_case(const std::string& path);

// Runs a case in Muster: the arrays it computed, by the names of `expected`. An exception is a
// refusal.
using PeerRun = std::function<PeerArrays(const PeerCase&)>;

// Runs cases of a kind; to be defined at namespace scope.
struct PeerKind {
  PeerKind(const std::string& kind, PeerRun run);
};

// The differences between Muster and the peer, a line each; empty: none. Numbers may differ by 1e-5
// of the largest number of their array, or of 1 if that is larger: the rounding of a sum in float32
// is in proportion to its terms, not to its value. A case may name a larger tolerance for an array
// in program["tolerance"], and its kind says why.
std::vector<std::string> differences(const PeerCase& a_case);

}  // namespace muster::inline v0_1
