#include "tests/support/tcp_front.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string_view>

namespace muster::inline v0_1 {
namespace {

// How long a wait may take until it is asked whether the front ends.
constexpr int kLookMilliseconds = 50;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int connect_to(int port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return made;
  close(made);
  return -1;
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

int port_of(const std::string& host) { return std::stoi(host.substr(host.rfind(':') + 1)); }

SSL_CTX* context_of(const std::string& certificate, const std::string& key) {
  const auto text = [](const std::string& pem) {
    return std::unique_ptr<BIO, int (*)(BIO*)>(
        BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  };
  const std::unique_ptr<X509, void (*)(X509*)> own(
      PEM_read_bio_X509(text(certificate).get(), nullptr, nullptr, nullptr), X509_free);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> secret(
      PEM_read_bio_PrivateKey(text(key).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  if (SSL_CTX_use_certificate(context, own.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context, secret.get()) != 1) {
    throw std::runtime_error("the certificate of a front cannot be used");
  }
  return context;
}

}  // namespace

TcpFront::TcpFront(const std::string& server, const std::string& certificate,
                   const std::string& key)
    : server_port_(port_of(server)), context_(context_of(certificate, key)) {
  listen_on_free_port();
}

TcpFront::TcpFront(const std::string& server) : server_port_(port_of(server)) {
  listen_on_free_port();
}

void TcpFront::require_certificates() {
  // In this version the client waits for the refusal, in place of sending its request meanwhile.
  SSL_CTX_set_max_proto_version(context_, TLS1_2_VERSION);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

TcpFront::~TcpFront() {
  ending_ = true;
  accepting_.join();
  for (std::thread& thread : threads_) thread.join();
  close(listening_);
  SSL_CTX_free(context_);
}

std::vector<std::string> TcpFront::tunnels() const {
  std::lock_guard lock(mutex_);
  return tunnels_;
}

void TcpFront::listen_on_free_port() {
  listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listening_, 64) != 0 ||
      getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no port for a front");
  }
  port_ = ntohs(address.sin_port);
  accepting_ = std::thread([this] { accept_all(); });
}

void TcpFront::accept_all() {
  while (!ending_) {
    pollfd one{listening_, POLLIN, 0};
    if (poll(&one, 1, kLookMilliseconds) <= 0) continue;
    const int client = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    ++connections_;
    threads_.emplace_back([this, client] { serve(client); });
  }
}

void TcpFront::serve(int client) {
  const int server = connect_to(server_port_);
  SSL* tls = nullptr;
  bool begun = server >= 0;
  if (begun && context_ != nullptr) {
    tls = SSL_new(context_);
    SSL_set_fd(tls, client);
    begun = SSL_accept(tls) == 1;
  } else if (begun) {
    begun = open_tunnel(client);
  }
  if (begun) relay(client, tls, server);
  SSL_free(tls);
  close(client);
  if (server >= 0) close(server);
}

bool TcpFront::open_tunnel(int client) {
  std::string head;
  while (head.find("\r\n\r\n") == std::string::npos) {
    char byte;
    if (recv(client, &byte, 1, 0) != 1) return false;
    head += byte;
  }
  if (!head.starts_with("CONNECT ")) return false;
  {
    std::lock_guard lock(mutex_);
    tunnels_.push_back(head.substr(8, head.find(' ', 8) - 8));
  }
  if (const int status = refusal_; status != 0) {
    (void)send_all(client, "HTTP/1.1 " + std::to_string(status) + " No\r\n\r\n");
    return false;
  }
  return send_all(client, "HTTP/1.1 200 Connection established\r\n\r\n");
}

void TcpFront::relay(int client, ssl_st* tls, int server) {
  std::string buffer(size_t{64} << 10, '\0');
  const auto room = static_cast<int>(buffer.size());
  int64_t passed = 0;  // bytes to the server
  while (!ending_) {
    pollfd both[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    const bool held = tls != nullptr && SSL_pending(tls) > 0;
    if (!held && poll(both, 2, kLookMilliseconds) <= 0) continue;
    if (held || both[0].revents != 0) {
      const ssize_t got = tls != nullptr ? SSL_read(tls, buffer.data(), room)
                                         : recv(client, buffer.data(), buffer.size(), 0);
      if (const int64_t at = changed_at_ - passed; at >= 0 && at < got)
        buffer[static_cast<size_t>(at)] ^= 1;
      passed += std::max<ssize_t>(got, 0);
      if (got <= 0 || !send_all(server, {buffer.data(), static_cast<size_t>(got)})) return;
    }
    if (both[1].revents != 0) {
      const ssize_t got = recv(server, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      const bool sent = tls != nullptr
                            ? SSL_write(tls, buffer.data(), static_cast<int>(got)) == got
                            : send_all(client, {buffer.data(), static_cast<size_t>(got)});
      if (!sent) return;
    }
  }
}

}  // namespace muster::inline v0_1
