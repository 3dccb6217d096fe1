// Reads the body of a request, in the forms of TensorFlow Serving's REST API, into the arrays that
// its signature takes. Thread safety: pure functions.
//
//   {"instances": [[1, 2], [3, 4]]}                      rows; the only input
//   {"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}        rows of named inputs
//   {"inputs": {"x": [[1, 2], [3, 4]]}}                  columns
//   {"examples": [{"x": [1, 2]}], "context": {"y": 3}}   for classify and regress
//
// "signature_name" may is next to them. Bytes are a text, or {"b64": "..."}.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "muster/serve/model.h"

namespace muster::inline v0_1::serve {

// A request in the form the model takes.
struct DecodedRequest {
  std::string signature{};
  Arrays inputs{};
  int64_t rows = 0;            // the length of axis 0, which all inputs share
  std::string examples_key{};  // under which serialized tf.Examples came; "" where none did
  bool columnar = false;       // whether it came as columns: the answer goes back in the same form
};

// Reads `body`. For classify and regress without a name, the default signature is meant where it is
// for that, else the only one that is. Throws InvalidArgument, which names the place and says what
// was expected, for a body that is not JSON or nested too deeply, a missing or unknown key, an
// unknown signature or one for something else, a value of another type, a number that is not finite
// in its dtype, lists of unequal length, and no rows at all.
DecodedRequest decode_request(Verb verb, std::string_view body,
                              const std::map<std::string, Signature>& signatures);

}  // namespace muster::inline v0_1::serve
