#include "muster/jobs/internal/stand_in_vertex.h"

#include <fmt/format.h>
#include <httplib.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/strings.h"
#include "muster/files/regular_expression.h"
#include "muster/jobs/internal/published_fields.h"

namespace muster::inline v0_1::jobs::internal {

using nlohmann::json;

struct StandInVertex::Impl {
  httplib::Server server;
  int port = 0;
  std::thread thread{};
  mutable std::mutex mutex{};
  json created{};
  std::vector<std::string> requests{};
  std::string authorization{};
  json state = {{"state", "JOB_STATE_PENDING"}};
  std::vector<json> log{};
  std::string text{};  // in place of all answers of Vertex AI's; empty: as they belong

  void answer(const httplib::Request& request, httplib::Response& response);
};

void StandInVertex::Impl::answer(const httplib::Request& request, httplib::Response& response) {
  static const RegularExpression kJobs(
      "/v1/(projects/[^/]+/locations/[^/]+/(customJobs|hyperparameterTuningJobs))");
  static const RegularExpression kJob(
      "/v1/(projects/[^/]+/locations/[^/]+/(customJobs|hyperparameterTuningJobs)/7)(:cancel)?");
  const std::scoped_lock lock(mutex);
  requests.push_back(request.method + " " + request.target);
  authorization = request.get_header_value("Authorization");
  const auto reply = [&](const json& value, int status = 200) {
    response.status = status;
    response.set_content(value.dump(), "application/json");
  };
  const auto fail = [&](int code, const char* status, const std::string& message) {
    reply({{"error", {{"code", code}, {"message", message}, {"status", status}}}}, code);
  };
  if (request.path == "/computeMetadata/v1/instance/service-accounts/default/token") {
    return reply({{"access_token", "a-token"}, {"expires_in", 3600}, {"token_type", "Bearer"}});
  }
  if (!text.empty()) return response.set_content(text, "application/json");
  RegularExpression::Groups parts;
  if (kJobs.full_match(request.path, &parts) && request.method == "GET") {
    // labels.KEY="VALUE", the only form that is used; gcloud asks for all, and filters itself.
    static const RegularExpression kFilter("labels\\.([a-z-]+)=\"([a-z0-9-]+)\"");
    const std::string filter = request.get_param_value("filter");
    RegularExpression::Groups label;
    json found = json::object();
    const bool wanted = filter.empty() ||
                        (kFilter.full_match(filter, &label) &&
                         created.value(json::json_pointer("/labels/" + label[1]), "") == label[2]);
    if (wanted && !created.is_null()) {
      json job = created;
      job["name"] = parts[1] + "/7";
      job.update(state);
      found[parts[2]] = json::array({job});
    }
    return reply(found);
  }
  if (request.path == "/v2/entries:list" && request.method == "POST") {
    return reply({{"entries", log}});
  }
  if (kJobs.full_match(request.path, &parts) && request.method == "POST") {
    const json resource = json::parse(request.body);
    const auto problems = vertex_problems(resource);
    if (!problems.empty()) return fail(400, "INVALID_ARGUMENT", join(problems, ", "));
    created = resource;
    json made = resource;
    made["name"] = parts[1] + "/7";
    made.update(state);
    return reply(made);
  }
  if (kJob.full_match(request.path, &parts)) {
    if (!parts[3].empty()) {
      state = {{"state", "JOB_STATE_CANCELLED"}};
      return reply(json::object());
    }
    json found = created;
    found["name"] = parts[1];
    found.update(state);
    return reply(found);
  }
  fail(404, "NOT_FOUND", "nothing at " + request.path);
}

StandInVertex::StandInVertex() : impl_(std::make_unique<Impl>()) {
  const auto handler = [this](const httplib::Request& request, httplib::Response& response) {
    impl_->answer(request, response);
  };
  impl_->server.Get(".*", handler).Post(".*", handler);
  impl_->port = impl_->server.bind_to_any_port("127.0.0.1");
  impl_->thread = std::thread([this] { impl_->server.listen_after_bind(); });
  // Only a running server reacts to stop(). The thread needs a moment for that.
  if (!comes_true([this] { return impl_->server.is_running(); }))
    throw std::runtime_error("the stand-in does not listen");
}

StandInVertex::~StandInVertex() {
  impl_->server.stop();
  impl_->thread.join();
}

std::string StandInVertex::address() const {
  return fmt::format("http://127.0.0.1:{}", impl_->port);
}

json StandInVertex::created() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->created;
}

std::vector<std::string> StandInVertex::requests() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->requests;
}

std::string StandInVertex::authorization() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->authorization;
}

void StandInVertex::set_state(const std::string& state, const std::string& error) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->state = {{"state", state}};
  if (!error.empty()) impl_->state["error"] = {{"code", 3}, {"message", error}};
}

void StandInVertex::set_answer(const std::string& text) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->text = text;
}

void StandInVertex::set_log(std::vector<json> entries) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->log = std::move(entries);
}

}  // namespace muster::inline v0_1::jobs::internal
