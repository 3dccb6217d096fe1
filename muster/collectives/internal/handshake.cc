#include "muster/collectives/internal/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "muster/base/secret.h"
#include "muster/collectives/internal/tcp_socket.h"

namespace muster::inline v0_1::internal {
namespace {

// The first message of the side that connects.
struct Hello {
  char magic[8];
  int32_t from_rank{};
  int32_t to_rank{};
  int32_t lane{};
  char nonce[64];  // a number used once, so that no proof can be played back
};
constexpr char kHelloMagic[] = "MUSTER1";
constexpr size_t kNonceBytes = 64;
constexpr size_t kProofBytes = 32;
constexpr size_t kChallengeBytes = kNonceBytes + kProofBytes;
constexpr char kWelcome[] = "W";

}  // namespace

Handshake::Handshake(FileDescriptor socket, std::string secret, int own_rank, int peer_rank,
                     Lane lane)
    : socket_(std::move(socket)),
      secret_(std::move(secret)),
      own_rank_(own_rank),
      peer_rank_(peer_rank),
      lane_(lane),
      step_(Step::kConnect) {}

Handshake::Handshake(FileDescriptor socket, std::string secret, int own_rank, std::string host)
    : socket_(std::move(socket)),
      secret_(std::move(secret)),
      own_rank_(own_rank),
      host_(std::move(host)),
      step_(Step::kReadHello) {}

Handshake::State Handshake::advance() {
  while (step()) {
  }
  if (step_ == Step::kDone) return State::kDone;
  return step_ == Step::kFailed ? State::kFailed : State::kRunning;
}

// Takes one step; false when there is none to take now.
bool Handshake::step() {
  switch (step_) {
    case Step::kConnect:
      return finish_connecting();
    case Step::kReadHello:
      return read(sizeof(Hello)) && answer_hello();
    case Step::kReadChallenge:
      return read(kChallengeBytes) && answer_challenge();
    case Step::kReadWelcome:
      return read(1) && enter();
    case Step::kReadProof:
      return read(kProofBytes) && check_proof();
    default:
      return false;
  }
}

bool Handshake::finish_connecting() {
  pollfd entry{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&entry, 1, 0) <= 0) return false;
  if (const std::string error = connect_error(socket_); !error.empty()) return fail(error);
  Hello hello{.magic = {},
              .from_rank = own_rank_,
              .to_rank = peer_rank_,
              .lane = static_cast<int32_t>(lane_),
              .nonce = {}};
  std::memcpy(hello.magic, kHelloMagic, sizeof(kHelloMagic));
  std::memcpy(hello.nonce, random_secret().data(), kNonceBytes);
  hello_.assign(reinterpret_cast<const char*>(&hello), sizeof(hello));
  step_ = Step::kReadChallenge;
  return send(hello_);
}

// The side that accepted proves itself first: a peer that connected to the wrong place reveals
// nothing.
bool Handshake::answer_hello() {
  Hello hello{};
  std::memcpy(&hello, inbox_.data(), sizeof(hello));
  if (std::memcmp(hello.magic, kHelloMagic, sizeof(kHelloMagic)) != 0)
    return fail_unauthenticated("it does not speak Muster's protocol");
  const bool known_lane = hello.lane == static_cast<int32_t>(Lane::kControl) ||
                          hello.lane == static_cast<int32_t>(Lane::kBulk);
  if (!known_lane || hello.to_rank != own_rank_)
    return fail_unauthenticated("it looks for somebody else");
  peer_rank_ = hello.from_rank;
  lane_ = static_cast<Lane>(hello.lane);
  hello_ = std::exchange(inbox_, {});
  challenge_ = random_secret();
  step_ = Step::kReadProof;
  return send(challenge_ + proof("accepted"));
}

bool Handshake::answer_challenge() {
  challenge_ = inbox_.substr(0, kNonceBytes);
  if (!same_secret(inbox_.substr(kNonceBytes), proof("accepted")))
    return fail_unauthenticated("it does not know the group's secret");
  inbox_.clear();
  step_ = Step::kReadWelcome;
  return send(proof("connected"));
}

// Without a welcome this side could not know that the other one had given up waiting.
bool Handshake::enter() {
  inbox_.clear();
  step_ = Step::kDone;
  return true;
}

bool Handshake::check_proof() {
  if (!same_secret(inbox_, proof("connected")))
    return fail_unauthenticated("it does not know the group's secret");
  inbox_.clear();
  step_ = Step::kDone;
  return send(kWelcome);
}

std::string Handshake::proof(const char* role) const {
  return proof_of(secret_, fmt::format("{}/{}{}", role, hello_, challenge_));
}

bool Handshake::read(size_t bytes) {
  while (inbox_.size() < bytes) {
    char buffer[256];
    const ssize_t got =
        recv(socket_.get(), buffer, std::min(sizeof(buffer), bytes - inbox_.size()), MSG_DONTWAIT);
    if (got > 0) {
      inbox_.append(buffer, static_cast<size_t>(got));
    } else if (got == 0) {
      return fail_as_dropped("it closed the connection");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      return fail_as_dropped(std::strerror(errno));
    }
  }
  return true;
}

// A message of a handshake always fits into an empty socket.
bool Handshake::send(const std::string& message) {
  const ssize_t sent =
      ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(message.size())) return true;
  return fail_as_dropped(sent < 0 ? std::strerror(errno) : "it does not read");
}

bool Handshake::fail(std::string reason) {
  reason_ = std::move(reason);
  step_ = Step::kFailed;
  return false;
}

bool Handshake::fail_unauthenticated(std::string reason) {
  unauthenticated_ = true;
  return fail(std::move(reason));
}

bool Handshake::fail_as_dropped(std::string reason) {
  dropped_ = true;
  return fail(std::move(reason));
}

}  // namespace muster::inline v0_1::internal
