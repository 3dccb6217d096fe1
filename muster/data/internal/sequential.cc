#include "muster/data/internal/sequential.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/internal/file_names.h"
#include "muster/data/internal/identity.h"
#include "muster/stores/file_systems.h"

namespace muster::inline v0_1::data::internal {

SequentialStream::SequentialStream(const Node& node)
    : node_(node), from_files_(node.as<FromFiles>()) {
  if (from_files_ == nullptr) source_ = std::get<FromSequential>(node.spec).source.get();
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
  row_ = rows_ = 0;
  place_ = -1;
  place_at_ = 0;
}

bool SequentialStream::open() {
  if (file_ == files()) return false;
  if (reader_ == nullptr) {
    reader_ = from_files_ == nullptr ? source_->open()
                                     : from_files_->format->open(stores::file_systems(),
                                                                 from_files_->files[file_].path);
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
  const std::optional<int64_t> place = reader_->tell();
  place_ = place.value_or(-1);
  place_at_ = place ? in_file_ : 0;
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
      continue;
    }
    try {
      if (!open()) break;
      if (in_file_ > 0) remember_place();
      block_ = std::make_shared<Element>();
      row_ = 0;
      rows_ = reader_->read(std::max(kBlock, count - got), block_.get());
      if (rows_ == 0) {
        close();
        in_file_ = 0;
        ++file_;
      }
    } catch (...) {
      item.error = failure();
      ++total_;
      ++got;
      if (reader_ == nullptr) {  // nothing to go on with in this file
        close();
        in_file_ = 0;
        ++file_;
      } else {
        rows_ = row_ = 0;
        ++in_file_;
      }
    }
  }
  return got;
}

int64_t SequentialStream::skip(int64_t count) {
  int64_t skipped = std::min(count, rows_ - row_);
  row_ += skipped;
  in_file_ += skipped;
  while (skipped < count) {
    try {
      if (!open()) break;
    } catch (...) {  // a file that does not open takes one place, as in read()
      ++skipped;
      ++file_;
      in_file_ = 0;
      continue;
    }
    int64_t more = 0;
    try {
      more = reader_->skip(count - skipped);
    } catch (...) {  // takes a place, as in read(), and what is behind it is still there
      ++in_file_;
      ++skipped;
      continue;
    }
    in_file_ += more;
    skipped += more;
    if (more > 0) remember_place();
    if (skipped == count) break;
    close();
    in_file_ = 0;
    ++file_;
  }
  total_ += skipped;
  return skipped;
}

void SequentialStream::mark(Marks& marks) const {
  marks.insert(marks.end(),
               {static_cast<int64_t>(file_), in_file_, total_, place_, place_at_, run_});
}

Position SequentialStream::position(MarkReader& marks) const {
  marks.next();
  marks.next();
  const int64_t total = marks.next();
  for (int rest = 0; rest < 3; ++rest) marks.next();
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

void SequentialStream::restore(MarkReader& marks, int64_t run) {
  const int64_t file = marks.count(), in_file = marks.count(), total = marks.count();
  const int64_t place = marks.next(), place_at = marks.count();
  marks.next();
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
        fmt::format("the saved position is element {} behind the last file", in_file));
  }
  if (place >= 0 && reader_->tell().has_value()) {
    reader_->seek(place);
    in_file_ = place_at;
  }
  const int64_t left = in_file - in_file_;
  const int64_t passed = reader_->skip(left);
  if (passed < left) {
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
