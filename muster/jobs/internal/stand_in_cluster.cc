#include "muster/jobs/internal/stand_in_cluster.h"

#include <fmt/format.h>
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"
#include "muster/jobs/internal/published_fields.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using nlohmann::json;

constexpr const char* kNamespace = "lab";

// The resources of the cluster, as discovery lists them.
struct Resource {
  const char* group_version{};  // "v1", "batch/v1"
  const char* name{};
  const char* kind{};
};
constexpr Resource kResources[] = {{"v1", "pods", "Pod"},
                                   {"v1", "services", "Service"},
                                   {"v1", "secrets", "Secret"},
                                   {"batch/v1", "jobs", "Job"},
                                   {"kubeflow.org/v1", "tfjobs", "TFJob"},
                                   {"kubeflow.org/v1", "pytorchjobs", "PyTorchJob"}};

json failure(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", json::object()},
          {"status", "Failure"}, {"message", message}, {"reason", reason},
          {"code", code}};
}

bool selected(const json& object, const std::string& selector) {
  if (selector.empty()) return true;
  const json labels = object.value("/metadata/labels"_json_pointer, json::object());
  for (const std::string& part : split(selector, ',')) {
    const size_t equals = part.find('=');
    if (labels.value(part.substr(0, equals), "") != part.substr(equals + 1)) return false;
  }
  return true;
}

}  // namespace

struct StandInCluster::Impl {
  bool kubeflow = true;
  httplib::Server server;
  int port = 0;
  std::thread thread{};
  mutable std::mutex mutex{};
  std::map<std::string, std::map<std::string, json>> objects{};  // by resource and name
  std::map<std::string, std::string> logs{};
  std::map<std::string, std::string> validations{};
  std::set<std::string> forbidden{};
  std::vector<std::string> unknown{};
  int made = 0;

  void answer(const httplib::Request& request, httplib::Response& response);
  json discovery(const std::string& group_version) const;
  json groups() const;
  json openapi(const std::string& group_version) const;
  void create(const std::string& resource, const httplib::Request& request,
              httplib::Response& response);
  // Removes the object, and its dependents.
  void remove(const std::string& resource, const std::string& name);
};

void StandInCluster::Impl::remove(const std::string& resource, const std::string& name) {
  const json owner = objects[resource].at(name).at("metadata").at("uid");
  objects[resource].erase(name);
  for (auto& [_, others] : objects) {
    std::erase_if(others, [&](const auto& item) {
      const json owners =
          item.second.value("/metadata/ownerReferences"_json_pointer, json::array());
      return std::ranges::any_of(owners, [&](const json& it) { return it.at("uid") == owner; });
    });
  }
}

json StandInCluster::Impl::discovery(const std::string& group_version) const {
  json list = {{"kind", "APIResourceList"}, {"apiVersion", "v1"}, {"groupVersion", group_version}};
  list["resources"] = json::array();
  for (const Resource& it : kResources) {
    if (it.group_version != group_version) continue;
    list["resources"].push_back(
        {{"name", it.name},
         {"singularName", to_lower(it.kind)},
         {"namespaced", true},
         {"kind", it.kind},
         {"verbs", {"create", "delete", "deletecollection", "get", "list", "watch"}}});
  }
  return list;
}

