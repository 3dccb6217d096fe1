// gzip and zlib streams (RFC 1952, RFC 1950), piece by piece, in bounded memory.
// Thread safety: an object belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/bytes.h"
#include "muster/base/result.h"
#include "muster/formats/compression.h"

struct z_stream_s;

namespace muster::inline v0_1::formats::internal {

// Unpacks. Gzip members that follow each other are one content.
class Inflater {
 public:
  // REQUIRES: kGzip or kZlib. `name` is how errors call the input.
  Inflater(Compression compression, std::string name);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  struct Progress {
    size_t read = 0;
    size_t written = 0;
  };
  // Unpacks from `in` into `out` until one of them is used up; `last`: nothing follows `in`.
  // Corrupt when the stream is damaged or ends too soon, once all that is good before has been
  // written; then every later call says so again. REQUIRES: `out` is not empty.
  Result<Progress> inflate(Bytes in, bool last, MutableBytes out);
  // Whether all that was read are whole streams.
  bool finished() const { return finished_; }

 private:
  Error damaged(const std::string& what) const;

  std::unique_ptr<z_stream_s> stream_;
  Compression compression_;
  std::string name_;
  bool finished_ = false;
  uint64_t read_ = 0;
  uint64_t written_ = 0;
};

// Packs. The same content, level and pieces give the same bytes: no name, no time.
class Deflater {
 public:
  // REQUIRES: kGzip or kZlib. Level 1 (fast) to 9 (small).
  Deflater(Compression compression, int level);
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater();

  // Takes all of `in` and adds to `out` what is ready; `last` ends the stream: no calls after it.
  void deflate(Bytes in, bool last, std::string* out);

 private:
  std::unique_ptr<z_stream_s> stream_;
};

}  // namespace muster::inline v0_1::formats::internal
