// How gradients are grouped for reduction while backward still runs: buckets are contiguous ranges
// of the flat gradient buffers, launched in one order that every rank shares. Thread safety: plans
// are values; BucketProgress belongs to one thread at a time (the backward's).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace muster::inline v0_1::plan {

// One parameter of the flat layout. There is one flat buffer per dtype; a parameter's place in it
// follows from the sizes of the parameters of that dtype listed before it.
struct FlatParameter {
  int64_t parameter = 0;  // the caller's number of it; each appears once
  int64_t bytes = 0;      // in the flat buffer, padding after it included
  int dtype = 0;          // which flat buffer; the caller's numbering
};

// One piece of a flat buffer, reduced as a whole.
struct Bucket {
  int dtype = 0;
  int64_t offset = 0;  // bytes, in the flat buffer of `dtype`
  int64_t bytes = 0;
  std::vector<int64_t> parameters{};  // in layout order
};

// How large buckets become.
struct BucketOptions {
  // The bucket that is ready first is small: reduction then starts as soon as the last layers are
  // done, and the part that it cannot hide costs little. DDP uses 1 MB for the same reason on
  // faster links.
  int64_t first_bucket_bytes = 256 * 1024;
  // Large enough that the cost per message (30-60 us on TCP) is small compared with the transfer,
  // small enough that the last bucket, which nothing hides, is short. Published measurements put
  // the best size for TCP at 1-5 MB and near 25 MB for NCCL.
  int64_t bucket_bytes = 2 * 1024 * 1024;
};

// Cuts `layout` into buckets. Backward finishes the last layers first, so filling starts at the end
// of the layout: bucket 0 holds the last parameters. A parameter is never split; a bucket passes
// its limit only when it holds one parameter, or was less than an eighth full before: a message of
// its own for a few biases costs more than it hides. Throws InvalidArgument for limits below 1
// byte, negative sizes and parameters listed twice.
std::vector<Bucket> plan_buckets(std::span<const FlatParameter> layout,
                                 const BucketOptions& options = {});

// The order in which buckets become complete when gradients become ready in `ready_order`
// (parameter numbers, as observed on the chief). Parameters that are not in it (unused in that
// step) count as ready at its end. Ties keep bucket order. Throws InvalidArgument when
// `ready_order` names a parameter twice or one that is in no bucket.
std::vector<int> launch_order(std::span<const Bucket> buckets,
                              std::span<const int64_t> ready_order);

// Which buckets may be launched as gradients become ready. Buckets leave strictly in launch order,
// so that all ranks issue the same collectives in the same order whatever order their own gradients
// come in.
class BucketProgress {
 public:
  // `order` is a permutation of the bucket numbers, as launch_order returns it; InvalidArgument
  // otherwise.
  BucketProgress(std::span<const Bucket> buckets, std::vector<int> order);

  // Forgets the ready ones; call before each backward.
  void reset();
  // Notes that a gradient is ready and returns the buckets to launch now (often none). A second
  // report of the same parameter in one backward changes nothing. Throws InvalidArgument for a
  // parameter in no bucket.
  std::span<const int> ready(int64_t parameter);
  // The buckets that have not been launched yet, in order: to be launched after backward
  // (parameters without gradient).
  std::span<const int> rest();
  bool finished() const { return next_ == order_.size(); }

 private:
  std::span<const int> advance();

  std::vector<int> order_;
  std::vector<int> bucket_of_;  // by parameter number, -1 if there is none
  std::vector<int> sizes_;      // parameters per bucket
  std::vector<int> missing_;    // parameters of each bucket not ready yet
  std::vector<uint8_t> seen_;   // by parameter number
  size_t next_ = 0;             // index into order_
};

}  // namespace muster::inline v0_1::plan
