#include "muster/net/message_socket.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/stream.h"
#include "muster/net/traffic.h"

namespace muster::inline v0_1::net {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kBufferBytes = 64 << 10;

// Of all sockets of this process.
std::atomic<int64_t> bytes_sent = 0, bytes_received = 0;

void count(std::atomic<int64_t>& bytes, size_t moved) {
  bytes.fetch_add(static_cast<int64_t>(moved), std::memory_order_relaxed);
}

Steady::duration duration_of(double seconds) {
  constexpr double kMost = 1e9;
  return std::chrono::duration_cast<Steady::duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kMost)));
}

// Waits for a message that has begun, as long as it moves.
class IdleWait {
 public:
  IdleWait(const Stream& stream, double seconds)
      : stream_(stream), most_(duration_of(seconds)), moved_(stream.now()) {}

  void note_movement() { moved_ = stream_.now(); }

  // False when nothing has moved for the idle time.
  bool operator()(short events) {
    // A socket can be written to again only when much of it is free: bytes that leave it slowly
    // count as moving too.
    constexpr int kLooks = 4;
    for (;;) {
      const int before = stream_.on_their_way();
      const auto now = stream_.now();
      const auto until = std::min(moved_ + most_, now + most_ / kLooks);
      if (stream_.wait(until, events)) return true;
      if (events == POLLOUT && stream_.on_their_way() != before) note_movement();
      if (stream_.now() >= moved_ + most_) return false;
    }
  }

 private:
  const Stream& stream_;
  const Steady::duration most_;
  Steady::time_point moved_;
};

// Takes the first bytes away; returns how many pieces are at their end.
size_t advance(std::span<iovec> pieces, size_t bytes) {
  size_t ended = 0;
  for (iovec& piece : pieces) {
    const size_t taken = std::min(bytes, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    bytes -= taken;
    if (piece.iov_len > 0) break;
    ++ended;
  }
  return ended;
}

iovec piece_of(const void* data, size_t bytes) {
  return {.iov_base = const_cast<void*>(data), .iov_len = bytes};
}

}  // namespace

Traffic traffic() {
  return {.sent = bytes_sent.load(std::memory_order_relaxed),
          .received = bytes_received.load(std::memory_order_relaxed)};
}

struct MessageSocket::Impl {
  Impl(std::unique_ptr<Stream> carrier, MessageSocketOptions what)
      : stream(std::move(carrier)), options(std::move(what)) {}

  // --- errors ---

  Error cancelled() const {
    return Error(ErrorKind::kCancelled,
                 fmt::format("the connection to {} was closed by this task", options.peer));
  }

  // No bytes move any more, in either direction: both throw the first error.
  [[noreturn]] void fail(const Error& error) {
    stream->shut();
    record(error);
  }

  [[noreturn]] void record(const Error& error) {
    if (closed) throw cancelled();
    const std::lock_guard lock(mutex);
    if (!failure) failure = error;
    throw *failure;
  }

  [[noreturn]] void fail(const StreamStep& step, const std::string& when) {
    if (step.refused) {
      // TLS has sent the reason to the other side.
      stream->finish();
      record(invalid_argument(
          fmt::format("{} and this task do not trust each other: {}", options.peer, step.lost),
          "MUSTER_TLS_CA must name the authority of both tasks' certificates, "
          "and the certificate the host in TF_CONFIG, or "
          "MUSTER_TLS_SERVER_NAME"));
    }
    fail(Error(ErrorKind::kPeerLost, fmt::format("lost {} {}: {}", options.peer, when, step.lost),
               "see the output of that task for why it ended"));
  }

  [[noreturn]] void fail_as_idle(const std::string& when) {
    fail(Error(ErrorKind::kTimeout,
               fmt::format("nothing moved for {} s {} {}", options.idle_timeout_seconds, when,
                           options.peer),
               "see whether that task is stopped, or the network between the two"));
  }

