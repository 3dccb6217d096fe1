#include "muster/serve/decode_request.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/serve/internal/input_reader.h"
#include "muster/serve/internal/json_body.h"

namespace muster::inline v0_1::serve {
namespace {

using internal::InputReader;
using internal::JsonValue;
using internal::kind_name;

using Infos = std::map<std::string, ArrayInfo>;

// The members of an object, in the order of the text.
using Members = std::vector<std::pair<std::string_view, JsonValue>>;

Members members_of(JsonValue object) {
  Members members;
  for (const auto& [key, value] : internal::object_in(object)) members.emplace_back(key, value);
  return members;
}

std::optional<JsonValue> find(const Members& members, std::string_view key) {
  std::optional<JsonValue> found;
  for (const auto& [name, value] : members) {
    if (name != key) continue;
    if (found) throw invalid_argument(fmt::format("the body has '{}' twice", key));
    found = value;
  }
  return found;
}

// Returns "'x' float32[-1, 3], 'y' int64[-1]".
std::string describe(const Infos& infos) {
  std::vector<std::string> parts;
  for (const auto& [name, info] : infos) {
    parts.push_back(fmt::format("'{}' {}", name, info.describe()));
  }
  return join(parts, ", ");
}

std::string names_of(const Members& members) {
  std::vector<std::string> names;
  for (const auto& member : members) names.push_back(printable_beginning(member.first));
  return join_quoted(names, 5);
}

// Returns the signature that is meant if none is named.
std::string default_signature(Verb verb, const std::map<std::string, Signature>& signatures) {
  const auto found = signatures.find(kDefaultSignature);
  if (found != signatures.end() && (verb == Verb::kPredict || found->second.verb == verb)) {
    return kDefaultSignature;
  }
  std::vector<std::string> fitting;
  for (const auto& [name, signature] : signatures) {
    if (signature.verb == verb) fitting.push_back(name);
  }
  if (fitting.size() == 1) return fitting.front();
  throw invalid_argument(fmt::format(
      "the body has no 'signature_name', and {} signature is for {}{}",
      fitting.empty() ? "no" : "more than one", to_string(verb),
      fitting.empty() ? "; ask for predict" : ": it may be one of " + join_quoted(fitting)));
}

std::string signature_of(const Members& members, Verb verb,
                         const std::map<std::string, Signature>& signatures) {
  const std::optional<JsonValue> named = find(members, "signature_name");
  if (!named) return default_signature(verb, signatures);
  if (!named->is_string()) {
    throw invalid_argument(
        fmt::format("'signature_name' is {}, a text was expected", kind_name(*named)));
  }
  std::string name(named->get_string().value());
  // As clients of TensorFlow Serving do that want the default.
  if (name.empty()) return default_signature(verb, signatures);
  const auto found = signatures.find(name);
  if (found == signatures.end()) {
    std::vector<std::string> known;
    for (const auto& entry : signatures) known.push_back(entry.first);
    throw unknown_name("the model", "signature", name, known);
  }
  if (verb != Verb::kPredict && found->second.verb != verb) {
    throw invalid_argument(fmt::format("signature '{}' is for {}, not for {}", name,
                                       to_string(found->second.verb), to_string(verb)));
  }
  return name;
}

// Whether the value is an object of this key alone.
bool is_keyed(JsonValue value, std::string_view key) {
  return internal::count_in(value) == 1 && value.at_key(key).error() == simdjson::SUCCESS;
}

// Whether the value represents one serialized tf.Example.
bool is_bytes(JsonValue value) { return value.is_string() || is_keyed(value, "b64"); }

// Whether `value`, of "instances", "examples" or "inputs", holds serialized tf.Examples.
bool holds_examples(JsonValue value) {
  if (is_keyed(value, kExamplesInput)) return true;
  JsonValue first;
  return value.at(0).get(first) == simdjson::SUCCESS &&
         (is_bytes(first) || is_keyed(first, kExamplesInput));
}

// Reads the body of one request, once its signature is known.
class RequestReader {
 public:
  RequestReader(const std::string& signature, const Infos& infos)
      : signature_(signature), infos_(infos) {
    for (const auto& [name, info] : infos_) readers_.emplace_back(name, info);
  }

  // Reads "instances", or, with `features`, "examples".
  void read_rows(JsonValue list, const std::string& key, const Members* features) {
    if (!list.is_array()) {
      throw invalid_argument(
          fmt::format("'{}' is {}, a list of rows was expected", key, kind_name(list)));
    }
    JsonValue first;
    const bool bare =
        infos_.size() == 1 && list.at(0).get(first) == simdjson::SUCCESS && !is_row_object(first);
    if (bare && (features == nullptr || infos_.begin()->first == kExamplesInput)) {
      readers_.front().read_rows(list, key);
      return;
    }
    int64_t row = 0;
    for (const JsonValue one : internal::list_in(list))
      read_row(one, fmt::format("{}[{}]", key, row++), features);
  }

  // Reads "inputs".
  void read_columns(JsonValue value) {
    if (infos_.size() == 1 && !is_row_object(value)) {
      readers_.front().read_rows(value, "inputs");
      return;
    }
    if (!value.is_object()) {
      throw invalid_argument(fmt::format("'inputs' is {}; signature '{}' takes an object of {}",
                                         kind_name(value), signature_, describe(infos_)));
    }
    assign(members_of(value), "inputs");
    size_t at = 0;
    for (const auto& info : infos_) {
      readers_[at].read_rows(*values_[at], fmt::format("inputs['{}']", info.first));
      ++at;
    }
  }

