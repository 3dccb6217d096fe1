// Buckets in memory that speak Google Cloud Storage's JSON API as far as Muster uses it. Thread
// safety: every call from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1 {

class GcsStandIn {
 public:
  // Makes the bucket "bucket".
  GcsStandIn();

  // The variables with which a program finds it.
  Environment environment() const { return {{"STORAGE_EMULATOR_HOST", server_->url()}}; }
  WebServer& server() { return *server_; }

  struct Object {
    std::string content;
    int64_t generation = 0;
  };
  // The objects in "bucket"; change them only while no request runs.
  std::map<std::string, Object>& objects() { return objects_; }
  void put(const std::string& name, std::string content);
  size_t open_uploads() const { return sessions_.size() + parts_.size(); }
  // Whether it has the uploads by parts of the XML API; emulators may have none.
  void set_parts(bool has) { has_parts_ = has; }
  // At most this many bytes of each chunk are kept, except for the last chunk.
  void keep_at_most(size_t bytes) { most_of_chunk_ = bytes; }
  // The project that requests must name, since it pays for them; "": none.
  void set_payer(std::string project) { payer_ = std::move(project); }
  // Answers requests for lists in its place, with content that a server should not send; nullptr:
  // it does not.
  void lie_in_lists(std::function<std::string(const httplib::Request&)> lie) {
    lie_ = std::move(lie);
  }
  // How many calls a copy takes.
  void set_rewrite_calls(int calls) { rewrite_calls_ = calls; }

 private:
  struct Session {
    std::string name{};
    std::string content{};
  };
  void answer(const httplib::Request& request, httplib::Response& response);
  bool pays(const httplib::Request& request) const;
  void upload(const httplib::Request& request, httplib::Response& response);
  void chunk(const httplib::Request& request, httplib::Response& response);
  // Uploads by parts; `name` is the object's.
  void parts(const httplib::Request& request, httplib::Response& response, const std::string& name);
  void list(const httplib::Request& request, httplib::Response& response);
  void object(const httplib::Request& request, httplib::Response& response, const std::string& name,
              const std::string& verb);
  void describe(httplib::Response& response, const std::string& name);

  std::map<std::string, Object> objects_;
  std::map<std::string, Session> sessions_;
  std::map<std::string, std::string> finished_;  // the names of the finished objects
  int64_t generation_ = 1'700'000'000'000'000;
  int next_session_ = 0;
  size_t most_of_chunk_ = SIZE_MAX;
  bool has_parts_ = false;
  std::string payer_;
  std::function<std::string(const httplib::Request&)> lie_;
  std::map<std::string, std::map<int, std::string>> parts_;  // of uploads, by their ids
  int rewrite_calls_ = 1;
  std::unique_ptr<WebServer> server_;
};

}  // namespace muster::inline v0_1