json StandInCluster::Impl::groups() const {
  json list = {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", json::array()}};
  for (const char* group : {"batch", "kubeflow.org"}) {
    if (!kubeflow && std::string(group) == "kubeflow.org") continue;
    const json version = {{"groupVersion", std::string(group) + "/v1"}, {"version", "v1"}};
    list["groups"].push_back(
        {{"name", group}, {"versions", {version}}, {"preferredVersion", version}});
  }
  return list;
}

// Says that the cluster checks fields itself. Without it kubectl would want all schemas, to check
// them there.
json StandInCluster::Impl::openapi(const std::string& group_version) const {
  json document = {{"openapi", "3.0.0"}, {"info", {{"title", "stand-in"}, {"version", "1"}}}};
  for (const Resource& it : kResources) {
    if (it.group_version != group_version) continue;
    const size_t slash = group_version.find('/');
    const std::string group = slash == std::string::npos ? "" : group_version.substr(0, slash);
    document["paths"][fmt::format("/{}/{}/namespaces/{{namespace}}/{}/{{name}}",
                                  group.empty() ? "api" : "apis", group_version, it.name)] = {
        {"patch",
         {{"parameters", json::array({{{"name", "fieldValidation"}, {"in", "query"}}})},
          {"x-kubernetes-group-version-kind",
           {{"group", group}, {"version", "v1"}, {"kind", it.kind}}}}}};
  }
  return document;
}

void StandInCluster::Impl::create(const std::string& resource, const httplib::Request& request,
                                  httplib::Response& response) {
  json object = json::parse(request.body);
  const std::string name = object.at("metadata").at("name");
  validations[resource] = request.get_param_value("fieldValidation");
  if (forbidden.contains(resource)) {
    response.status = 403;
    response.set_content(
        failure(403, "Forbidden", resource + " is forbidden: you cannot create it").dump(),
        "application/json");
    return;
  }
  if (const auto problems = kubernetes_problems(object); !problems.empty()) {
    response.status = 400;
    response.set_content(
        failure(400, "BadRequest", "strict decoding error: " + join(problems, ", ")).dump(),
        "application/json");
    return;
  }
  if (objects[resource].contains(name)) {
    response.status = 409;
    response.set_content(
        failure(409, "AlreadyExists", fmt::format("{} \"{}\" already exists", resource, name))
            .dump(),
        "application/json");
    return;
  }
  object["metadata"]["uid"] = fmt::format("uid-{}", ++made);
  object["metadata"]["namespace"] = kNamespace;
  objects[resource][name] = object;
  response.status = 201;
  response.set_content(object.dump(), "application/json");
}

void StandInCluster::Impl::answer(const httplib::Request& request, httplib::Response& response) {
  static const RegularExpression kPath(
      "/(?:api|apis)/(v1|[a-z.]+/v1)/namespaces/lab/([a-z]+)"
      "(?:/([-a-z0-9]+))?(/log)?");
  const std::scoped_lock lock(mutex);
  const auto reply = [&](const json& value) {
    response.set_content(value.dump(), "application/json");
  };
  const std::string& path = request.path;
  if (path == "/version") {
    return reply({{"major", "1"}, {"minor", "31"}, {"gitVersion", "v1.31.0"}});
  }
  if (path == "/api") {
    return reply({{"kind", "APIVersions"}, {"versions", {"v1"}}});
  }
  if (path == "/apis") return reply(groups());
  json documents;
  for (const std::string version : {"v1", "batch/v1", "kubeflow.org/v1"}) {
    const std::string place = (version == "v1" ? "api/" : "apis/") + version;
    if (path == "/" + place) return reply(discovery(version));
    if (path == "/openapi/v3/" + place) return reply(openapi(version));
    documents["paths"][place] = {{"serverRelativeURL", "/openapi/v3/" + place + "?hash=1"}};
  }
  if (path == "/openapi/v3") return reply(documents);
  // kubectl asks this if something in the namespace is missing.
  if (path == std::string("/api/v1/namespaces/") + kNamespace) {
    return reply(
        {{"kind", "Namespace"}, {"apiVersion", "v1"}, {"metadata", {{"name", kNamespace}}}});
  }
  RegularExpression::Groups parts;
  if (!kPath.full_match(path, &parts)) {
    unknown.push_back(request.method + " " + request.target);
    response.status = 404;
    return reply(failure(404, "NotFound", "the server could not find the requested resource"));
  }
  const std::string resource = parts[2], name = parts[3];
  auto& known = objects[resource];
  if (request.method == "POST") return create(resource, request, response);
  if (!parts[4].empty()) {
    response.set_content(logs[name], "text/plain");
    return;
  }
  if (!name.empty() && !known.contains(name)) {
    response.status = 404;
    return reply(failure(404, "NotFound", fmt::format("{} \"{}\" not found", resource, name)));
  }
  if (request.method == "DELETE") {
    remove(resource, name);
    return reply({{"kind", "Status"}, {"apiVersion", "v1"}, {"status", "Success"}});
  }
  if (!name.empty()) return reply(known.at(name));
  json list = {{"kind", "List"}, {"apiVersion", "v1"}, {"items", json::array()}};
  for (const Resource& it : kResources) {
    if (it.name != resource) continue;
    list["kind"] = std::string(it.kind) + "List";
    list["apiVersion"] = it.group_version;
  }
  list["metadata"] = {{"resourceVersion", "1"}};
  for (const auto& [key, object] : known) {
    if (selected(object, request.get_param_value("labelSelector"))) list["items"].push_back(object);
  }
  reply(list);
}

StandInCluster::StandInCluster(bool kubeflow) : impl_(std::make_unique<Impl>()) {
  impl_->kubeflow = kubeflow;
  const auto handler = [this](const httplib::Request& request, httplib::Response& response) {
    impl_->answer(request, response);
  };
  impl_->server.Get(".*", handler).Post(".*", handler).Delete(".*", handler);
  impl_->port = impl_->server.bind_to_any_port("127.0.0.1");
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  // Only a running server reacts to stop(). The thread needs a moment for that.
  if (!comes_true([this] { return impl_->server.is_running(); }))
    throw std::runtime_error("the stand-in does not listen");
}

StandInCluster::~StandInCluster() {
  impl_->server.stop();
  impl_->thread.join();
}

void StandInCluster::write_configuration(const std::string& path) const {
  const json configuration = {
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "stand-in"},
      {"clusters",
       {{{"name", "stand-in"},
         {"cluster", {{"server", fmt::format("http://127.0.0.1:{}", impl_->port)}}}}}},
      {"users", {{{"name", "user"}, {"user", json::object()}}}},
      {"contexts",
       {{{"name", "stand-in"},
         {"context", {{"cluster", "stand-in"}, {"user", "user"}, {"namespace", kNamespace}}}}}}};
  std::ofstream(path) << configuration.dump();
}

json StandInCluster::find(const std::string& resource, const std::string& name) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto& known = impl_->objects[resource];
  const auto it = known.find(name);
  return it == known.end() ? json() : it->second;
}

std::vector<std::string> StandInCluster::names(const std::string& resource) const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, object] : impl_->objects[resource]) names.push_back(name);
  return names;
}

void StandInCluster::put(const std::string& resource, json object) {
  const std::scoped_lock lock(impl_->mutex);
  const std::string name = object.at("metadata").at("name");
  impl_->objects[resource][name] = std::move(object);
}

void StandInCluster::set_log(const std::string& pod, const std::string& text) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->logs[pod] = text;
}

std::vector<std::string> StandInCluster::unknown_requests() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->unknown;
}

void StandInCluster::lose(const std::string& resource, const std::string& name) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->remove(resource, name);
}

void StandInCluster::forbid(const std::string& resource) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->forbidden.insert(resource);
}

std::string StandInCluster::validation_of(const std::string& resource) const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->validations[resource];
}

}  // namespace muster::inline v0_1::jobs::internal
