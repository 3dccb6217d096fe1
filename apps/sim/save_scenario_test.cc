// The simulator finds bugs that are planted in file systems and in trainers, and none without them.
#include "apps/sim/save_scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "apps/sim/found_seeds.h"

namespace muster::sim {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

// The files of a process, of which a test changes some operations.
class Wrapped : public FileSystem {
 public:
  explicit Wrapped(FileSystem& base) : base_(base) {}
  Result<FileInfo> info(const std::string& path) override { return base_.info(path); }
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    return base_.open_reader(path);
  }
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    return base_.open_writer(path);
  }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    return base_.open_staged(path);
  }
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    return base_.list_directory(path);
  }
  Status make_directories(const std::string& path) override { return base_.make_directories(path); }
  Status remove(const std::string& path) override { return base_.remove(path); }
  Status rename(const std::string& from, const std::string& to) override {
    return base_.rename(from, to);
  }

 protected:
  FileSystem& base_;
};

template <typename Files>
SaveScenario with() {
  return SaveScenario({.files = [](FileSystem& base) { return std::make_unique<Files>(base); }});
}

TEST(SaveScenario, NoSeedBreaksALaw) { expect_no_failure(SaveScenario(), 100); }

// Written under its name from the first byte on.
class NotAtomic : public Wrapped {
 public:
  using Wrapped::Wrapped;
  class Open : public StagedWriter {
   public:
    explicit Open(std::unique_ptr<FileWriter> file) : file_(std::move(file)) {}
    Status append(Bytes bytes) override { return file_->append(bytes); }
    Status sync() override { return file_->sync(); }
    Status commit() override { return file_->sync(); }
    Status discard() override { return {}; }

   private:
    std::unique_ptr<FileWriter> file_;
  };
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    (void)base_.remove(path);
    auto file = base_.open_writer(path);
    if (!file.ok()) return file.error();
    return std::unique_ptr<StagedWriter>(std::make_unique<Open>(std::move(file.value())));
  }
};

TEST(SaveScenario, FindsSavesThatAreNotAtomic) {
  expect_failure(with<NotAtomic>(), 300, HasSubstr("checkpoint"));
}

// Renamed before its bytes are on the disk.
class NotSynced : public Wrapped {
 public:
  using Wrapped::Wrapped;
  class Late : public StagedWriter {
   public:
    Late(FileSystem& base, std::unique_ptr<FileWriter> file, std::string aside, std::string path)
        : base_(base), file_(std::move(file)), aside_(std::move(aside)), path_(std::move(path)) {}
    Status append(Bytes bytes) override { return file_->append(bytes); }
    Status sync() override { return {}; }
    Status commit() override { return base_.rename(aside_, path_); }
    Status discard() override { return base_.remove(aside_); }

   private:
    FileSystem& base_;
    std::unique_ptr<FileWriter> file_;
    std::string aside_, path_;
  };
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    const std::string aside = path + ".aside";
    (void)base_.remove(aside);
    auto file = base_.open_writer(aside);
    if (!file.ok()) return file.error();
    return std::unique_ptr<StagedWriter>(
        std::make_unique<Late>(base_, std::move(file.value()), aside, path));
  }
};

TEST(SaveScenario, FindsSavesThatALossOfPowerForgets) {
  expect_failure(with<NotSynced>(), 1000, HasSubstr("checkpoint"));
}

// Leases are not seen.
class WithoutLeases : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    auto names = base_.list_directory(path);
    if (names.ok()) {
      std::erase_if(names.value(),
                    [](const std::string& name) { return name.ends_with(".lease"); });
    }
    return names;
  }
};

TEST(SaveScenario, FindsADeletionThatALeaseForbids) {
  expect_failure(with<WithoutLeases>(), 300, HasSubstr("the evaluator's lease keeps step"));
}

// Old checkpoints stay.
class DeletesNothing : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Status remove(const std::string&) override { return {}; }
};

TEST(SaveScenario, FindsATrainerThatDeletesNothing) {
  expect_failure(with<DeletesNothing>(), 100, HasSubstr("a save leaves"));
}

TEST(SaveScenario, FindsATrainerThatSkipsAnExample) {
  expect_failure(
      SaveScenario({.skips_an_example = true}), 300,
      AnyOf(HasSubstr("continues at the next example"), HasSubstr("has used each example once")));
}

}  // namespace
}  // namespace muster::sim
