#include "muster/data/internal/sequential.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/internal/file_names.h"
#include "muster/data/internal/identity.h"
#include "muster/data/internal/reading.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1::data::internal {
namespace {

std::exception_ptr as_lost(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (...) {
    return current_loss();
  }
}

// Passes over elements that were passed before, errors among them; returns how many there are.
int64_t pass_again(ElementReader& reader, int64_t count) {
  int64_t passed = 0;
  while (passed < count) {
    int64_t more = 1;
    try {
      more = reader.skip(count - passed);
    } catch (...) {
      // It takes its place anyway.
    }
    if (more == 0) break;
    passed += more;
  }
  return passed;
}

}  // namespace

SequentialStream::SequentialStream(const Node& node, const Run& run)
    : node_(node), iterator_run_(run), from_files_(node.as<FromFiles>()) {
  if (from_files_ != nullptr) return;
  source_ = std::get<FromSequential>(node.spec).source.get();
  positioned_ = dynamic_cast<const PositionedSource*>(source_);
}

void SequentialStream::start(int64_t run) {
  close();
  file_ = 0;
  in_file_ = total_ = 0;
  run_ = run;
}

void SequentialStream::close() {
  reader_.reset();
  block_.reset();
  next_error_ = nullptr;
  row_ = rows_ = 0;
  place_ = -1;
  place_at_ = 0;
  own_place_.clear();
}

bool SequentialStream::open() {
  if (file_ == files()) return false;
  if (reader_ == nullptr) {
    reader_ = from_files_ == nullptr
                  ? source_->open()
                  : from_files_->format->open(file_systems(), from_files_->files[file_].path);
    remember_place();
  }
  return true;
}

std::exception_ptr SequentialStream::failure() const {
  std::string where = fmt::format("element {}", in_file_);
  if (from_files_ != nullptr) {
    const std::string& path = from_files_->files[file_].path;
    try {
      throw;
    } catch (const std::exception& error) {
      // Most readers name the file, and with it what is not a whole element: a line, a byte.
      if (std::string_view(error.what()).find(path) != std::string_view::npos) {
        return current_failure();
      }
    } catch (...) {
    }
    where += " of " + path;
  }
  return current_failure(fmt::format("{} failed on {} (pass {})", node_.name, where, run_));
}

void SequentialStream::remember_place() {
  if (const auto* own = dynamic_cast<const PositionedReader*>(reader_.get())) {
    try {
      own_place_ = own->save();
      place_ = 0;
      place_at_ = in_file_;
    } catch (...) {
      next_error_ = std::current_exception();  // it takes the place of the next element
    }
    return;
  }
  const std::optional<int64_t> place = reader_->tell();
  place_ = place.value_or(-1);
  place_at_ = place ? in_file_ : 0;
}

void SequentialStream::next_file() {
  close();
  in_file_ = 0;
  ++file_;
}

bool SequentialStream::next_block(int64_t count) {
  if (next_error_ != nullptr) std::rethrow_exception(std::exchange(next_error_, nullptr));
  if (in_file_ > 0 && positioned_ == nullptr) remember_place();
  block_ = std::make_shared<Element>();
  row_ = rows_ = 0;
  const ReadingScope scope(iterator_run_);
  rows_ = reader_->read(count, block_.get());
  if (rows_ > 0) return true;
  next_file();
  return false;
}

std::exception_ptr SequentialStream::take_place() {
  std::exception_ptr error = failure();
  ++total_;
  row_ = rows_ = 0;
  if (reader_ == nullptr) {  // it did not open: there is nothing to continue with in this file
    next_file();
    return as_lost(error);
  }
  ++in_file_;
  if (positioned_ != nullptr) remember_place();
  // A source that a program makes may be live: to look at what follows could take long.
  if (from_files_ == nullptr) return as_lost(error);
  try {
    if (!next_block(kBlock)) return as_lost(error);
  } catch (...) {
    next_error_ = std::current_exception();
  }
  return error;
}

int64_t SequentialStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    StreamElement& item = out[got];
    const int64_t number =
        from_files_ == nullptr || file_ == files() ? 0 : from_files_->files[file_].number;
    item.from = SourceIndex{(number << kBitsInFile) + in_file_, run_};
    item.error = nullptr;
    item.block.reset();
    if (row_ < rows_) {
      item.block = block_;
      item.row = row_++;
      if (row_ == rows_) block_.reset();  // who holds the last row holds the block alone
      ++in_file_;
      ++total_;
      ++got;
      // At once: the element must not be read again after restore().
      if (positioned_ != nullptr && row_ == rows_) remember_place();
      continue;
    }
    try {
      if (!open()) break;
      next_block(std::max(kBlock, count - got));
    } catch (...) {
      item.error = take_place();
      ++got;
    }
  }
  return got;
}

