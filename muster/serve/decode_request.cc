#include "muster/serve/decode_request.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/serve/internal/input_reader.h"
#include "muster/serve/internal/json_tape.h"

namespace muster::inline v0_1::serve {
namespace {

using internal::InputReader;
using internal::JsonTape;
using internal::TokenKind;

using Infos = std::map<std::string, ArrayInfo>;

// Where the values of an object's members stand, in the order of the text.
using Members = std::vector<std::pair<std::string_view, size_t>>;

Members members_of(const JsonTape& tape, size_t object) {
  Members members;
  for (size_t at = object + 1; at < tape.behind(object); at = tape.behind(at + 1)) {
    members.emplace_back(tape.text(tape[at]), at + 1);
  }
  return members;
}

std::optional<size_t> find(const Members& members, std::string_view key) {
  std::optional<size_t> found;
  for (const auto& [name, index] : members) {
    if (name != key) continue;
    if (found) throw invalid_argument(fmt::format("the body has '{}' twice", key));
    found = index;
  }
  return found;
}

// Gives "'x' float32[-1, 3], 'y' int64[-1]".
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

// Returns the signature that is meant where none is named.
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

std::string signature_of(const JsonTape& tape, const Members& members, Verb verb,
                         const std::map<std::string, Signature>& signatures) {
  const std::optional<size_t> named = find(members, "signature_name");
  if (!named) return default_signature(verb, signatures);
  if (tape[*named].kind != TokenKind::kText) {
    throw invalid_argument(
        fmt::format("'signature_name' is {}, a text was expected", tape.kind_name(*named)));
  }
  std::string name(tape.text(tape[*named]));
  // As clients of TensorFlow Serving do who want the default.
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

// Whether the value is what stands for one serialized tf.Example.
bool is_bytes(const JsonTape& tape, size_t index) {
  if (tape[index].kind == TokenKind::kText) return true;
  return tape[index].kind == TokenKind::kObject && tape[index].count == 1 &&
         tape.text(tape[index + 1]) == "b64";
}

// Whether `value`, of "instances", "examples" or "inputs", holds serialized tf.Examples.
bool holds_examples(const JsonTape& tape, size_t value) {
  const auto keyed = [&](size_t at) {
    return tape[at].kind == TokenKind::kObject && tape[at].count == 1 &&
           tape.text(tape[at + 1]) == kExamplesInput;
  };
  if (keyed(value)) return true;
  if (tape[value].kind != TokenKind::kArray || tape[value].count == 0) return false;
  return is_bytes(tape, value + 1) || keyed(value + 1);
}

// Reads the body of one request, once its signature is known.
class RequestReader {
 public:
  RequestReader(const JsonTape& tape, const std::string& signature, const Infos& infos)
      : tape_(tape), signature_(signature), infos_(infos) {
    for (const auto& [name, info] : infos_) readers_.emplace_back(tape_, name, info);
  }

  // Reads "instances", or, with `features`, "examples".
  void read_rows(size_t list, const std::string& key, const Members* features) {
    if (tape_[list].kind != TokenKind::kArray) {
      throw invalid_argument(
          fmt::format("'{}' is {}, a list of rows was expected", key, tape_.kind_name(list)));
    }
    const bool bare = tape_[list].count > 0 && infos_.size() == 1 && !is_row_object(list + 1);
    if (bare && (features == nullptr || infos_.begin()->first == kExamplesInput)) {
      readers_.front().read_rows(list, key);
      return;
    }
    int64_t row = 0;
    for (size_t at = list + 1; at < tape_.behind(list); at = tape_.behind(at), ++row) {
      read_row(at, fmt::format("{}[{}]", key, row), features);
    }
  }

  // Reads "inputs".
  void read_columns(size_t value) {
    if (infos_.size() == 1 && !is_row_object(value)) {
      readers_.front().read_rows(value, "inputs");
      return;
    }
    if (tape_[value].kind != TokenKind::kObject) {
      throw invalid_argument(fmt::format("'inputs' is {}; signature '{}' takes an object of {}",
                                         tape_.kind_name(value), signature_, describe(infos_)));
    }
    assign(members_of(tape_, value), "inputs");
    size_t at = 0;
    for (const auto& info : infos_) {
      readers_[at].read_rows(values_[at], fmt::format("inputs['{}']", info.first));
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
  bool is_row_object(size_t index) const {
    return tape_[index].kind == TokenKind::kObject &&
           !(infos_.begin()->second.type == ElementType::kBytes && is_bytes(tape_, index));
  }

  void read_row(size_t index, const std::string& place, const Members* features) {
    if (tape_[index].kind != TokenKind::kObject) {
      throw invalid_argument(fmt::format("{} is {}; signature '{}' takes an object of {}", place,
                                         tape_.kind_name(index), signature_, describe(infos_)));
    }
    Members members = members_of(tape_, index);
    if (features != nullptr) members.insert(members.end(), features->begin(), features->end());
    assign(members, place);
    size_t at = 0;
    for (const auto& info : infos_) {
      const std::string where = fmt::format("{}['{}']", place, info.first);
      if (features != nullptr) {
        readers_[at].read_feature(values_[at], where);
      } else {
        readers_[at].read_row(values_[at], where);
      }
      ++at;
    }
  }

  // Finds the value of each input among `members`.
  void assign(const Members& members, const std::string& place) {
    constexpr size_t kNone = 0;  // the document itself, which is no member
    values_.assign(infos_.size(), kNone);
    for (const auto& [key, value] : members) {
      const auto found = infos_.find(std::string(key));
      if (found == infos_.end()) {
        std::vector<std::string> known;
        for (const auto& info : infos_) known.push_back(info.first);
        throw unknown_name("signature '" + signature_ + "'", "input", std::string(key), known)
            .with_detail("found in " + place);
      }
      size_t& slot = values_[static_cast<size_t>(std::distance(infos_.begin(), found))];
      if (slot != kNone) throw invalid_argument(fmt::format("{} has '{}' twice", place, key));
      slot = value;
    }
    size_t at = 0;
    for (const auto& [name, info] : infos_) {
      if (values_[at++] != kNone) continue;
      throw invalid_argument(fmt::format("{} has no '{}'; signature '{}' takes {}", place, name,
                                         signature_, describe(infos_)));
    }
  }

  const JsonTape& tape_;
  const std::string& signature_;
  const Infos& infos_;
  std::vector<InputReader> readers_;  // in the order of infos_
  std::vector<size_t> values_;        // where assign() found each
};

// Returns where the values are, and sets `key` to their name.
size_t values_of(const Members& members, Verb verb, std::string* key) {
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
  const JsonTape tape = JsonTape::parse(body);
  if (tape[0].kind != TokenKind::kObject) {
    throw invalid_argument(
        fmt::format("the body is {}, a JSON object was expected", tape.kind_name(0)));
  }
  const Members members = members_of(tape, 0);
  DecodedRequest request;
  request.signature = signature_of(tape, members, verb, signatures);
  const Signature& signature = signatures.at(request.signature);
  std::string key;
  const size_t values = values_of(members, verb, &key);
  request.columnar = key == "inputs";
  const bool serialized = signature.takes_examples && !signature.inputs.contains(kExamplesInput) &&
                          holds_examples(tape, values);
  if (serialized) request.examples_key = key;
  const Infos examples = {{kExamplesInput, {ElementType::kBytes, {-1}}}};
  const Infos& infos = serialized ? examples : signature.inputs;
  if (infos.empty()) {
    throw invalid_argument(fmt::format("signature '{}' takes no inputs", request.signature));
  }
  RequestReader reader(tape, request.signature, infos);
  if (request.columnar) {
    reader.read_columns(values);
  } else if (verb == Verb::kPredict) {
    reader.read_rows(values, key, nullptr);
  } else {
    const auto context = find(members, "context");
    if (context && tape[*context].kind != TokenKind::kObject) {
      throw invalid_argument(
          fmt::format("'context' is {}, an object was expected", tape.kind_name(*context)));
    }
    const Members shared = context ? members_of(tape, *context) : Members();
    reader.read_rows(values, key, &shared);
  }
  request.inputs = reader.take(&request.rows);
  return request;
}

}  // namespace muster::inline v0_1::serve
