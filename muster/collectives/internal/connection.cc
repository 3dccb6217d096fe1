#include "muster/collectives/internal/connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::inline v0_1::internal {
namespace {

constexpr uint32_t kMessageMagic = 0x3153554d;
constexpr int64_t kMostBytes = int64_t{1} << 48;

bool would_block(int code) { return code == EAGAIN || code == EWOULDBLOCK; }

}  // namespace

Transfer::~Transfer() {
  if (!done_) connection_.withdraw(*this);
}

Connection::Connection(FileDescriptor socket)
    : socket_(std::move(socket)),
      buffer_(std::make_unique<std::array<std::byte, kBufferBytes>>()) {}

std::unique_ptr<Transfer> Connection::send(const std::byte* data, int64_t bytes, uint32_t tag) {
  std::unique_ptr<Transfer> transfer(new Transfer(*this, const_cast<std::byte*>(data), bytes, tag));
  sends_.push_back(transfer.get());
  if (sends_.size() == 1) write();
  return transfer;
}

std::unique_ptr<Transfer> Connection::receive(std::byte* data, int64_t bytes, uint32_t tag) {
  std::unique_ptr<Transfer> transfer(new Transfer(*this, data, bytes, tag));
  receives_.push_back(transfer.get());
  if (std::exchange(held_up_, false)) {
    while (deliver()) {
    }
  }
  return transfer;
}

void Connection::close(std::string why) {
  if (closed_) return;
  closed_ = std::move(why);
  shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::withdraw(Transfer& transfer) {
  if (target_ == &transfer) target_ = nullptr;  // the rest of the message is dropped
  std::erase(receives_, &transfer);
  const auto send = std::ranges::find(sends_, &transfer);
  if (send == sends_.end()) return;
  const bool begun = transfer.moved_ > 0;
  sends_.erase(send);
  if (begun) close("a message was given up on its way");
}

void Connection::write() {
  while (wants_to_write()) {
    Transfer& transfer = *sends_.front();
    Header header{.tag = transfer.tag_, .magic = kMessageMagic, .bytes = transfer.bytes_};
    constexpr auto kHeader = static_cast<int64_t>(sizeof(Header));
    // `moved_` counts the header and the payload after it.
    const int64_t of_header = std::min(transfer.moved_, kHeader);
    const int64_t of_payload = transfer.moved_ - of_header;
    iovec parts[2] = {{.iov_base = reinterpret_cast<std::byte*>(&header) + of_header,
                       .iov_len = static_cast<size_t>(kHeader - of_header)},
                      {.iov_base = transfer.data_ + of_payload,
                       .iov_len = static_cast<size_t>(transfer.bytes_ - of_payload)}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (would_block(errno)) return;
      const std::string why = std::strerror(errno);
      drain();  // the peer's messages before it left
      return close(why);
    }
    transfer.moved_ += sent;
    if (transfer.moved_ < kHeader + transfer.bytes_) continue;
    transfer.done_ = true;
    sends_.pop_front();
  }
}

void Connection::read() {
  while (wants_to_read()) {
    while (deliver()) {
    }
    if (!wants_to_read()) return;
    // Large parts go directly to their destination; all others come through the buffer.
    const bool direct = target_ != nullptr && missing_ >= static_cast<int64_t>(kBufferBytes);
    if (!direct) {
      std::memmove(buffer_->data(), unread(), static_cast<size_t>(buffered()));
      end_ -= std::exchange(begin_, 0);
    }
    std::byte* const to = direct ? target_->data_ + target_->moved_ : buffer_->data() + end_;
    const size_t room = direct ? static_cast<size_t>(missing_) : kBufferBytes - end_;
    const ssize_t got = recv(socket_.get(), to, room, MSG_DONTWAIT);
    if (got == 0) return close("the other side closed the connection");
    if (got < 0) {
      if (errno == EINTR) continue;
      if (!would_block(errno)) close(std::strerror(errno));
      return;
    }
    if (direct) {
      count(got);
    } else {
      end_ += static_cast<size_t>(got);
    }
  }
}

bool Connection::deliver() {
  if (closed_) return false;
  if (!incoming_ && !begin_message()) return false;
  const int64_t bytes = std::min(buffered(), missing_);
  if (target_ != nullptr && bytes > 0)
    std::memcpy(target_->data_ + target_->moved_, unread(), static_cast<size_t>(bytes));
  begin_ += static_cast<size_t>(bytes);
  const bool ends = bytes == missing_;
  count(bytes);
  return ends;
}

// Reads a header and finds the destination of its message.
bool Connection::begin_message() {
  Header header;
  if (buffered() < static_cast<int64_t>(sizeof(header))) return false;
  std::memcpy(&header, unread(), sizeof(header));
  if (header.magic != kMessageMagic || header.bytes < 0 || header.bytes > kMostBytes) {
    close("what came is not a message of Muster's");
    return false;
  }
  const auto receive = std::ranges::find(receives_, header.tag, &Transfer::tag_);
  const bool wanted = receive != receives_.end();
  if (!wanted && !draining_) {
    held_up_ = true;
    return false;
  }
  if (wanted && header.bytes > (*receive)->bytes_) {
    close(fmt::format("a message of {} bytes came where {} were expected", header.bytes,
                      (*receive)->bytes_));
    return false;
  }
  begin_ += sizeof(header);
  target_ = wanted ? *receive : nullptr;
  if (wanted) receives_.erase(receive);
  incoming_ = header;
  missing_ = header.bytes;
  return true;
}

// This many bytes of the message were handed on.
void Connection::count(int64_t bytes) {
  missing_ -= bytes;
  if (target_ != nullptr) target_->moved_ += bytes;
  if (missing_ > 0) return;
  if (target_ != nullptr) target_->done_ = true;
  target_ = nullptr;
  incoming_.reset();
}

void Connection::drain() {
  draining_ = true;
  held_up_ = false;
  read();
}

void Connection::note_hang_up() {
  drain();
  close("the other side closed the connection");
}

}  // namespace muster::inline v0_1::internal
