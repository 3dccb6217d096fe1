// A front of a server on the loopback interface, for tests: it speaks TLS for one that does not, or
// is a proxy through which others are reached. Thread safety: every call from any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

struct ssl_ctx_st;
struct ssl_st;

namespace muster::inline v0_1 {

class TcpFront {
 public:
  // Speaks TLS with this certificate and key, as PEM, for the server at "127.0.0.1:PORT".
  TcpFront(const std::string& server, const std::string& certificate, const std::string& key);
  // A proxy: opens a tunnel to that server for every CONNECT, whatever the host.
  explicit TcpFront(const std::string& server);
  ~TcpFront();
  TcpFront(const TcpFront&) = delete;
  TcpFront& operator=(const TcpFront&) = delete;

  // "127.0.0.1:PORT".
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  // How many connections were accepted so far, and the hosts in CONNECT requests.
  int connections() const { return connections_; }
  std::vector<std::string> tunnels() const;
  // From now on the byte after the first `bytes` of each connection is changed on its way to the
  // server.
  void change_byte_behind(int64_t bytes) { changed_at_ = bytes; }
  // From now on a proxy answers this status to every request for a tunnel.
  void refuse_tunnels(int status) { refusal_ = status; }
  // From now on it refuses clients without a certificate of their own.
  void require_certificates();

 private:
  void listen_on_free_port();
  void accept_all();
  void serve(int client);
  // Reads the request for a tunnel and answers it; whether it was one.
  bool open_tunnel(int client);
  void relay(int client, ssl_st* tls, int server);

  const int server_port_;
  ssl_ctx_st* context_ = nullptr;  // of TLS; none for a proxy
  int listening_ = -1;
  int port_ = 0;
  std::atomic<bool> ending_{false};
  std::atomic<int> connections_{0};
  std::atomic<int64_t> changed_at_{-1};
  std::atomic<int> refusal_{0};
  mutable std::mutex mutex_;
  std::vector<std::string> tunnels_;
  std::vector<std::thread> threads_;  // of connections
  std::thread accepting_;
};

}  // namespace muster::inline v0_1
