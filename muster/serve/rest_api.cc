#include "muster/serve/rest_api.h"

#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/base/nearest.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/serve/decode_request.h"
#include "muster/serve/encode_response.h"

namespace muster::inline v0_1::serve {
namespace {

// The order of the keys is TensorFlow Serving's.
using Json = nlohmann::ordered_json;

constexpr std::string_view kModels = "/v1/models/";

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kCorrupt:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kUnavailable:
      return 429;
    case ErrorKind::kTimeout:
    case ErrorKind::kCancelled:
      return 503;
    default:
      return 500;
  }
}

HttpAnswer json_answer(const Json& json) {
  return {200, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", kJson, {}};
}

HttpAnswer wrong_method(const HttpRequest& request, const std::string& allowed) {
  HttpAnswer answer{405,
                    encode_error(fmt::format("{} takes {}, not {}", printable(request.path),
                                             allowed, printable(request.method))),
                    kJson,
                    {}};
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

bool reads(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

Json tensors_json(const std::map<std::string, ArrayInfo>& infos) {
  Json all = Json::object();
  for (const auto& [name, info] : infos) {
    Json dims = Json::array();
    for (const int64_t length : info.shape) {
      dims.push_back({{"size", std::to_string(length)}, {"name", ""}});
    }
    all[name] = {{"dtype", std::string(tensorflow_name(info.type))},
                 {"tensor_shape", {{"dim", dims}, {"unknown_rank", false}}},
                 {"name", name}};
  }
  return all;
}

// Calls `answer`. An error of a serialized tf.Example names it by its place in the request.
Arrays in_words_of(const DecodedRequest& request, const std::function<Arrays()>& answer) {
  try {
    return answer();
  } catch (const Error& error) {
    const std::string place = std::string(kExamplesInput) + "[";
    if (request.examples_key.empty() || !error.message().starts_with(place)) throw;
    throw Error(error.kind(), request.examples_key + error.message().substr(place.size() - 1),
                error.hint());
  }
}

}  // namespace

HttpAnswer answer_of(const Error& error) {
  HttpAnswer answer{status_of(error.kind()), "", kJson, {}};
  answer.body =
      encode_error(error.hint().empty() ? error.message() : error.message() + "; " + error.hint());
  if (answer.status == 429 || answer.status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer RestApi::answer(const HttpRequest& request) {
  try {
    return route(request);
  } catch (const Error& error) {
    HttpAnswer answer = answer_of(error);
    if (answer.status == 500) log::error(fmt::format("{}: {}", request.path, error.message()));
    return answer;
  } catch (const std::exception& error) {
    log::error(fmt::format("{}: {}", printable(request.path), error.what()));
    return answer_of(internal_error(error.what()));
  }
}

HttpAnswer RestApi::route(const HttpRequest& request) {
  if (!request.path.starts_with(kModels)) return fixed_path(request);
  const Target target = target_of(std::string_view(request.path).substr(kModels.size()));
  if (target.name != name_) {
    const bool near = nearest(target.name, {name_}).has_value();
    throw not_found(fmt::format("there is no model '{}' here", printable(target.name)),
                    near ? fmt::format("did you mean '{}'?", name_)
                         : fmt::format("this server has '{}'", name_));
  }
  for (const Verb verb : {Verb::kPredict, Verb::kClassify, Verb::kRegress}) {
    if (target.verb != to_string(verb)) continue;
    if (request.method != "POST") return wrong_method(request, "POST");
    return infer(verb, target, request);
  }
  if (!target.verb.empty() && target.verb != "metadata") {
    throw not_found(fmt::format("there is no '{}' of a model", printable(target.verb)),
                    "take :predict, :classify, :regress, or /metadata");
  }
  if (!reads(request)) return wrong_method(request, "GET");
  return target.verb.empty() ? status(target) : metadata(target);
}

HttpAnswer RestApi::fixed_path(const HttpRequest& request) {
  const bool metrics =
      request.path == "/metrics" || request.path == "/monitoring/prometheus/metrics";
  if (!metrics && request.path != "/healthz" && request.path != "/readyz") {
    throw not_found(fmt::format("there is nothing at {}", printable(request.path)),
                    fmt::format("the model is at {}{}", kModels, name_));
  }
  if (!reads(request)) return wrong_method(request, "GET");
  if (metrics) return {200, metrics_.text(), "text/plain; version=0.0.4; charset=utf-8", {}};
  if (request.path == "/healthz") return {200, "ok\n", "text/plain", {}};
  if (wanting_.load() && versions_.newest() != nullptr) return {200, "ready\n", "text/plain", {}};
  return {503,
          wanting_.load() ? "no version is loaded\n" : "stopping\n",
          "text/plain",
          {{"Retry-After", "1"}}};
}

RestApi::Target RestApi::target_of(std::string_view rest) {
  const auto nothing = [&] {
    return not_found(fmt::format("there is nothing at {}{}", kModels, printable(rest)),
                     "a path is /v1/models/NAME[/versions/N][:predict], or ends with /metadata");
  };
  Target target;
  if (const size_t colon = rest.rfind(':');
      colon != std::string_view::npos && rest.find('/', colon) == std::string_view::npos) {
    target.verb = rest.substr(colon + 1);
    if (target.verb.empty() || target.verb == "metadata") throw nothing();
    rest = rest.substr(0, colon);
  }
  std::vector<std::string> words = split(rest, '/');
  if (words.size() > 1 && words.back() == "metadata" && target.verb.empty()) {
    target.verb = "metadata";
    words.pop_back();
  }
  target.name = words.front();
  if (words.size() == 3 && words[1] == "versions") {
    target.version = words[2];
    words.resize(1);
    if (target.version.empty()) throw nothing();
  }
  if (words.size() != 1 || target.name.empty()) throw nothing();
  return target;
}

std::shared_ptr<ServedVersion> RestApi::version_of(const Target& target) const {
  if (target.version.empty()) {
    if (auto newest = versions_.newest()) return newest;
    throw Error(ErrorKind::kTimeout, fmt::format("no version of '{}' is loaded yet", name_),
                "ask again later");
  }
  const auto number = parse_int(target.version);
  // One way to write it alone, as the folders are called.
  const bool plain = number && std::to_string(*number) == target.version;
  if (auto found = plain ? versions_.find(*number) : nullptr) return found;
  std::vector<std::string> known;
  for (const VersionStatus& status : versions_.status()) {
    if (status.state == "AVAILABLE") known.push_back(std::to_string(status.version));
  }
  throw not_found(fmt::format("version {} of '{}' is not loaded", printable(target.version), name_),
                  fmt::format("loaded: {}", join(known, ", ")));
}

HttpAnswer RestApi::infer(Verb verb, const Target& target, const HttpRequest& request) {
  const std::shared_ptr<ServedVersion> version = version_of(target);
  version->batcher.check_room();
  const auto& signatures = version->model->signatures();
  DecodedRequest decoded = decode_request(verb, request.body, signatures);
  const Signature& signature = signatures.at(decoded.signature);
  const Arrays outputs = in_words_of(decoded, [&] {
    return version->batcher.answer(decoded.signature, std::move(decoded.inputs), decoded.rows,
                                   signature.joins(), request.deadline);
  });
  HttpAnswer answer;
  if (verb == Verb::kClassify) {
    answer.body = encode_classes(signature, outputs);
  } else if (verb == Verb::kRegress) {
    answer.body = encode_regressions(outputs);
  } else {
    answer.body =
        decoded.columnar ? encode_columns(outputs) : encode_predictions(outputs, decoded.rows);
  }
  answer.body += '\n';
  return answer;
}

HttpAnswer RestApi::status(const Target& target) const {
  Json all = Json::array();
  for (const VersionStatus& status : versions_.status()) {
    const std::string version = std::to_string(status.version);
    if (!target.version.empty() && target.version != version) continue;
    all.push_back({{"version", version},
                   {"state", status.state},
                   {"status",
                    {{"error_code", status.error.empty() ? "OK" : "UNKNOWN"},
                     {"error_message", status.error}}}});
  }
  if (all.empty() && !target.version.empty()) version_of(target);
  return json_answer({{"model_version_status", all}});
}

HttpAnswer RestApi::metadata(const Target& target) const {
  const std::shared_ptr<ServedVersion> version = version_of(target);
  Json signatures = Json::object();
  for (const auto& [name, signature] : version->model->signatures()) {
    signatures[name] = {
        {"inputs", tensors_json(signature.inputs)},
        {"outputs", tensors_json(signature.outputs)},
        {"method_name", fmt::format("tensorflow/serving/{}", to_string(signature.verb))}};
  }
  return json_answer(
      {{"model_spec",
        {{"name", name_}, {"signature_name", ""}, {"version", std::to_string(version->version)}}},
       {"metadata", {{"signature_def", {{"signature_def", signatures}}}}}});
}

}  // namespace muster::inline v0_1::serve
