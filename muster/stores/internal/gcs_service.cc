#include "muster/stores/internal/gcs_service.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>
#include <thread>
#include <utility>

#include "muster/base/base64.h"
#include "muster/base/crc32c.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/files/shared_patience.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/gcs_parts.h"
#include "muster/stores/internal/gcs_upload.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {
namespace {

std::optional<uint32_t> parse_crc32c(const std::string& text) {
  const std::optional<std::string> bytes = from_base64(text);
  if (!bytes || bytes->size() != 4) return std::nullopt;
  uint32_t crc = 0;
  for (const char byte : *bytes) crc = crc << 8 | static_cast<unsigned char>(byte);
  return crc;
}

std::string text_of_field(const nlohmann::json& json, const char* name) {
  if (!json.is_object()) return "";
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// The headers of a download as an ObjectInfo.
ObjectInfo info_of_download(const HttpResponse& response) {
  ObjectInfo info;
  info.version = response.header("x-goog-generation");
  info.modified_seconds = parse_http_date(response.header("last-modified"));
  for (const std::string& hash : split(response.header("x-goog-hash"), ',')) {
    const std::string_view entry = trim(hash);
    if (entry.starts_with("crc32c=")) info.crc32c = parse_crc32c(std::string(entry.substr(7)));
  }
  return info;
}

}  // namespace

GcsService::GcsService(GcsOptions options)
    : options_(std::move(options)),
      client_(options_.limits),
      credentials_(options_.environment, options_.limits) {}

std::string GcsService::endpoint() const {
  return options_.endpoint.empty() ? "https://storage.googleapis.com" : options_.endpoint;
}

std::string GcsService::bucket_url(const ObjectName& object, const std::string& api) const {
  return endpoint() + api + "/b/" + percent_encode(object.bucket);
}

std::string GcsService::object_url(const ObjectName& object) const {
  return bucket_url(object) + "/o/" + percent_encode(object.key);
}

std::string GcsService::xml_url(const ObjectName& object) const {
  return endpoint() + "/" + percent_encode(object.bucket) + "/" + percent_encode(object.key, true);
}

Result<HttpRequest> GcsService::build(const Call& call) {
  HttpRequest request{.method = call.method,
                      .url = call.url,
                      .headers = call.headers,
                      .body = call.body,
                      .most_body = kMostAnswer,
                      .stall_seconds = call.slow ? 10 * options_.limits.stall_timeout.count() : 0};
  std::string quota_project = options_.quota_project;
  // An emulator has no use for a token, and must not learn one.
  if (options_.endpoint.empty()) {
    Result<std::optional<GoogleToken>> token = credentials_.get();
    if (!token.ok()) return token.error();
    if (token.value()) {
      request.headers.push_back("Authorization: Bearer " + token.value()->token);
      if (quota_project.empty()) quota_project = token.value()->quota_project;
    }
  }
  if (!options_.user_project.empty()) {
    // The JSON API wants it here, the XML API in the header; the address of an upload that
    // continues stays as the service gave it.
    const bool is_json = call.url.starts_with(endpoint() + "/storage/") ||
                         call.url.starts_with(endpoint() + "/upload/storage/");
    if (is_json && call.url.find("upload_id=") == std::string::npos)
      request.url += (call.url.find('?') == std::string::npos ? "?userProject=" : "&userProject=") +
                     percent_encode(options_.user_project);
    quota_project = options_.user_project;
  }
  if (!quota_project.empty()) request.headers.push_back("X-Goog-User-Project: " + quota_project);
  return request;
}

RetryDecision GcsService::judge(const HttpResponse& response) {
  if (response.transport == Transport::kAnswered && response.status == 401) {
    // A token may end before its time.
    credentials_.forget();
    return response.attempts == 1 ? RetryDecision::kAtOnce : RetryDecision::kFinal;
  }
  return RetryDecision::kByStatus;
}

Result<HttpResponse> GcsService::send(const Call& call, Cancellation* cancellation) {
  Result<HttpResponse> answer = perform_with_retries(
      client_, {.what = call.what,
                .make = [&] { return build(call); },
                .amend = take_status_of_body,
                .judge = [&](const HttpResponse& response) { return judge(response); },
                .error_of = [&](const HttpResponse& response) { return error_of(call, response); },
                .cancellation = cancellation});
  if (!answer.ok()) return answer.error().with_context("cannot " + call.what);
  if (!answer.value().ok()) return error_of(call, answer.value());
  return answer;
}

Error GcsService::error_of(const Call& call, const HttpResponse& response) {
  std::string reason;
  std::string message = response.body;
  if (const Result<nlohmann::json> json = parse_json(response.body, "an error");
      json.ok() && json.value().is_object() && json.value().contains("error")) {
    const nlohmann::json& error = json.value()["error"];
    if (error.is_object()) {
      message = text_of_field(error, "message");
      if (const auto all = error.find("errors");
          all != error.end() && all->is_array() && !all->empty() && all->front().is_object()) {
        reason = text_of_field(all->front(), "reason");
      }
    }
  } else if (pugi::xml_document xml; xml.load_string(response.body.c_str()) && xml.child("Error")) {
    reason = xml.child("Error").child_value("Code");
    message = xml.child("Error").child_value("Message");
  }
  if (!is_utf8(message)) message.clear();  // it came compressed
  std::string hint;
  if (response.transport == Transport::kAnswered) {
    if (response.status == 403 || response.status == 401) {
      const Result<std::optional<GoogleToken>> used =
          options_.endpoint.empty() ? credentials_.get() : std::optional<GoogleToken>();
      hint = used.ok() && used.value()
                 ? "the credentials were those of " + used.value()->source +
                       ": let the owner of the bucket permit it to them, or use others "
                       "(docs/buckets.md)"
                 : "no credentials were found, and the bucket is not public: set "
                   "GOOGLE_APPLICATION_CREDENTIALS, or: gcloud auth application-default login";
    } else if (response.status == 400 && options_.user_project.empty() &&
               (reason == "UserProjectMissing" ||
                message.find("requester pays") != std::string::npos)) {
      hint = "who asks pays for this bucket: set GS_USER_PROJECT to the project that shall";
    } else if (response.status == 404) {
      if (call.object.key.empty() || message.find("bucket") != std::string::npos) {
        message = "there is no bucket '" + call.object.bucket + "' at " + endpoint();
        hint = "make it with the service's tools, or check its name" +
               std::string(options_.endpoint.empty() ? "" : " and STORAGE_EMULATOR_HOST");
      } else if (call.object.has_empty_part()) {
        hint = call.object.empty_part_hint();
      } else {
        hint = "check the name of the object";
      }
    }
  }
  return response_error(response, call.what, reason, std::string(trim(message)), hint);
}

Result<ObjectInfo> GcsService::read_info(const std::string& text, const ObjectName& object) {
  Result<nlohmann::json> json = parse_json(text, "the description of '" + object.uri() + "'");
  if (!json.ok()) return json.error();
  const auto size =
      json.value().is_object() ? parse_size(text_of_field(json.value(), "size")) : std::nullopt;
  if (!size) {
    return invalid_argument("the service describes '" + object.uri() + "' without its size",
                            "check STORAGE_EMULATOR_HOST: another service seems to answer there");
  }
  ObjectInfo info;
  info.size = *size;
  info.version = text_of_field(json.value(), "generation");
  info.modified_seconds = parse_iso_time(text_of_field(json.value(), "updated")).value_or(0);
  info.crc32c = parse_crc32c(text_of_field(json.value(), "crc32c"));
  return info;
}

Result<ObjectInfo> GcsService::look(const ObjectName& object) {
  Result<HttpResponse> answer =
      send({.what = "look at '" + object.uri() + "'", .object = object, .url = object_url(object)});
  if (!answer.ok()) return answer.error();
  return read_info(answer.value().body, object);
}

Result<RangeRead> GcsService::read(const ObjectName& object, const std::string& version,
                                   uint64_t offset, MutableBytes out, Cancellation* cancellation) {
  Call call{.what = "read '" + object.uri() + "'", .object = object};
  return read_range(
      client_, {.uri = object.uri(),
                .version = version,
                .offset = offset,
                .out = out,
                .make =
                    [&](const std::string& range, const std::string& wanted) {
                      Query query{{"alt", "media"}};
                      if (!wanted.empty()) query.add("ifGenerationMatch", wanted);
                      call.url = object_url(object) + "?" + query.text();
                      // Objects that are stored compressed come as they are, or ranges would mean
                      // nothing.
                      call.headers = {range, "Accept-Encoding: gzip"};
                      return build(call);
                    },
                .info_of = info_of_download,
                .judge = [&](const HttpResponse& response) { return judge(response); },
                .error_of = [&](const HttpResponse& response) { return error_of(call, response); },
                .cancellation = cancellation});
}

Result<ObjectInfo> GcsService::put(const ObjectName& object, Bytes bytes) {
  // In one request with its checksum, by which the service refuses bytes that were changed on the
  // way.
  const std::string boundary = "muster-" + hex(sha256(bytes)).substr(0, 40);
  const nlohmann::json about = {{"name", object.key},
                                {"contentType", "application/octet-stream"},
                                {"crc32c", crc32c_text(crc32c(bytes))}};
  std::string body = "--" + boundary + "\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" +
                     about.dump() + "\r\n--" + boundary +
                     "\r\nContent-Type: application/octet-stream\r\n\r\n";
  body.append(text_of(bytes));
  body += "\r\n--" + boundary + "--\r\n";
  Result<HttpResponse> answer =
      send({.what = "write '" + object.uri() + "'",
            .method = "POST",
            .object = object,
            .url = bucket_url(object, "/upload/storage/v1") + "/o?uploadType=multipart",
            .headers = {"Content-Type: multipart/related; boundary=" + boundary},
            .body = bytes_of(body)});
  if (!answer.ok()) return answer.error();
  return read_info(answer.value().body, object);
}

Result<std::unique_ptr<PartUpload>> GcsService::begin_upload(const ObjectName& object) {
  const auto has_parts = [&] {
    const std::lock_guard lock(mutex_);
    return !without_parts_.contains(object.bucket);
  };
  if (has_parts()) {
    Result<std::unique_ptr<PartsUpload>> parts = PartsUpload::begin(*this, object);
    if (parts.ok()) return std::unique_ptr<PartUpload>(std::move(parts).value());
    const ErrorKind kind = parts.error().kind();
    if (kind != ErrorKind::kNotFound && kind != ErrorKind::kInvalidArgument) return parts.error();
  }
  // Resumable uploads are known everywhere.
  Result<std::unique_ptr<Upload>> upload = Upload::begin(*this, object);
  if (!upload.ok()) return upload.error();
  const std::lock_guard lock(mutex_);
  without_parts_.insert(object.bucket);
  return std::unique_ptr<PartUpload>(std::move(upload).value());
}

Result<ObjectInfo> GcsService::extend(const ObjectName& object, const ObjectInfo& base,
                                      Bytes tail) {
  static std::atomic<uint64_t> counter{0};
  const size_t slash = object.key.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : object.key.substr(0, slash + 1);
  const ObjectName aside =
      object.with_key(directory + "." + std::string(base_name(object.key)) + ".staging-" +
                      std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1)));
  Result<ObjectInfo> put_aside = put(aside, tail);
  if (!put_aside.ok()) return put_aside.error();
  const nlohmann::json wanted = {
      {"sourceObjects",
       {{{"name", object.key}, {"generation", base.version}}, {{"name", aside.key}}}},
      {"destination", {{"contentType", "application/octet-stream"}}}};
  const std::string body = wanted.dump();
  const Query query{{"ifGenerationMatch", base.version}};
  Result<HttpResponse> answer = send({.what = "append to '" + object.uri() + "'",
                                      .method = "POST",
                                      .object = object,
                                      .url = object_url(object) + "/compose?" + query.text(),
                                      .headers = {"Content-Type: application/json"},
                                      .body = bytes_of(body),
                                      .slow = true});
  // If this fails, only a staging file is left, which is never read.
  (void)remove(aside);
  if (answer.ok()) return read_info(answer.value().body, object);
  // A try whose answer was lost may have done it: then a second one finds another generation.
  Result<ObjectInfo> now = look(object);
  if (now.ok() && base.crc32c && now.value().size == base.size + tail.size() &&
      now.value().crc32c == extend_crc32c(*base.crc32c, tail)) {
    return now;
  }
  return answer.error();
}