  // Returns the arrays, and sets the number of their rows.
  Arrays take(int64_t* rows) {
    Arrays inputs;
    size_t at = 0;
    for (const auto& info : infos_) inputs.emplace(info.first, readers_[at++].take());
    *rows = inputs.begin()->second.rows();
    for (const auto& [name, array] : inputs) {
      if (array.rows() != *rows) {
        throw invalid_argument(
            fmt::format("input '{}' has {} rows and '{}' has {}; all inputs of "
                        "a request have the same number of rows",
                        inputs.begin()->first, *rows, name, array.rows()));
      }
    }
    if (*rows == 0) throw invalid_argument("the request has no rows; at least one was expected");
    return inputs;
  }

 private:
  // Whether the value gives inputs by name; an object with the key "b64" is one value of bytes.
  bool is_row_object(JsonValue value) const {
    return value.is_object() &&
           !(infos_.begin()->second.type == ElementType::kBytes && is_bytes(value));
  }

  void read_row(JsonValue row, const std::string& place, const Members* features) {
    if (!row.is_object()) {
      throw invalid_argument(fmt::format("{} is {}; signature '{}' takes an object of {}", place,
                                         kind_name(row), signature_, describe(infos_)));
    }
    Members members = members_of(row);
    if (features != nullptr) members.insert(members.end(), features->begin(), features->end());
    assign(members, place);
    size_t at = 0;
    for (const auto& info : infos_) {
      const std::string where = fmt::format("{}['{}']", place, info.first);
      if (features != nullptr) {
        readers_[at].read_feature(*values_[at], where);
      } else {
        readers_[at].read_row(*values_[at], where);
      }
      ++at;
    }
  }

  // Finds the value of each input among `members`.
  void assign(const Members& members, const std::string& place) {
    values_.assign(infos_.size(), std::nullopt);
    for (const auto& [key, value] : members) {
      const auto found = infos_.find(std::string(key));
      if (found == infos_.end()) {
        std::vector<std::string> known;
        for (const auto& info : infos_) known.push_back(info.first);
        throw unknown_name("signature '" + signature_ + "'", "input", std::string(key), known)
            .with_detail("found in " + place);
      }
      std::optional<JsonValue>& slot =
          values_[static_cast<size_t>(std::distance(infos_.begin(), found))];
      if (slot) throw invalid_argument(fmt::format("{} has '{}' twice", place, key));
      slot = value;
    }
    size_t at = 0;
    for (const auto& [name, info] : infos_) {
      if (values_[at++]) continue;
      throw invalid_argument(fmt::format("{} has no '{}'; signature '{}' takes {}", place, name,
                                         signature_, describe(infos_)));
    }
  }

  const std::string& signature_;
  const Infos& infos_;
  std::vector<InputReader> readers_;              // in the order of infos_
  std::vector<std::optional<JsonValue>> values_;  // the result of assign() for each
};

// Returns the values, and sets `key` to their name.
JsonValue values_of(const Members& members, Verb verb, std::string* key) {
  if (verb != Verb::kPredict) {
    *key = "examples";
    const auto examples = find(members, *key);
    if (examples) return *examples;
    throw invalid_argument(
        fmt::format("the body has no 'examples', which {} takes; it has {}; 'instances' and "
                    "'inputs' are for predict",
                    to_string(verb), names_of(members)));
  }
  const auto rows = find(members, "instances");
  const auto columns = find(members, "inputs");
  if (rows && columns) {
    throw invalid_argument(
        "the body has both 'instances' (rows) and 'inputs' (columns); one of "
        "them was expected");
  }
  *key = rows ? "instances" : "inputs";
  if (rows) return *rows;
  if (columns) return *columns;
  throw invalid_argument(
      fmt::format("the body has neither 'instances' (rows) nor 'inputs' (columns); it has {}",
                  names_of(members)));
}

}  // namespace

DecodedRequest decode_request(Verb verb, std::string_view body,
                              const std::map<std::string, Signature>& signatures) {
  simdjson::dom::parser parser;
  const JsonValue root = internal::parse_body(parser, body);
  if (!root.is_object())
    throw invalid_argument(
        fmt::format("the body is {}, a JSON object was expected", kind_name(root)));
  const Members members = members_of(root);
  DecodedRequest request;
  request.signature = signature_of(members, verb, signatures);
  const Signature& signature = signatures.at(request.signature);
  std::string key;
  const JsonValue values = values_of(members, verb, &key);
  request.columnar = key == "inputs";
  const bool serialized = signature.takes_examples && !signature.inputs.contains(kExamplesInput) &&
                          holds_examples(values);
  if (serialized) request.examples_key = key;
  const Infos examples = {{kExamplesInput, {ElementType::kBytes, {-1}}}};
  const Infos& infos = serialized ? examples : signature.inputs;
  if (infos.empty()) {
    throw invalid_argument(fmt::format("signature '{}' takes no inputs", request.signature));
  }
  RequestReader reader(request.signature, infos);
  if (request.columnar) {
    reader.read_columns(values);
  } else if (verb == Verb::kPredict) {
    reader.read_rows(values, key, nullptr);
  } else {
    const auto context = find(members, "context");
    if (context && !context->is_object()) {
      throw invalid_argument(
          fmt::format("'context' is {}, an object was expected", kind_name(*context)));
    }
    const Members shared = context ? members_of(*context) : Members();
    reader.read_rows(values, key, &shared);
  }
  request.inputs = reader.take(&request.rows);
  return request;
}

}  // namespace muster::inline v0_1::serve
