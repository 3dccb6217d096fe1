// File descriptors for connections: counted before they are opened, so that a group that takes more
// than the process may have ends with what to do, and not in the middle with "too many open files".
// No LibTorch here. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <string>

namespace muster::inline v0_1::internal {

// A number of descriptors that are about to be opened. Ranks that are threads of one process
// connect at the same time: each counts the others' claims.
class DescriptorClaim {
 public:
  // Raises the soft limit of the process (RLIMIT_NOFILE) to the hard one if that is needed. Throws
  // Unavailable when `count` more than those open and claimed would pass it; `what` names the owner
  // and the purpose: "rank 0 of 64 over shared memory".
  DescriptorClaim(int64_t count, const std::string& what);
  // Without keep(), the claim is given back.
  ~DescriptorClaim();
  DescriptorClaim(const DescriptorClaim&) = delete;
  DescriptorClaim& operator=(const DescriptorClaim&) = delete;

  // They were opened, and stay open.
  void keep() { kept_ = true; }

 private:
  const int64_t count_;
  bool kept_ = false;
};

}  // namespace muster::inline v0_1::internal
