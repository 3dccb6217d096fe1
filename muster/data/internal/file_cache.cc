#include "muster/data/internal/file_cache.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/data/internal/element_codec.h"
#include "muster/data/internal/fingerprint.h"
#include "muster/data/internal/pass_numbers.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::data::internal {

namespace {

constexpr const char* kFormat = "muster.cache.2";

}  // namespace

void FileCacheStream::identify() {
  if (!path_.empty()) return;
  const Cache& spec = keeping_.spec;
  header_ = {{"format", kFormat},
             {"stages", fingerprint_of(*keeping_.input)},
             {"global_batches", keeping_.global_batches}};
  path_ = spec.path;
  if (spec.snapshot) path_ += fmt::format("/{}.snapshot", digest_of_stages(header_["stages"]));
  path_ += keeping_.part;
}

void FileCacheStream::start(int64_t run) {
  reader_.reset();
  writer_.reset();
  started_ = failed_ = false;
  handed_on_ = 0;
  run_ = run;
}

void FileCacheStream::check(Bytes first) const {
  const json header = json::parse(text_of(first), nullptr, false);
  std::string difference;
  if (!header.is_object() || header.value("format", json()) != kFormat) {
    difference = "it is of another format";
  } else if (header["global_batches"] != header_["global_batches"]) {
    difference = "its batches were divided otherwise between replicas";
  } else {
    difference = difference_of(header["stages"], header_["stages"]);
  }
  if (difference.empty()) return;
  throw invalid_argument(
      fmt::format("{} was written by another pipeline: {}", path_, difference),
      "remove the file, so that it is written again, or give this cache() its own path");
}

bool FileCacheStream::open() {
  FileSystem& files = file_systems();
  if (!files.exists(path_).value()) return false;
  reader_ = formats::TfrecordReader::open(files, path_, keeping_.spec.compression).value();
  Bytes first;
  check(reader_->read(&first).value() ? first : Bytes());
  return true;
}

void FileCacheStream::begin() {
  FileSystem& files = file_systems();
  if (keeping_.spec.snapshot) files.make_directories(keeping_.spec.path).value();
  writer_ = formats::TfrecordWriter::open(files, path_, {.compression = keeping_.spec.compression})
                .value();
  writer_->write(muster::bytes_of(header_.dump())).value();
}

bool FileCacheStream::next(StreamElement* out) {
  if (!started_) {
    started_ = failed_ = true;  // until it has begun
    identify();
    if (!open()) {
      input_->start(run_);
      begin();
    }
    failed_ = false;
  }
  if (failed_) return false;
  if (reader_) {
    Bytes record;
    if (!reader_->read(&record).value()) return false;
    *out = decode_element(record);
  } else if (!next_of_input(out)) {
    return false;
  }
  out->from.tag.run = number_in_pass(out->from.tag.run, run_, pass_numbers_);
  return true;
}

bool FileCacheStream::next_of_input(StreamElement* out) {
  if (input_->read(out, 1) == 0) {
    if (writer_) keep_writing(writer_->close());
    writer_.reset();
    return false;
  }
  if (out->error != nullptr) {
    writer_.reset();  // a pass with an error is not kept
  } else if (writer_) {
    out->settle();
    keep_writing(writer_->write(muster::bytes_of(encode_element(*out))));
  }
  return true;
}

void FileCacheStream::keep_writing(const Status& written) {
  if (written.ok()) return;
  log::warning(
      fmt::format("input: stopped writing the cache file {}: {}", path_, written.error().what()));
  writer_.reset();
}

int64_t FileCacheStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  for (; got < count; ++got, ++handed_on_) {
    try {
      out[got] = {};
      if (!next(out + got)) break;
    } catch (...) {
      out[got].error = current_loss(
          fmt::format("{}({})", keeping_.spec.snapshot ? "snapshot" : "cache", keeping_.spec.path));
    }
  }
  return got;
}

int64_t FileCacheStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && read(&item, 1) == 1; ++skipped) note_lost(item.error, lost);
  return skipped;
}

Position FileCacheStream::position(IteratorStateReader& saved) const {
  const int64_t examples = saved.next() * examples_per_element();
  saved.next();
  return {0, examples, examples};
}

void FileCacheStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t handed_on = saved.count();
  start(saved.next());
  StreamElement passed;
  for (; handed_on_ < handed_on; ++handed_on_) {
    if (next(&passed)) continue;
    throw invalid_argument(fmt::format("the saved position is element {} of the cache {} of {}",
                                       handed_on, path_, handed_on_));
  }
}

}  // namespace muster::inline v0_1::data::internal
