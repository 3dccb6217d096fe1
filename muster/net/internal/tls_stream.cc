#include "muster/net/internal/tls_stream.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::net {
namespace {

// The most that a record holds: RFC 8446, section 5.1.
constexpr size_t kRecordBytes = 16 << 10;

// --- the socket, as OpenSSL sees it: its own would send SIGPIPE ---

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

// What a call of the socket returned, as OpenSSL wants it.
template <typename Call>
int try_on(BIO* bio, int retry, Call call) {
  BIO_clear_retry_flags(bio);
  ssize_t moved = 0;
  do {
    moved = call(descriptor_of(bio));
  } while (moved < 0 && errno == EINTR);
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
    BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(moved);
}

int read_socket(BIO* bio, char* out, int bytes) {
  return try_on(bio, BIO_FLAGS_READ,
                [&](int fd) { return ::recv(fd, out, static_cast<size_t>(bytes), MSG_DONTWAIT); });
}

int write_socket(BIO* bio, const char* data, int bytes) {
  return try_on(bio, BIO_FLAGS_WRITE, [&](int fd) {
    return ::send(fd, data, static_cast<size_t>(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
  });
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* socket_bio(int fd) {
  static BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "muster socket");
    if (method == nullptr) throw internal_error("OpenSSL has no memory for a kind of socket");
    BIO_meth_set_read(method, read_socket);
    BIO_meth_set_write(method, write_socket);
    BIO_meth_set_ctrl(method, control_socket);
    return method;
  }();
  BIO* const bio = BIO_new(kMethod);
  if (bio == nullptr) throw internal_error("OpenSSL has no memory for a connection");
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  return bio;
}

// --- one connection ---

class TlsStream final : public Stream {
 public:
  TlsStream(FileDescriptor socket, std::shared_ptr<SSL_CTX> context)
      : Stream(std::move(socket)), context_(std::move(context)), ssl_(SSL_new(context_.get())) {
    if (ssl_ == nullptr) throw internal_error("OpenSSL has no memory for a connection");
    BIO* const bio = socket_bio(descriptor());
    SSL_set_bio(ssl_, bio, bio);
  }
  ~TlsStream() override { SSL_free(ssl_); }

  SSL* ssl() { return ssl_; }

  StreamStep read(MutableBytes out) override {
    StreamStep done;
    while (done.moved < out.size()) {
      const StreamStep step = try_once([&](size_t* moved) {
        return SSL_read_ex(ssl_, out.data() + done.moved, out.size() - done.moved, moved);
      });
      if (step.moved == 0) return done.moved > 0 ? done : step;
      done.moved += step.moved;
    }
    return done;
  }

  // A record for each call; who writes again after nothing has moved writes the same, as OpenSSL
  // demands.
  StreamStep write(std::span<const iovec> pieces) override {
    const void* data = pieces.front().iov_base;
    size_t bytes = std::min(pieces.front().iov_len, kRecordBytes);
    if (bytes < kRecordBytes && pieces.size() > 1) {
      data = record_.data();
      bytes = gather(pieces);
    }
    if (bytes == 0) return {.moved = 0, .wait = POLLOUT};
    return try_once([&](size_t* moved) { return SSL_write_ex(ssl_, data, bytes, moved); });
  }

 private:
  // Small pieces travel in one record.
  size_t gather(std::span<const iovec> pieces) {
    size_t bytes = 0;
    for (const iovec& piece : pieces) {
      const size_t taken = std::min(piece.iov_len, record_.size() - bytes);
      std::memcpy(record_.data() + bytes, piece.iov_base, taken);
      bytes += taken;
    }
    return bytes;
  }

  // One thread reads and one writes; OpenSSL wants them one after another.
  template <typename Call>
  StreamStep try_once(Call call) {
    const std::lock_guard lock(mutex_);
    ERR_clear_error();
    errno = 0;
    StreamStep step;
    if (call(&step.moved) == 1) return step;
    const int code = errno;
    step.moved = 0;
    switch (SSL_get_error(ssl_, 0)) {
      case SSL_ERROR_WANT_READ:
        step.wait = POLLIN;
        break;
      case SSL_ERROR_WANT_WRITE:
        step.wait = POLLOUT;
        break;
      case SSL_ERROR_SSL:
        step.lost = reason();
        step.refused = true;
        break;
      case SSL_ERROR_SYSCALL:
        if (code != 0) {
          step.lost = std::generic_category().message(code);
          break;
        }
        [[fallthrough]];
      default:
        step.lost = "it closed the connection";
    }
    ERR_clear_error();
    return step;
  }

  std::string reason() const {
    if (const long code = SSL_get_verify_result(ssl_); code != X509_V_OK) {
      return fmt::format("its certificate was not accepted: {}",
                         X509_verify_cert_error_string(code));
    }
    const char* const text = ERR_reason_error_string(ERR_peek_last_error());
    return fmt::format("TLS failed: {}", text != nullptr ? text : "for no known reason");
  }

  const std::shared_ptr<SSL_CTX> context_;
  SSL* const ssl_;
  std::mutex mutex_;
  std::array<std::byte, kRecordBytes> record_;
};

// --- certificates ---

std::shared_ptr<BIO> memory_of(const std::string& text) {
  std::shared_ptr<BIO> memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                              BIO_free_all);
  if (!memory) throw internal_error("OpenSSL has no memory for a certificate");
  return memory;
}

int no_password(char*, int, int, void*) { return -1; }

std::shared_ptr<X509> next_certificate(BIO* memory) {
  return {PEM_read_bio_X509(memory, nullptr, no_password, nullptr), X509_free};
}

// Whether the context has taken all of it.
bool take_identity(SSL_CTX* context, const cluster::TlsIdentity& identity) {
  const auto chain = memory_of(identity.certificate);
  const auto own = next_certificate(chain.get());
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (const auto between = next_certificate(chain.get())) {
    if (SSL_CTX_add1_chain_cert(context, between.get()) != 1) return false;
  }
  const auto key_text = memory_of(identity.key);
  const std::shared_ptr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return false;
  const auto authorities = memory_of(identity.authority);
  bool trusts = false;
  while (const auto authority = next_certificate(authorities.get())) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) return false;
    trusts = true;
  }
  return trusts;
}

