#include "tests/support/gcs_stand_in.h"

#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

std::string base64_crc(const std::string& content) {
  const uint32_t crc = crc32c(bytes_of(content));
  const unsigned char bytes[4] = {
      static_cast<unsigned char>(crc >> 24), static_cast<unsigned char>(crc >> 16),
      static_cast<unsigned char>(crc >> 8), static_cast<unsigned char>(crc)};
  unsigned char text[9];
  EVP_EncodeBlock(text, bytes, 4);
  return reinterpret_cast<const char*>(text);
}

void refuse_in_json(httplib::Response& response, int status, const std::string& reason,
                    const std::string& message) {
  response.status = status;
  const nlohmann::json error = {
      {"error", {{"code", status}, {"message", message}, {"errors", {{{"reason", reason}}}}}}};
  response.set_content(error.dump(), "application/json; charset=UTF-8");
}

constexpr const char* kObjects = "/storage/v1/b/bucket/o";
constexpr const char* kUpload = "/upload/storage/v1/b/bucket/o";

}  // namespace

GcsStandIn::GcsStandIn()
    : server_(std::make_unique<WebServer>(
          [this](const httplib::Request& request, httplib::Response& response) {
            answer(request, response);
          })) {}

void GcsStandIn::put(const std::string& name, std::string content) {
  objects_[name] = {std::move(content), ++generation_};
}

void GcsStandIn::describe(httplib::Response& response, const std::string& name) {
  const Object& object = objects_.at(name);
  const nlohmann::json about = {{"name", name},
                                {"size", std::to_string(object.content.size())},
                                {"generation", std::to_string(object.generation)},
                                {"crc32c", base64_crc(object.content)},
                                {"updated", "2026-01-31T12:00:00.500Z"}};
  response.set_content(about.dump(), "application/json");
}

void GcsStandIn::answer(const httplib::Request& request, httplib::Response& response) {
  if (!pays(request)) {
    return refuse_in_json(response, 400, "required",
                          "Bucket is a requester pays bucket but no user project provided.");
  }
  if (request.path.starts_with("/session/")) return chunk(request, response);
  if (request.path == kUpload) return upload(request, response);
  if (has_parts_ && request.path.starts_with("/bucket/"))
    return parts(request, response, request.path.substr(8));
  // The raw target: an object's name keeps its slashes encoded.
  const std::string target = request.target.substr(0, request.target.find('?'));
  if (target == kObjects) return list(request, response);
  if (!target.starts_with(std::string(kObjects) + "/"))
    return refuse_in_json(response, 404, "notFound", "The specified bucket does not exist.");
  const std::vector<std::string> parts =
      split(std::string_view(target).substr(std::string_view(kObjects).size() + 1), '/');
  const std::string name = httplib::detail::decode_url(parts[0], false);
  std::string verb = parts.size() > 1 ? parts[1] : "";
  if (verb == "rewriteTo") verb += "/" + httplib::detail::decode_url(parts.back(), false);
  object(request, response, name, verb);
}

// The JSON API reads the paying project from the address, the XML API from a header.
bool GcsStandIn::pays(const httplib::Request& request) const {
  if (payer_.empty()) return true;
  if (request.path.starts_with("/storage/") || request.path.starts_with("/upload/"))
    return request.get_param_value("userProject") == payer_;
  return request.get_header_value("X-Goog-User-Project") == payer_;
}

void GcsStandIn::upload(const httplib::Request& request, httplib::Response& response) {
  if (request.get_param_value("uploadType") == "resumable") {
    const std::string id = "/session/" + std::to_string(next_session_++);
    sessions_[id] = {request.get_param_value("name"), ""};
    response.set_header("Location", server_->url() + id);
    return;
  }
  // Two parts: the description, and the bytes.
  const std::string type = request.get_header_value("Content-Type");
  const std::string mark = "\r\n--" + type.substr(type.find("boundary=") + 9);
  const size_t about = request.body.find("\r\n\r\n") + 4;
  const size_t about_end = request.body.find(mark, about);
  const size_t begin = request.body.find("\r\n\r\n", about_end) + 4;
  const size_t end = request.body.rfind(mark);
  const auto json = nlohmann::json::parse(request.body.substr(about, about_end - about));
  std::string content = request.body.substr(begin, end - begin);
  if (json.at("crc32c") != base64_crc(content))
    return refuse_in_json(response, 400, "invalid", "Provided CRC32C does not match.");
  const std::string name = json.at("name");
  put(name, std::move(content));
  describe(response, name);
}

void GcsStandIn::chunk(const httplib::Request& request, httplib::Response& response) {
  if (const auto done = finished_.find(request.path); done != finished_.end())
    return describe(response, done->second);
  const auto session = sessions_.find(request.path);
  if (session == sessions_.end())
    return refuse_in_json(response, 404, "notFound", "no such upload");
  if (request.method == "DELETE") {
    sessions_.erase(session);
    response.status = 499;
    return;
  }
  // "bytes 0-99/*", "bytes 0-99/100", "bytes */*" or "bytes */100".
  const std::string range = request.get_header_value("Content-Range").substr(6);
  const std::string total = range.substr(range.find('/') + 1);
  std::string& content = session->second.content;
  if (range[0] != '*') {
    const size_t begin = std::stoul(range);
    if (begin > content.size()) return refuse_in_json(response, 400, "invalid", "a gap");
    content.resize(begin);
    content += request.body;
    if (total == "*" && request.body.size() % (256 << 10) != 0)
      return refuse_in_json(response, 400, "invalid", "no multiple of 256 KiB");
    if (total == "*" && request.body.size() > most_of_chunk_)
      content.resize(begin + most_of_chunk_);
  }
  if (total != "*" && content.size() == std::stoul(total)) {
    put(session->second.name, content);
    describe(response, session->second.name);
    finished_[request.path] = session->second.name;
    sessions_.erase(session);
    return;
  }
  response.status = 308;
  if (!content.empty())
    response.set_header("Range", "bytes=0-" + std::to_string(content.size() - 1));
}

