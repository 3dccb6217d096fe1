// Buckets in memory that speak S3's protocol as far as Muster uses it, and check each signature.
// Thread safety: every call from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "muster/base/environment.h"
#include "tests/support/web_server.h"

namespace muster::inline v0_1 {

class S3StandIn {
 public:
  // Makes the bucket "bucket". Requests must be signed for `region`.
  explicit S3StandIn(std::string region = "us-east-1");

  // The key whose signatures are good.
  static constexpr const char* kKey = "AKIDEXAMPLE";
  static constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
  // The variables with which a program finds it.
  Environment environment() const;

  WebServer& server() { return *server_; }
  // The objects in "bucket"; change them only while no request runs.
  std::map<std::string, std::string>& objects() { return objects_; }
  // Replaces all objects there, for programs in other processes.
  void fill(std::map<std::string, std::string> objects);
  // Uploads that were neither finished nor aborted.
  size_t open_uploads() const { return uploads_.size(); }
  // A session token that requests must carry; "": none.
  void require_token(std::string token) { token_ = std::move(token); }
  // Whether requests without a signature are answered.
  void set_public(bool is_public) { public_ = is_public; }
  // Whether requests must say that the requester pays.
  void set_requester_pays(bool pays) { requester_pays_ = pays; }
  // Answers requests for lists in its place, with content that a server should not send; nullptr:
  // it does not.
  void lie_in_lists(std::function<std::string(const httplib::Request&)> lie) {
    const std::lock_guard lock(mutex_);
    lie_ = std::move(lie);
  }
  // How far this server's clock is before the machine's, in seconds.
  void set_clock_offset(double seconds) { clock_offset_ = seconds; }
  // Whether it can copy into a part of an upload.
  void set_part_copy(bool can) { part_copy_ = can; }
  // Whether it knows checksums of writes, with which bodies need not be signed. Other services say
  // that they do not, each in its own way: `refusal` is their code.
  void set_checksums(bool knows, std::string refusal = "NotImplemented") {
    checksums_ = knows;
    refusal_ = std::move(refusal);
  }
  // The smallest part but the last; Amazon's is 5 MiB.
  void set_least_part(size_t bytes) { least_part_ = bytes; }

 private:
  struct Upload {
    std::string key{};
    std::map<int, std::string> parts{};
    bool checked = false;  // all parts come with a checksum, and the end names them again
  };
  void answer(const httplib::Request& request, httplib::Response& response);
  bool admit(const httplib::Request& request, httplib::Response& response);
  void answer_bucket(const httplib::Request& request, httplib::Response& response);
  void answer_object(const httplib::Request& request, httplib::Response& response,
                     const std::string& key);
  void put(const httplib::Request& request, httplib::Response& response, const std::string& key);
  void complete(const httplib::Request& request, httplib::Response& response,
                const std::string& key);

  const std::string region_;
  std::mutex mutex_;  // of objects_, where fill() changes them
  std::map<std::string, std::string> objects_;
  std::map<std::string, std::string> etags_;
  std::map<std::string, Upload> uploads_;
  int next_upload_ = 0;
  std::string token_;
  bool public_ = false;
  bool requester_pays_ = false;
  std::function<std::string(const httplib::Request&)> lie_;
  bool part_copy_ = true;
  double clock_offset_ = 0;
  size_t least_part_ = 0;
  bool checksums_ = true;
  std::string refusal_;
  std::unique_ptr<WebServer> server_;
};

}  // namespace muster::inline v0_1