  void throw_when_over() {
    if (closed) throw cancelled();
    const std::lock_guard lock(mutex);
    if (failure) throw *failure;
  }

  // --- sending ---

  void check_head(std::string_view head) const {
    if (head.size() <= kMaxHeadBytes) return;
    throw invalid_argument(fmt::format("a message to {} has a head of {} bytes, and {} are allowed",
                                       options.peer, head.size(), kMaxHeadBytes),
                           "send what is large as its payload");
  }

  // `file`, unless it is nullptr, is sent with the first byte.
  void send(std::span<iovec> pieces, const FileDescriptor* file = nullptr) {
    throw_when_over();
    constexpr size_t kMostPieces = 64;  // that the system takes at once; IOV_MAX is higher
    IdleWait wait(*stream, options.idle_timeout_seconds);
    while (!pieces.empty()) {
      const auto some = pieces.first(std::min(kMostPieces, pieces.size()));
      const StreamStep step =
          file != nullptr ? stream->write_with_file(some, *file) : stream->write(some);
      if (!step.lost.empty()) fail(step, "while sending to it");
      pieces = pieces.subspan(advance(pieces, step.moved));
      count(bytes_sent, step.moved);
      if (step.moved > 0) {
        file = nullptr;
        wait.note_movement();
      } else if (!wait(step.wait)) {
        fail_as_idle("while sending to");
      }
      if (closed) throw cancelled();
    }
  }

  // --- receiving ---

  std::string when_receiving() const {
    return payload_left > 0 ? fmt::format("with {} bytes of its message missing", payload_left)
                            : "while receiving from it";
  }

  size_t buffered() const { return end - begin; }

  // Reads into the buffer, which is empty.
  StreamStep read_ahead() {
    if (closed) throw cancelled();
    if (!buffer) buffer = std::make_unique_for_overwrite<std::array<std::byte, kBufferBytes>>();
    StreamStep step = stream->read(*buffer);
    count(bytes_received, step.moved);
    begin = 0;
    end = step.moved;
    return step;
  }

  // Whether a message has begun before `until`.
  bool begins_before(Steady::time_point until) {
    while (buffered() == 0) {
      const StreamStep step = read_ahead();
      if (!step.lost.empty()) fail(step, when_receiving());
      if (step.moved == 0 && !stream->wait(until, step.wait)) return false;
    }
    return true;
  }

  // Reads a part of a message that has begun. Large parts go directly to their destination.
  void read(MutableBytes out, bool of_payload = false) {
    IdleWait wait(*stream, options.idle_timeout_seconds);
    while (!out.empty()) {
      StreamStep step;
      if (buffered() > 0) {
        step.moved = std::min(buffered(), out.size());
        std::memcpy(out.data(), buffer->data() + begin, step.moved);
        begin += step.moved;
      } else if (out.size() < kBufferBytes) {
        step = read_ahead();
        if (step.moved > 0) {
          wait.note_movement();
          continue;
        }
      } else {
        if (closed) throw cancelled();
        step = stream->read(out);
        count(bytes_received, step.moved);
      }
      if (!step.lost.empty()) fail(step, when_receiving());
      out = out.subspan(step.moved);
      if (of_payload) payload_left -= static_cast<int64_t>(step.moved);
      if (step.moved > 0) {
        wait.note_movement();
      } else if (!wait(step.wait)) {
        fail_as_idle("in a message from");
      }
    }
  }

  MessageHead read_head() {
    FrameHeader header{};
    read(std::as_writable_bytes(std::span(&header, 1)));
    if (!header.is_valid(options.most_head_bytes)) {
      fail(corrupt(fmt::format("what came from {} is not a message of Muster's", options.peer),
                   "the tasks of a job must run the same version of Muster"));
    }
    MessageHead head{.text = std::string(header.head_bytes, '\0'),
                     .payload_bytes = header.payload_bytes};
    read(std::as_writable_bytes(std::span(head.text)));
    payload_left = header.payload_bytes;
    return head;
  }

