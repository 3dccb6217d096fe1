#include "tests/support/web_server.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "muster/base/await.h"

namespace muster::inline v0_1 {

WebServer::WebServer(Handler handler, bool ranges) : handler_(std::move(handler)), ranges_(ranges) {
  // Kept connections have a thread each.
  server_.new_task_queue = [] { return new httplib::ThreadPool(48); };
  server_.set_keep_alive_max_count(100000);
  server_.set_keep_alive_timeout(2);
  server_.set_tcp_nodelay(true);
  const auto go = [this](const httplib::Request& request, httplib::Response& response) {
    answer(request, response);
  };
  server_.Get(".*", go);
  server_.Put(".*", go);
  server_.Post(".*", go);
  server_.Delete(".*", go);
  port_ = server_.bind_to_any_port("127.0.0.1");
  if (port_ <= 0) throw std::runtime_error("no port for a web server");
  thread_ = std::thread([this] { server_.listen_after_bind(); });
  if (!comes_true([this] { return server_.is_running(); }))
    throw std::runtime_error("the web server of a test does not listen");
}

WebServer::~WebServer() {
  server_.stop();
  thread_.join();
}

std::string WebServer::url() const { return "http://" + host(); }
std::string WebServer::host() const { return "127.0.0.1:" + std::to_string(port_); }

void WebServer::fail(const WebFault& fault, int times) {
  std::lock_guard lock(mutex_);
  for (int time = 0; time < times; ++time) faults_.push_back(fault);
}

std::vector<std::string> WebServer::requests(const std::string& part) const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const Seen& seen : seen_) {
    if (seen.line.find(part) != std::string::npos) lines.push_back(seen.line);
  }
  return lines;
}

std::string WebServer::last_header(const std::string& part, const std::string& header) const {
  std::lock_guard lock(mutex_);
  for (auto seen = seen_.rbegin(); seen != seen_.rend(); ++seen) {
    if (seen->line.find(part) == std::string::npos) continue;
    const auto found = seen->headers.find(header);
    return found == seen->headers.end() ? "" : found->second;
  }
  return "";
}

void WebServer::forget_requests() {
  std::lock_guard lock(mutex_);
  seen_.clear();
}

int WebServer::most_at_once() const {
  std::lock_guard lock(mutex_);
  return most_;
}

void WebServer::apply_range(const httplib::Request& request, httplib::Response& response) const {
  const std::string range = request.get_header_value("Range");
  if (!ranges_ || response.status != 200 || request.method != "GET" || !range.starts_with("bytes="))
    return;
  const size_t size = response.body.size();
  const size_t begin = std::stoull(range.substr(6));
  const size_t end = std::min<size_t>(size, std::stoull(range.substr(range.find('-') + 1)) + 1);
  if (begin >= size) {
    response.status = 416;
    response.set_header("Content-Range", "bytes */" + std::to_string(size));
    response.body.clear();
    return;
  }
  response.status = 206;
  response.set_header("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                           std::to_string(end - 1) + "/" + std::to_string(size));
  response.body = response.body.substr(begin, end - begin);
}

void WebServer::answer(const httplib::Request& request, httplib::Response& response) {
  // We cut ranges ourselves, so that they can be wrong.
  const_cast<httplib::Request&>(request).ranges.clear();
  WebFault fault;
  {
    std::lock_guard lock(mutex_);
    most_ = std::max(most_, ++now_);
    const std::string line = request.method + " " + request.target;
    seen_.push_back({line, request.headers});
    const auto found = std::ranges::find_if(faults_, [&](const WebFault& candidate) {
      return line.find(candidate.only) != std::string::npos;
    });
    if (found != faults_.end()) {
      fault = *found;
      faults_.erase(found);
    }
  }
  if (fault.delay.count() > 0) std::this_thread::sleep_for(fault.delay);  // requested by the test
  {
    std::lock_guard lock(mutex_);
    --now_;
    response.status = 200;
    if (fault.status != 0) {
      response.status = fault.status;
      response.body = fault.body;
      response.headers = fault.headers;
    } else {
      handler_(request, response);
      apply_range(request, response);
    }
  }
  if (fault.lie) fault.lie(response);
  if (fault.cut_after >= 0) {
    const std::string body = std::exchange(response.body, "");
    const size_t most = std::min(body.size(), static_cast<size_t>(fault.cut_after));
    response.set_content_provider(body.size(), "application/octet-stream",
                                  [body, most](size_t offset, size_t, httplib::DataSink& sink) {
                                    if (offset < most)
                                      sink.write(body.data() + offset, most - offset);
                                    return false;
                                  });
  }
}

}  // namespace muster::inline v0_1
