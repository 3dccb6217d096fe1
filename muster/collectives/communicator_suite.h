// The common suite every communicator passes. A test binary lists communicator_suite.cc among its
// sources and says
//   INSTANTIATE_TEST_SUITE_P(Tcp, CommunicatorSuite, ::testing::Values(TransportCase{"tcp",
//   run_tcp}));
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "muster/collectives/communicator.h"

namespace muster::inline v0_1 {

struct GroupOptions {
  int size = 1;
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

// The work of one rank; it may end its communicator early.
using RankBody = std::function<void(std::unique_ptr<Communicator>)>;

struct TransportCase {
  std::string name{};
  // Makes a group and runs `body` for every rank at the same time, bounded; throws the error of the
  // first failing rank.
  std::function<void(const GroupOptions&, const RankBody& body)> run{};
};
inline void PrintTo(const TransportCase& transport, std::ostream* out) { *out << transport.name; }

class CommunicatorSuite : public ::testing::TestWithParam<TransportCase> {
 protected:
  void run(const GroupOptions& options, const RankBody& body) { GetParam().run(options, body); }
};

// Rank `rank`'s values: magnitudes from 1e-6 to 1e6, so that the order of additions shows in the
// bits.
Tensor uneven_values(int rank, int64_t count, DType dtype);
// ((r0 + r1) + r2) + ..., by a plain loop over uneven_values.
Tensor expected_sum(int ranks, int64_t count, DType dtype);
// Equal to the last bit.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace muster::inline v0_1