void GcsStandIn::parts(const httplib::Request& request, httplib::Response& response,
                       const std::string& name) {
  if (request.has_param("uploads")) {
    const std::string id = "parts-" + std::to_string(next_session_++);
    parts_[id];
    response.body = "<InitiateMultipartUploadResult><UploadId>" + id +
                    "</UploadId></InitiateMultipartUploadResult>";
    return;
  }
  const auto upload = parts_.find(request.get_param_value("uploadId"));
  const auto refuse = [&](int status, const std::string& code) {
    response.status = status;
    response.body = "<Error><Code>" + code + "</Code><Message>said " + code + "</Message></Error>";
  };
  if (upload == parts_.end()) return refuse(404, "NoSuchUpload");
  if (request.method == "DELETE") {
    parts_.erase(upload);
    response.status = 204;
    return;
  }
  if (request.method == "PUT") {
    if (request.get_header_value("X-Goog-Hash") != "crc32c=" + base64_crc(request.body))
      return refuse(400, "InvalidDigest");
    upload->second[std::stoi(request.get_param_value("partNumber"))] = request.body;
    response.set_header("ETag", "\"" + base64_crc(request.body) + "\"");
    return;
  }
  std::string content;
  for (const auto& [number, part] : upload->second) {
    const std::string wanted = "<Part><PartNumber>" + std::to_string(number) +
                               "</PartNumber><ETag>\"" + base64_crc(part) + "\"</ETag></Part>";
    if (request.body.find(wanted) == std::string::npos) return refuse(400, "InvalidPart");
    content += part;
  }
  put(name, std::move(content));
  parts_.erase(upload);
  response.body = "<CompleteMultipartUploadResult/>";
}

void GcsStandIn::list(const httplib::Request& request, httplib::Response& response) {
  if (lie_) return response.set_content(lie_(request), "application/json");
  const std::string prefix = request.get_param_value("prefix");
  const bool folded = request.has_param("delimiter");
  const size_t most =
      request.has_param("maxResults") ? std::stoul(request.get_param_value("maxResults")) : 1000;
  const std::string after = request.get_param_value("pageToken");
  std::set<std::pair<std::string, bool>> entries;
  for (const auto& [name, held] : objects_) {
    if (!name.starts_with(prefix)) continue;
    const size_t end = folded ? name.find('/', prefix.size()) : std::string::npos;
    entries.emplace(name.substr(0, end == std::string::npos ? end : end + 1),
                    end != std::string::npos);
  }
  nlohmann::json page = nlohmann::json::object();
  size_t count = 0;
  std::string last;
  for (const auto& [name, is_prefix] : entries) {
    if (!after.empty() && name <= after) continue;
    if (count++ == most) {
      page["nextPageToken"] = last;
      break;
    }
    last = name;
    if (is_prefix) {
      page["prefixes"].push_back(name);
    } else {
      page["items"].push_back({{"name", name},
                               {"size", std::to_string(objects_.at(name).content.size())},
                               {"updated", "2026-01-31T12:00:00.500Z"}});
    }
  }
  response.set_content(page.dump(), "application/json");
}

void GcsStandIn::object(const httplib::Request& request, httplib::Response& response,
                        const std::string& name, const std::string& verb) {
  const auto found = objects_.find(name);
  const std::string wanted = request.get_param_value("ifGenerationMatch");
  const bool matches = wanted.empty() || (found != objects_.end() &&
                                          wanted == std::to_string(found->second.generation));
  if (found == objects_.end()) return refuse_in_json(response, 404, "notFound", "No such object");
  if (!matches) return refuse_in_json(response, 412, "conditionNotMet", "another generation");
  if (verb == "compose") {
    std::string content;
    const auto compose = nlohmann::json::parse(request.body);
    for (const auto& source : compose.at("sourceObjects")) {
      const auto part = objects_.find(source.at("name"));
      if (part == objects_.end())
        return refuse_in_json(response, 404, "notFound", "No such object");
      content += part->second.content;
    }
    put(name, std::move(content));
    return describe(response, name);
  }
  if (verb.starts_with("rewriteTo/")) {
    const std::string token = request.get_param_value("rewriteToken");
    const int call = token.empty() ? 1 : std::stoi(token) + 1;
    nlohmann::json progress = {{"done", call >= rewrite_calls_}};
    if (call >= rewrite_calls_) {
      put(verb.substr(10), found->second.content);
    } else {
      progress["rewriteToken"] = std::to_string(call);
    }
    response.set_content(progress.dump(), "application/json");
    return;
  }
  if (request.method == "DELETE") {
    objects_.erase(found);
    response.status = 204;
    return;
  }
  if (request.get_param_value("alt") != "media") return describe(response, name);
  response.set_header("X-Goog-Generation", std::to_string(found->second.generation));
  response.set_header("X-Goog-Hash", "crc32c=" + base64_crc(found->second.content));
  response.set_content(found->second.content, "application/octet-stream");
}

}  // namespace muster::inline v0_1
