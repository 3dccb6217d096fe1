#include "muster/net/testing/simulated_sockets.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/stream.h"

namespace muster::inline v0_1::net {
namespace {

constexpr double kDialEvery = 0.25;  // seconds between two tries to connect

}  // namespace

struct SimulatedSockets::Connection {
  struct Packet {
    TimePoint at{};  // when it arrives
    std::string bytes{};
    size_t read = 0;
  };
  // What is on its way to one end.
  struct Way {
    std::deque<Packet> packets{};
    TimePoint last{};                    // nothing arrives before what was sent before it
    std::optional<TimePoint> over_at{};  // then the end of the connection arrives
    bool closed = false;                 // this end has closed it itself
  };
  std::array<Process*, 2> processes{};  // client, server
  std::array<Way, 2> to{};              // client, server
  std::string first{}, request{};       // the heads that the client has sent first and last
};

// One end of a connection.
class SimulatedSockets::End final : public Stream {
 public:
  End(SimulatedSockets& sockets, std::shared_ptr<Connection> connection, int end)
      : Stream(FileDescriptor()),
        sockets_(sockets),
        connection_(std::move(connection)),
        end_(end),
        process_(*connection_->processes[static_cast<size_t>(end)]) {}
  ~End() override { shut(); }

  StreamStep read(MutableBytes out) override {
    Connection::Way& in = way();
    if (in.closed) return {.lost = "this task closed the connection"};
    if (!in.packets.empty() && in.packets.front().at <= process_.now()) {
      Connection::Packet& first = in.packets.front();
      const size_t moved = std::min(out.size(), first.bytes.size() - first.read);
      std::memcpy(out.data(), first.bytes.data() + first.read, moved);
      first.read += moved;
      if (first.read == first.bytes.size()) in.packets.pop_front();
      return {.moved = moved};
    }
    if (is_over()) return {.lost = "it closed the connection"};
    return {.wait = POLLIN};
  }

  StreamStep write(std::span<const iovec> pieces) override {
    if (way().closed || is_over()) return {.lost = "Broken pipe"};
    std::string bytes;
    for (const iovec& piece : pieces)
      bytes.append(static_cast<const char*>(piece.iov_base), piece.iov_len);
    const size_t moved = bytes.size();
    note_head(bytes);
    Connection::Way& out = connection_->to[static_cast<size_t>(1 - end_)];
    // The end of the connection is on its way, and overtakes nothing.
    if (out.over_at) return {.moved = moved};
    out.last = std::max(out.last, sockets_.arrival(*connection_));
    out.packets.push_back({.at = out.last, .bytes = std::move(bytes)});
    return {.moved = moved};
  }

  Time now() const override { return process_.now(); }
  bool wait(Time until, short events) const override {
    const bool reads = (events & POLLIN) != 0, writes = (events & POLLOUT) != 0;
    const auto next_event = [&] {
      if (writes || way().closed) return TimePoint::min();
      const TimePoint over = way().over_at.value_or(TimePoint::max());
      return reads && !way().packets.empty() ? std::min(over, way().packets.front().at) : over;
    };
    process_.wait_until_due([&] { return std::min<TimePoint>(until, next_event()); });
    return next_event() <= process_.now();
  }
  void shut() override { sockets_.close(*connection_, end_); }
  void finish() override { sockets_.close(*connection_, end_); }
  int on_their_way() const override { return 0; }

 private:
  Connection::Way& way() const { return connection_->to[static_cast<size_t>(end_)]; }
  bool is_over() const {
    return way().packets.empty() && way().over_at && *way().over_at <= process_.now();
  }
  // A message is written at once, with its head.
  void note_head(std::string& bytes) {
    if (!sockets_.change_answer_ || bytes.size() < sizeof(FrameHeader)) return;
    FrameHeader header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    const std::string head = bytes.substr(sizeof header, header.head_bytes);
    if (end_ == 0) {
      if (connection_->first.empty()) connection_->first = head;
      connection_->request = head;
      return;
    }
    std::string changed = head;
    sockets_.change_answer_(connection_->first, connection_->request, changed);
    if (changed == head) return;
    header = FrameHeader::of(changed.size(), header.payload_bytes);
    const std::string payload = bytes.substr(sizeof header + head.size());
    bytes.assign(reinterpret_cast<const char*>(&header), sizeof header);
    bytes += changed + payload;
  }

