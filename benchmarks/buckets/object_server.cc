#include "benchmarks/buckets/object_server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::bench {
namespace {

// One side of a connection, with TLS or without.
class Connection {
 public:
  Connection(int socket, SSL_CTX* context) : socket_(socket) {
    const int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (context == nullptr) return;
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, socket);
  }
  ~Connection() {
    if (ssl_ != nullptr) SSL_free(ssl_);
    close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool begin() { return ssl_ == nullptr || SSL_accept(ssl_) == 1; }
  // How many bytes came; 0 or less at the end.
  ssize_t receive(std::string& buffer, size_t most) {
    if (ssl_ == nullptr) return recv(socket_, buffer.data(), most, 0);
    return SSL_read(ssl_, buffer.data(), static_cast<int>(most));
  }
  // Whether the other side took all of it.
  bool send_all(std::string_view bytes) {
    constexpr size_t kAtOnce = size_t{1} << 20;
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kAtOnce);
      const ssize_t sent = ssl_ == nullptr ? send(socket_, bytes.data(), count, MSG_NOSIGNAL)
                                           : SSL_write(ssl_, bytes.data(), static_cast<int>(count));
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

 private:
  const int socket_;
  SSL* ssl_ = nullptr;
};

// The number after `mark` in a head, or `otherwise`.
size_t number_behind(std::string_view head, std::string_view mark, size_t otherwise) {
  const size_t at = head.find(mark);
  if (at == std::string_view::npos) return otherwise;
  size_t number = 0;
  size_t digits = at + mark.size();
  const size_t begin = digits;
  for (; digits < head.size() && head[digits] >= '0' && head[digits] <= '9'; ++digits)
    number = number * 10 + static_cast<size_t>(head[digits] - '0');
  return digits == begin ? otherwise : number;
}

// The answer to GET.
std::string head_of_content(const std::string& head, const std::string& content, size_t* first,
                            size_t* last) {
  *first = 0;
  *last = content.size() - 1;
  std::string status = "200 OK\r\n";
  if (const size_t range = head.find("range: bytes="); range != std::string::npos) {
    *first = number_behind(head, "range: bytes=", 0);
    *last = std::min(*last, number_behind(std::string_view(head).substr(range), "-", *last));
    status = fmt::format("206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\n", *first, *last,
                         content.size());
  }
  return fmt::format("HTTP/1.1 {}ETag: \"1-1\"\r\nContent-Length: {}\r\n\r\n", status,
                     *last - *first + 1);
}

// The answer to what is written.
std::string answer_to_upload(const std::string& head, const std::string& url) {
  std::string status = "200 OK";
  std::string headers;
  std::string body =
      "<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>";
  const std::string_view line = std::string_view(head).substr(0, head.find("\r\n"));
  if (line.find("?uploads=") != std::string_view::npos) {
    body = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>";
  } else if (line.find("uploadType=resumable") != std::string_view::npos) {
    headers = fmt::format("Location: {}/session\r\n", url);
  } else if (const size_t range = head.find("bytes "); range != std::string::npos) {
    const std::string_view said = std::string_view(head).substr(range);  // "bytes 0-9/10"
    if (const size_t total = number_behind(said, "/", 0); total > 0) {
      body = fmt::format(R"({{"size": "{}", "generation": "1"}})", total);
    } else {
      status = "308 Resume Incomplete";
      headers = fmt::format("Range: bytes=0-{}\r\n", number_behind(said, "-", 0));
      body.clear();
    }
  }
  return fmt::format("HTTP/1.1 {}\r\n{}ETag: \"1\"\r\nContent-Length: {}\r\n\r\n{}", status,
                     headers, body.size(), body);
}

// Answers the requests of one connection.
void answer(Connection& connection, const std::string& content, std::chrono::milliseconds delay,
            const std::string& url) {
  std::string buffer(size_t{1} << 20, '\0');
  std::string head;
  if (!connection.begin()) return;
  while (true) {
    size_t end;
    while ((end = head.find("\r\n\r\n")) == std::string::npos) {
      const ssize_t got = connection.receive(buffer, buffer.size());
      if (got <= 0) return;
      head.append(buffer, 0, static_cast<size_t>(got));
    }
    const size_t body = number_behind(head, "Content-Length: ", 0);
    if (body > 0 && head.find("Expect: 100-continue") != std::string::npos &&
        !connection.send_all("HTTP/1.1 100 Continue\r\n\r\n")) {
      return;
    }
    for (size_t taken = head.size() - end - 4; taken < body;) {
      const ssize_t got = connection.receive(buffer, std::min(buffer.size(), body - taken));
      if (got <= 0) return;
      taken += static_cast<size_t>(got);
    }
    std::this_thread::sleep_for(delay);  // the distance
    if (head.starts_with("GET /storage/v1/")) {
      // Google's uploads end with a look at the new object.
      const std::string about =
          fmt::format(R"({{"size": "{}", "generation": "1"}})", content.size());
      if (!connection.send_all(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
                                           about.size(), about))) {
        return;
      }
    } else if (head.starts_with("GET")) {
      size_t first, last;
      if (!connection.send_all(head_of_content(head, content, &first, &last)) ||
          !connection.send_all(std::string_view(content).substr(first, last - first + 1))) {
        return;
      }
    } else if (!connection.send_all(answer_to_upload(head, url))) {
      return;
    }
    head.erase(0, end + 4 + std::min(body, head.size() - end - 4));
  }
}

// Serves on a socket that listens, until it is killed.
[[noreturn]] void serve(int listening, const std::string& content, std::chrono::milliseconds delay,
                        const std::string& url, const std::string& tls_folder) {
  std::signal(SIGPIPE, SIG_IGN);
  SSL_CTX* context = nullptr;
  if (!tls_folder.empty()) {
    context = SSL_CTX_new(TLS_server_method());
    if (SSL_CTX_use_certificate_chain_file(context, join_path(tls_folder, "cert.pem").c_str()) !=
            1 ||
        SSL_CTX_use_PrivateKey_file(context, join_path(tls_folder, "key.pem").c_str(),
                                    SSL_FILETYPE_PEM) != 1) {
      _exit(1);
    }
  }
  while (true) {
    const int socket = accept(listening, nullptr, nullptr);
    if (socket < 0) continue;
    std::thread([socket, context, &content, delay, &url] {
      Connection connection(socket, context);
      answer(connection, content, delay, url);
    }).detach();
  }
}

}  // namespace

ObjectServer::ObjectServer(const std::string& content, std::chrono::milliseconds delay,
                           const std::string& tls_folder) {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listening, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listening, 64) != 0 ||
      getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw from_errno(errno, "cannot listen on the loopback interface");
  }
  url_ = fmt::format("{}://127.0.0.1:{}", tls_folder.empty() ? "http" : "https",
                     ntohs(address.sin_port));
  pid_ = fork();
  if (pid_ == 0) serve(listening, content, delay, url_, tls_folder);
  close(listening);
}

ObjectServer::~ObjectServer() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace muster::bench
