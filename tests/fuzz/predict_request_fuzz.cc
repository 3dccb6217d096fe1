// decode_request() on anything: an accepted request fills its arrays exactly.
#include "muster/serve/decode_request.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {
namespace {

using serve::ElementType;

const std::map<std::string, serve::Signature>& signatures() {
  static const std::map<std::string, serve::Signature> all = {
      {"serving_default",
       {serve::Verb::kPredict, {{"x", {ElementType::kFloat32, {-1, 2}}}}, {}, {}, true}},
      {"kinds",
       {serve::Verb::kClassify,
        {{"b", {ElementType::kBool, {-1}}},
         {"s", {ElementType::kBytes, {-1, -1}}},
         {"u", {ElementType::kUint8, {-1, -1, 2}}}},
        {},
        {},
        false}}};
  return all;
}

void check(const serve::DecodedRequest& request) {
  require(request.rows > 0, "a request has rows");
  for (const auto& entry : request.inputs) {
    const serve::Array& array = entry.second;
    require(array.rows() == request.rows, "inputs have as many rows as the request");
    const auto size = static_cast<size_t>(array.size());
    require(array.type == ElementType::kBytes
                ? array.texts.size() == size && array.data.empty()
                : array.data.size() == size * serve::element_size(array.type),
            "the elements fill the shape");
  }
}

}  // namespace

std::vector<std::string> seeds() {
  return {R"({"instances": [[1, 2.5], [-3e2, 4]]})",
          R"({"instances": [{"x": [1, 2]}, {"x": [3, 4]}]})",
          R"({"instances": [{"b64": "AP8="}, "abc"]})",
          R"({"inputs": {"x": [[1, 2]]}, "signature_name": "serving_default"})",
          R"({"signature_name": "kinds", "examples": [{"b": true, "s": ["a", {"b64": ""}],
              "u": [[1, 2]]}], "context": {}})",
          R"({"signature_name": "kinds", "inputs": {"b": [false], "s": [[]], "u": [[]]}})",
          R"([[[[[[{"a": [null, "\u00e9"]}]]]]]])"};
}

std::vector<std::string> seed_folders() { return {}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const serve::Verb verb : {serve::Verb::kPredict, serve::Verb::kClassify}) {
    try {
      fuzz::check(fuzz::metered(parse_memory_limit(size), [&] {
        return serve::decode_request(verb, body, fuzz::signatures());
      }));
    } catch (const Error& error) {
      fuzz::require(error.kind() == ErrorKind::kInvalidArgument, "what is wrong is the request");
    }
  }
  return 0;
}