Result<ListPage> GcsService::list(const ObjectName& bucket, const std::string& prefix, bool flat,
                                  const std::string& next, int most) {
  const ObjectName whole = bucket.with_key("");
  Query query{{"prefix", prefix}, {"fields", "items(name,size,updated),prefixes,nextPageToken"}};
  if (!flat) query.add("delimiter", "/");
  if (!next.empty()) query.add("pageToken", next);
  if (most > 0) query.add("maxResults", std::to_string(most));
  Result<HttpResponse> answer = send({.what = "list '" + bucket.with_key(prefix).uri() + "'",
                                      .object = whole,
                                      .url = bucket_url(bucket) + "/o?" + query.text()});
  if (!answer.ok()) return answer.error();
  Result<nlohmann::json> json = parse_json(answer.value().body, "a list of '" + whole.uri() + "'");
  if (!json.ok()) return json.error();
  const auto entries = [&](const char* name) {
    const auto found = json.value().is_object() ? json.value().find(name) : json.value().end();
    return found != json.value().end() && found->is_array() ? *found : nlohmann::json::array();
  };
  ListPage page;
  for (const nlohmann::json& item : entries("items")) {
    page.keys.push_back(text_of_field(item, "name"));
    const auto size = parse_size(text_of_field(item, "size"));
    if (!size)
      return no_size(page.keys.back(), text_of_field(item, "size"), "list '" + whole.uri() + "'");
    page.infos.push_back(
        {.size = *size,
         .modified_seconds = parse_iso_time(text_of_field(item, "updated")).value_or(0)});
  }
  for (const nlohmann::json& entry : entries("prefixes")) {
    if (entry.is_string()) page.prefixes.push_back(entry.get<std::string>());
  }
  page.next = text_of_field(json.value(), "nextPageToken");
  return page;
}

