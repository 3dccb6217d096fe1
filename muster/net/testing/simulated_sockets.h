// Connections between simulated processes, in place of connect_messages() and MessageServer: the
// real MessageSocket on the clock of SimulatedThreads. As over TCP, bytes arrive whole and in
// order, or the connection ends. Thread safety: the threads of SimulatedThreads, which run one at a
// time.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "muster/base/simulated_threads.h"
#include "muster/net/message_server.h"
#include "muster/net/message_socket.h"

namespace muster::inline v0_1::net {

class SimulatedSockets {
 public:
  using Process = SimulatedThreads::Process;
  struct Options {
    // Returns for how many seconds the next bytes are on their way.
    std::function<double()> delay{};
  };
  SimulatedSockets(SimulatedThreads& simulated, Options options);
  ~SimulatedSockets();
  SimulatedSockets(const SimulatedSockets&) = delete;
  SimulatedSockets& operator=(const SimulatedSockets&) = delete;

  // What connect_messages() does. A process that end() has ended gets Cancelled.
  std::unique_ptr<MessageSocket> connect(Process& process, const ConnectOptions& options);

  // A service at an address. Its process gives each connection a thread.
  class Service;
  // What a MessageServer does. Throws Unavailable if a process serves there.
  std::shared_ptr<Service> serve(Process& process, const MessageServerOptions& options,
                                 MessageServer::Serve serve);
  // MessageServer::stop()
  static void stop(Service& service);

  // Changes the heads of answers, for tests that plant a mistake in a server. The client has sent
  // the head `first` first, and `request` last.
  using ChangeAnswer = std::function<void(const std::string& first, const std::string& request,
                                          std::string& answer)>;
  void change_answers(ChangeAnswer change) { change_answer_ = std::move(change); }

  // The connections of the process end, some with bytes on their way. New ones may be made.
  void disconnect(const Process& process);
  // The process has ended: so do its connections and services, and it makes no new ones.
  void end(const Process& process);
  // Nothing reaches or leaves the process before that time; its connections stay.
  void cut_until(const Process& process, TimePoint time) { cut_until_[&process] = time; }

 private:
  struct Connection;
  class End;

  // nullptr if no process serves there.
  std::shared_ptr<Service> service_at(const std::string& address) const;
  TimePoint arrival(const Connection& connection) const;
  bool cut(const Process& process) const;
  void close(Connection& connection, int end);

  SimulatedThreads& simulated_;
  const Options options_;
  ChangeAnswer change_answer_;
  std::list<std::weak_ptr<Connection>> connections_;
  std::map<std::string, std::weak_ptr<Service>> services_;  // by address
  std::set<const Process*> ended_;
  std::map<const Process*, TimePoint> cut_until_;
};

}  // namespace muster::inline v0_1::net