  SimulatedSockets& sockets_;
  const std::shared_ptr<Connection> connection_;
  const int end_;
  Process& process_;
};

class SimulatedSockets::Service {
 public:
  Service(Process& of, MessageServerOptions with, MessageServer::Serve handler)
      : process(of), options(std::move(with)), serve(std::move(handler)) {}
  ~Service() { stop(*this); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // A connection, which a thread answers.
  struct Served {
    std::unique_ptr<MessageSocket> socket{};
    bool over = false;
  };
  void forget_ended() {
    std::erase_if(served, [](const Served& one) { return one.over; });
  }

  Process& process;
  const MessageServerOptions options;
  const MessageServer::Serve serve;
  std::list<Served> served{};
  bool stopped = false;
};

SimulatedSockets::SimulatedSockets(SimulatedThreads& simulated, Options options)
    : simulated_(simulated), options_(std::move(options)) {}

SimulatedSockets::~SimulatedSockets() = default;

TimePoint SimulatedSockets::arrival(const Connection& connection) const {
  TimePoint at = simulated_.now() + from_seconds(options_.delay());
  for (const Process* process : connection.processes) {
    const auto found = cut_until_.find(process);
    if (found != cut_until_.end()) at = std::max(at, found->second);
  }
  return at;
}

bool SimulatedSockets::cut(const Process& process) const {
  const auto found = cut_until_.find(&process);
  return found != cut_until_.end() && simulated_.now() < found->second;
}

void SimulatedSockets::close(Connection& connection, int end) {
  Connection::Way& own = connection.to[static_cast<size_t>(end)];
  if (std::exchange(own.closed, true)) return;
  Connection::Way& other = connection.to[static_cast<size_t>(1 - end)];
  if (!other.over_at) other.over_at = std::max(other.last, arrival(connection));
}

std::shared_ptr<SimulatedSockets::Service> SimulatedSockets::service_at(
    const std::string& address) const {
  const auto found = services_.find(address);
  const auto service = found == services_.end() ? nullptr : found->second.lock();
  return service && !service->stopped ? service : nullptr;
}

std::unique_ptr<MessageSocket> SimulatedSockets::connect(Process& process,
                                                         const ConnectOptions& options) {
  const TimePoint deadline = process.now() + from_seconds(options.timeout_seconds);
  while (true) {
    if (ended_.contains(&process) || (options.cancelled && options.cancelled())) {
      throw Error(ErrorKind::kCancelled,
                  fmt::format("the connection to {} was given up", options.address));
    }
    process.sleep_for(from_seconds(options_.delay()));
    // It is not kept while this waits.
    if (const auto service = service_at(options.address);
        service && !ended_.contains(&process) && !cut(process) && !cut(service->process)) {
      service->forget_ended();
      auto connection = std::make_shared<Connection>();
      connection->processes = {&process, &service->process};
      std::erase_if(connections_, [](const auto& known) { return known.expired(); });
      connections_.push_back(connection);
      Service::Served& served = service->served.emplace_back();
      served.socket = std::make_unique<MessageSocket>(
          std::make_unique<End>(*this, connection, 1),
          MessageSocketOptions{.peer = options.task, .peer_task = options.task});
      simulated_.start(service->process, [&served, of = service.get()] {
        try {
          of->serve(*served.socket);
        } catch (const std::exception&) {
          // The connection ends.
        }
        served.socket->close();
        served.over = true;
      });
      return std::make_unique<MessageSocket>(
          std::make_unique<End>(*this, connection, 0),
          MessageSocketOptions{.peer = options.address,
                               .idle_timeout_seconds = options.idle_timeout_seconds});
    }
    if (process.now() >= deadline) {
      throw Error(ErrorKind::kTimeout, fmt::format("no process serves at {} within {:g} s",
                                                   options.address, options.timeout_seconds));
    }
    process.sleep_for(from_seconds(kDialEvery));
  }
}

std::shared_ptr<SimulatedSockets::Service> SimulatedSockets::serve(
    Process& process, const MessageServerOptions& options, MessageServer::Serve serve) {
  if (service_at(options.address))
    throw Error(ErrorKind::kUnavailable, fmt::format("{} is in use", options.address));
  auto service = std::make_shared<Service>(process, options, std::move(serve));
  services_[options.address] = service;
  return service;
}

void SimulatedSockets::stop(Service& service) {
  service.stopped = true;
  for (Service::Served& served : service.served) served.socket->close();
  service.process.wait_until(TimePoint::max(), [&] {
    return std::ranges::all_of(service.served, [](const auto& served) { return served.over; });
  });
  service.forget_ended();
}

void SimulatedSockets::disconnect(const Process& process) {
  for (const auto& known : connections_) {
    const auto connection = known.lock();
    if (!connection || !std::ranges::count(connection->processes, &process)) continue;
    for (Connection::Way& way : connection->to) {
      const TimePoint at = arrival(*connection);
      std::erase_if(way.packets, [&](const auto& packet) { return packet.at > at; });
      if (!way.over_at) way.over_at = at;
    }
  }
}

void SimulatedSockets::end(const Process& process) {
  ended_.insert(&process);
  for (const auto& known : connections_) {
    const auto connection = known.lock();
    if (!connection) continue;
    for (const int end : {0, 1}) {
      if (connection->processes[static_cast<size_t>(end)] == &process) close(*connection, end);
    }
  }
  std::erase_if(services_, [&](const auto& entry) {
    const auto service = entry.second.lock();
    return !service || &service->process == &process;
  });
}

}  // namespace muster::inline v0_1::net
