// A server of one object, in a process of its own: it speaks as much of S3's and Google Cloud
// Storage's protocols as a client needs to read and to upload, keeps none of the received bytes,
// and does as little as a server can, so that the clients are measured. Thread safety: construct
// and destroy on one thread, before the program starts others.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace muster::bench {

class ObjectServer {
 public:
  // Serves `content` on the loopback interface; each answer waits for `delay` first. With a folder,
  // it speaks TLS, and ca.pem in there is the authority to trust.
  ObjectServer(const std::string& content, std::chrono::milliseconds delay,
               const std::string& tls_folder);
  ~ObjectServer();
  ObjectServer(const ObjectServer&) = delete;
  ObjectServer& operator=(const ObjectServer&) = delete;

  // "https://127.0.0.1:PORT".
  const std::string& url() const { return url_; }

 private:
  std::string url_;
  pid_t pid_ = -1;
};

}  // namespace muster::bench