int64_t SequentialStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  while (skipped < count) {
    if (row_ < rows_) {
      const int64_t more = std::min(count - skipped, rows_ - row_);
      row_ += more;
      in_file_ += more;
      total_ += more;
      skipped += more;
      continue;
    }
    try {
      if (!open()) break;
      if (next_error_ != nullptr) std::rethrow_exception(std::exchange(next_error_, nullptr));
      const ReadingScope scope(iterator_run_);
      const int64_t more = reader_->skip(count - skipped);
      in_file_ += more;
      total_ += more;
      skipped += more;
      if (more > 0) {
        remember_place();
      } else {
        next_file();
      }
    } catch (...) {
      note_lost(take_place(), lost);
      ++skipped;
    }
  }
  return skipped;
}

void SequentialStream::save(IteratorState& saved) const {
  saved.insert(saved.end(),
               {static_cast<int64_t>(file_), in_file_, total_, place_, place_at_, run_});
  if (positioned_ != nullptr) append_bytes(saved, own_place_);
}

Position SequentialStream::position(IteratorStateReader& saved) const {
  saved.next();
  saved.next();
  const int64_t total = saved.next();
  for (int rest = 0; rest < 3; ++rest) saved.next();
  if (positioned_ != nullptr) saved.bytes();
  return {0, total, total};
}

json SequentialStream::identity() const {
  if (from_files_ == nullptr) return {{"kind", source_->kind()}, {"version", 1}};
  std::vector<std::string> paths;
  for (const FromFiles::File& file : from_files_->files) paths.push_back(file.path);
  return {{"kind", from_files_->format->kind()},
          {"version", 1},
          {kFileCount, files()},
          {kFileNames, digest_of_names(paths)}};
}

void SequentialStream::restore(IteratorStateReader& saved, int64_t run) {
  const int64_t file = saved.count(), in_file = saved.count(), total = saved.count();
  const int64_t place = saved.next(), place_at = saved.count();
  saved.next();
  const std::string own_place = positioned_ != nullptr ? saved.bytes() : "";
  if (file > static_cast<int64_t>(files()) || place_at > in_file) {
    throw invalid_argument(
        fmt::format("the saved position is element {} of file {} of {}, which cannot be", in_file,
                    file, files()));
  }
  start(run);
  file_ = static_cast<size_t>(file);
  total_ = total;
  if (in_file == 0) return;
  if (!open()) {
    throw invalid_argument(
        fmt::format("the saved position is element {} after the last file", in_file));
  }
  auto* const own = dynamic_cast<PositionedReader*>(reader_.get());
  if (own != nullptr && positioned_->live()) {
    log::info_once(fmt::format(
        "input: the run continues with the elements that the {} gives next; the {} elements before "
        "them are not read again",
        source_->kind(), in_file));
    in_file_ = in_file;
  } else if (own != nullptr && place >= 0) {
    own->restore(own_place);
    in_file_ = place_at;
  } else if (place >= 0 && reader_->tell().has_value()) {
    reader_->seek(place);
    in_file_ = place_at;
  }
  const int64_t left = in_file - in_file_;
  // Files can be read twice. What a program gives may be another thing every time.
  if (from_files_ == nullptr && left > 0 && own == nullptr) {
    log::info_once(fmt::format(
        "input: reading the {} from its beginning to element {}, where the run continues, and "
        "skipping the {} elements before it: a source that never repeats its elements, such as a "
        "queue, loses them (RunConfig.restart_input uses the next elements instead)",
        source_->kind(), in_file, left));
  }
  if (const int64_t passed = pass_again(*reader_, left); in_file_ + passed < in_file) {
    throw invalid_argument(
        fmt::format("the saved position is element {} of {}, which has {} now", in_file,
                    from_files_ == nullptr ? source_->kind() : from_files_->files[file_].path,
                    in_file_ + passed),
        "continue with the files the position was saved with");
  }
  in_file_ = in_file;
  remember_place();
}

}  // namespace muster::inline v0_1::data::internal