Status GcsService::remove(const ObjectName& object) {
  Result<HttpResponse> answer = send({.what = "remove '" + object.uri() + "'",
                                      .method = "DELETE",
                                      .object = object,
                                      .url = object_url(object)});
  if (answer.ok() || answer.error().kind() == ErrorKind::kNotFound) return {};
  return answer.error();
}

Status GcsService::remove_all(const ObjectName& bucket, const std::vector<std::string>& keys) {
  // The API removes one object in a request; so several requests go at once.
  constexpr size_t kAtOnce = 8;
  std::atomic<size_t> next{0};
  std::vector<Status> failed(std::min(kAtOnce, keys.size()));
  {
    std::vector<std::jthread> threads;
    const auto outage = SharedPatience::current();
    for (Status& failure : failed) {
      threads.emplace_back([&] {
        const SharedPatience::Part part(outage);
        for (size_t at = next.fetch_add(1); at < keys.size(); at = next.fetch_add(1)) {
          Status removed = remove(bucket.with_key(keys[at]));
          if (removed.ok()) continue;
          failure = std::move(removed);
          return;
        }
      });
    }
  }
  for (Status& failure : failed) {
    if (!failure.ok()) return failure;
  }
  return {};
}

Status GcsService::copy(const ObjectName& from, const ObjectInfo& info, const ObjectName& to) {
  // Large copies between locations take several calls, each of which continues after the last.
  std::string token;
  while (true) {
    Query query{{"ifSourceGenerationMatch", info.version}};
    if (!token.empty()) query.add("rewriteToken", token);
    Result<HttpResponse> answer =
        send({.what = "copy '" + from.uri() + "' to '" + to.uri() + "'",
              .method = "POST",
              .object = from,
              .url = object_url(from) + "/rewriteTo/b/" + percent_encode(to.bucket) + "/o/" +
                     percent_encode(to.key) + "?" + query.text(),
              .slow = true});
    if (!answer.ok()) return answer.error();
    Result<nlohmann::json> json = parse_json(answer.value().body, "a copy of '" + from.uri() + "'");
    if (!json.ok()) return json.error();
    const auto done = json.value().find("done");
    if (done != json.value().end() && *done == true) return {};
    const std::string before = std::exchange(token, text_of_field(json.value(), "rewriteToken"));
    if (token.empty()) {
      return invalid_argument("the service neither ends nor goes on copying '" + from.uri() + "'",
                              "copy it with the service's tools");
    }
  }
}

}  // namespace muster::inline v0_1::stores::internal
