// Packs and unpacks gzip and zlib streams (RFC 1952, RFC 1950) piece by piece, in bounded memory.
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

// Unpacks a stream. Gzip members that follow each other are one content.
class Inflater {
 public:
  // REQUIRES: kGzip or kZlib. `name` is the name of the input in errors.
  Inflater(Compression compression, std::string name);
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  struct Progress {
    size_t read = 0;
    size_t written = 0;
  };
  // Unpacks from `in` into `out` until one of them is used up; `last` says that nothing follows
  // `in`. Returns Corrupt when the stream is damaged or ends too soon, but first writes everything
  // good before that place; every later call returns the error again. REQUIRES: `out` is not empty.
  Result<Progress> inflate(Bytes in, bool last, MutableBytes out);
  // Whether everything that was read was whole streams.
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

// Packs a stream. The same content, level and pieces give the same bytes, because neither a name
// nor a time is stored.
class Deflater {
 public:
  // REQUIRES: kGzip or kZlib. The level is from 1 (fast) to 9 (small).
  Deflater(Compression compression, int level);
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater();

  // Takes all of `in` and appends finished bytes to `out`. `last` ends the stream; no call may
  // follow.
  void deflate(Bytes in, bool last, std::string* out);

 private:
  std::unique_ptr<z_stream_s> stream_;
};

}  // namespace muster::inline v0_1::formats::internal