  const std::unique_ptr<Stream> stream{};
  MessageSocketOptions options;
  std::atomic<bool> closed = false;
  std::mutex mutex{};
  std::optional<Error> failure{};  // the first

  // The buffer of the receiving side.
  std::unique_ptr<std::array<std::byte, kBufferBytes>> buffer{};
  size_t begin = 0, end = 0;  // the part of it that was not handed on
  int64_t payload_left = 0;
};

MessageSocket::MessageSocket(std::unique_ptr<Stream> stream, MessageSocketOptions options)
    : impl_(std::make_unique<Impl>(std::move(stream), std::move(options))) {}

MessageSocket::~MessageSocket() { close(); }

void MessageSocket::set_options(MessageSocketOptions options) {
  impl_->options = std::move(options);
}

bool MessageSocket::carries_files() const { return impl_->stream->carries_files(); }

void MessageSocket::send_with_file(std::string_view head, const FileDescriptor& file) {
  impl_->check_head(head);
  const FrameHeader header = FrameHeader::of(head.size(), 0);
  std::array pieces{piece_of(&header, sizeof header), piece_of(head.data(), head.size())};
  impl_->send(pieces, &file);
}

void MessageSocket::keep_files() { impl_->stream->keep_files(); }

FileDescriptor MessageSocket::take_file() { return impl_->stream->take_file(); }

void MessageSocket::send(std::string_view head, std::span<const Bytes> payload) {
  impl_->check_head(head);
  size_t bytes = 0;
  std::vector<iovec> pieces(2);
  pieces.reserve(2 + payload.size());
  for (const Bytes piece : payload) {
    bytes += piece.size();
    if (!piece.empty()) pieces.push_back(piece_of(piece.data(), piece.size()));
  }
  const FrameHeader header = FrameHeader::of(head.size(), static_cast<int64_t>(bytes));
  pieces[0] = piece_of(&header, sizeof header);
  pieces[1] = piece_of(head.data(), head.size());
  impl_->send(pieces);
}

std::optional<MessageHead> MessageSocket::receive(double timeout_seconds) {
  if (impl_->payload_left > 0) {
    throw internal_error(fmt::format("{} bytes of the last message of {} were not read",
                                     impl_->payload_left, impl_->options.peer));
  }
  if (!impl_->begins_before(impl_->stream->now() + duration_of(timeout_seconds)))
    return std::nullopt;
  return impl_->read_head();
}

void MessageSocket::receive_payload(MutableBytes out) {
  if (static_cast<int64_t>(out.size()) > impl_->payload_left) {
    throw internal_error(
        fmt::format("{} bytes of the last message of {} are wanted, and {} are left", out.size(),
                    impl_->options.peer, impl_->payload_left));
  }
  impl_->read(out, /*of_payload=*/true);
}

void MessageSocket::skip_payload() {
  std::vector<std::byte> dropped(
      std::min<size_t>(static_cast<size_t>(impl_->payload_left), 1 << 20));
  while (impl_->payload_left > 0) {
    receive_payload(std::span(dropped).first(
        std::min(dropped.size(), static_cast<size_t>(impl_->payload_left))));
  }
}

int64_t MessageSocket::payload_left() const { return impl_->payload_left; }

void MessageSocket::close() {
  impl_->closed = true;
  impl_->stream->shut();
}

bool MessageSocket::is_over() const {
  return impl_->closed || impl_->stream->wait(impl_->stream->now(), POLLRDHUP);
}

void MessageSocket::part(double timeout_seconds) {
  impl_->stream->finish();
  // The end is seen before the bytes that are not read.
  impl_->stream->wait(impl_->stream->now() + duration_of(timeout_seconds), POLLRDHUP);
}

const std::string& MessageSocket::peer() const { return impl_->options.peer; }
const std::string& MessageSocket::peer_task() const { return impl_->options.peer_task; }

}  // namespace muster::inline v0_1::net