bool is_number(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> number{};
  return inet_pton(AF_INET, host.c_str(), number.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), number.data()) == 1;
}

}  // namespace

TlsContext::TlsContext(const cluster::TlsIdentity& identity)
    : server_name_(identity.server_name), context_(SSL_CTX_new(TLS_method()), SSL_CTX_free) {
  if (!context_) throw internal_error("OpenSSL has no memory for TLS");
  SSL_CTX* const context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Sessions are not resumed, keys not agreed on again, and a connection that just ends is one that
  // ended: the frames tell whether a message is whole.
  SSL_CTX_set_options(context,
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  const bool taken = take_identity(context, identity);
  ERR_clear_error();  // the end of a text is one
  if (!taken) {
    throw invalid_argument("the certificates of this task cannot be used",
                           "check the files of MUSTER_TLS_CERT, MUSTER_TLS_KEY and MUSTER_TLS_CA");
  }
}

std::unique_ptr<Stream> TlsContext::connected(FileDescriptor socket,
                                              const std::string& host) const {
  auto stream = std::make_unique<TlsStream>(std::move(socket), context_);
  const std::string& name = server_name_.empty() ? host : server_name_;
  SSL* const ssl = stream->ssl();
  SSL_set_connect_state(ssl);
  const bool named = is_number(name)
                         ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1
                         : SSL_set1_host(ssl, name.c_str()) == 1 &&
                               SSL_set_tlsext_host_name(ssl, name.c_str()) == 1;
  if (!named) throw invalid_argument(fmt::format("\"{}\" is not a name of a host", name));
  return stream;
}

std::unique_ptr<Stream> TlsContext::accepted(FileDescriptor socket) const {
  auto stream = std::make_unique<TlsStream>(std::move(socket), context_);
  SSL_set_accept_state(stream->ssl());
  return stream;
}

}  // namespace muster::inline v0_1::net
