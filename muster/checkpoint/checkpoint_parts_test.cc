// Checkpoints in parts: they read as one file does, to the bit, and what is damaged, lost or left
// behind is noticed.
#include "muster/checkpoint/checkpoint_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/checkpoint/checkpoint_reader.h"
#include "muster/checkpoint/internal/test_checkpoints.h"
#include "muster/checkpoint/manager.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::files;
using ::testing::HasSubstr;
using testing::make_checkpoint;
using testing::same;

// Which rows of which tensor a part has.
struct Held {
  std::string name{};
  int64_t begin = 0, end = -1;  // end < 0: all of it
};

// Writes those of `whole` into files in `directory`, as servers do. What is left is the
// checkpoint's own.
Checkpoint in_parts(const std::string& directory, Checkpoint whole,
                    const std::vector<std::vector<Held>>& parts, uint32_t save = 7,
                    FileSystem& fs = files()) {
  Checkpoint own = whole;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::map<std::string, Tensor> tensors;
    for (const Held& held : parts[p]) {
      const Tensor& tensor = whole.tensors.at(held.name);
      tensors[held.name] = held.end < 0 ? tensor : tensor.slice(0, held.begin, held.end);
    }
    const std::string name = checkpoint_part_name(whole.global_step, p, parts.size(), save);
    formats::SafetensorsParts part = write_checkpoint_part(fs, directory + "/" + name, tensors);
    own.parts.files.push_back(part.files.front());
    for (const Held& held : parts[p]) {
      const Tensor& tensor = whole.tensors.at(held.name);
      auto& entry = own.parts.tensors[held.name];
      entry.shape = tensor.sizes().vec();
      entry.dtype = part.tensors.at(held.name).dtype;
      for (formats::TensorPiece& piece : part.tensors.at(held.name).pieces) {
        piece.file = p;
        entry.pieces.push_back(piece);
      }
      own.tensors.erase(held.name);
    }
  }
  return own;
}

// Three parts: a kernel whose rows two of them have, one that is whole, a scalar, and nothing.
const std::vector<std::vector<Held>> kThreeParts = {
    {{"dense/kernel", 0, 2}, {"count"}}, {{"dense/kernel", 2, 5}, {"dense/kernel/Adam/m"}}, {}};

std::vector<std::string> files_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST(CheckpointPartsTest, TheyReadAsOneFileDoes) {
  TempDirectory directory;
  const Checkpoint whole = make_checkpoint(12);
  write_checkpoint(files(), directory / "model.ckpt-12.safetensors",
                   in_parts(directory.path(), whole, kThreeParts));
  const Checkpoint read = read_checkpoint(files(), directory / "model.ckpt-12");
  EXPECT_TRUE(same(read, whole));
  EXPECT_TRUE(read.parts.empty());
  const auto reader = open_checkpoint(files(), directory / "model.ckpt-12");
  EXPECT_EQ(reader->header().parts.files.size(), 3u);
  EXPECT_EQ(reader->specs().at("dense/kernel"), (TensorSpec{{5, 3}, kFloat32}));
  reader->verify();
}

// If several processes share the work, one of them finds it.
TEST(CheckpointPartsTest, SharesOfTheVerificationMakeUpTheWhole) {
  TempDirectory directory;
  const Checkpoint own = in_parts(directory.path(), make_checkpoint(12), kThreeParts);
  const std::string index = directory / "model.ckpt-12.safetensors";
  write_checkpoint(files(), index, own);
  for (const std::string& path : {directory / own.parts.files[0].name, index}) {
    const std::string good = files().read_file(path).value();
    for (size_t at = good.size() - 8; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] ^= 1;
      testing::overwrite(path, bad);
      const auto reader = open_checkpoint(files(), index);
      int found = 0;
      for (size_t share = 0; share < 3; ++share) {
        try {
          reader->verify(share, 3);
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
          ++found;
        }
      }
      EXPECT_EQ(found, 1) << path << " " << at;
    }
    testing::overwrite(path, good);
  }
}

// Of a tensor in parts, of one in the file itself, and of one in a single file.
TEST(CheckpointPartsTest, AnyRowsCanBeRead) {
  TempDirectory directory;
  const Checkpoint whole = make_checkpoint(12);
  write_checkpoint(files(), directory / "model.ckpt-12.safetensors",
                   in_parts(directory.path(), whole, kThreeParts));
  write_checkpoint(files(), directory / "model.ckpt-13.safetensors", whole);
  for (const std::string prefix : {"model.ckpt-12", "model.ckpt-13"}) {
    const auto reader = open_checkpoint(files(), directory / prefix);
    for (const std::string name : {"dense/kernel", "half"}) {
      const Tensor& all = whole.tensors.at(name);
      for (int64_t begin = 0; begin <= all.size(0); ++begin) {
        for (int64_t end = begin; end <= all.size(0); ++end)
          EXPECT_TRUE(reader->read_rows(name, begin, end).equal(all.slice(0, begin, end)));
      }
      EXPECT_EQ(error_of([&] { reader->read_rows(name, 1, all.size(0) + 1); }).kind(),
                ErrorKind::kInvalidArgument);
    }
  }
}

// More than one piece, each of which is verified when a row of it is read.
TEST(CheckpointPartsTest, LargeTensorsAreVerifiedPieceByPiece) {
  TempDirectory directory;
  Checkpoint whole{.global_step = 3};
  whole.tensors["table"] = torch::arange(9 << 20, at::kFloat).reshape({-1, 1024});
  const int64_t rows = whole.tensors["table"].size(0);
  const Checkpoint own = in_parts(directory.path(), whole, {{{"table"}}});
  EXPECT_GT(own.parts.tensors.at("table").pieces.size(), 2u);
  write_checkpoint(files(), directory / "model.ckpt-3.safetensors", own);
  const std::string part = directory / own.parts.files.front().name;
  std::string bytes = files().read_file(part).value();
  bytes.back() ^= 1;
  testing::overwrite(part, bytes);
  const auto reader = open_checkpoint(files(), directory / "model.ckpt-3");
  EXPECT_TRUE(
      reader->read_rows("table", 10, 4200).equal(whole.tensors["table"].slice(0, 10, 4200)));
  for (const auto& read : std::vector<std::function<void()>>{
           [&] { reader->read_rows("table", rows - 1, rows); }, [&] { reader->read("table"); },
           [&] { reader->verify(); }}) {
    const Error error = error_of(read);
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
    EXPECT_THAT(error.message(), AllOf(HasSubstr(own.parts.files.front().name),
                                       HasSubstr("'table'"), HasSubstr("damaged")));
  }
}

TEST(CheckpointPartsTest, EveryByteOfAPartIsCovered) {
  TempDirectory directory;
  const Checkpoint own = in_parts(directory.path(), make_checkpoint(12), kThreeParts);
  write_checkpoint(files(), directory / "model.ckpt-12.safetensors", own);
  for (const auto& file : own.parts.files) {
    const std::string path = directory / file.name, good = files().read_file(path).value();
    const auto begin = 8 + load_little_endian<uint64_t>(good.data());
    for (size_t at = begin; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] ^= 0x10;
      testing::overwrite(path, bad);
      EXPECT_EQ(error_of([&] { read_checkpoint(files(), directory / "model.ckpt-12"); }).kind(),
                ErrorKind::kCorrupt)
          << file.name << " " << at;
    }
    for (const std::string& bad : {good.substr(0, good.size() - 1), good + "x"}) {
      testing::overwrite(path, bad);
      const Error error = error_of([&] { open_checkpoint(files(), directory / "model.ckpt-12"); });
      EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
      EXPECT_THAT(error.message(), AllOf(HasSubstr(file.name), HasSubstr("bytes")));
    }
    testing::overwrite(path, good);
  }
}

// The digest of the table of parts: a file of another table is not a checkpoint.
TEST(CheckpointPartsTest, TheTableOfPartsIsCovered) {
  TempDirectory directory;
  const std::string path = directory / "model.ckpt-12.safetensors";
  write_checkpoint(files(), path, in_parts(directory.path(), make_checkpoint(12), kThreeParts));
  std::string bytes = files().read_file(path).value();
  const size_t at = bytes.find("[0,", bytes.find(formats::kSafetensorsParts));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = '1';
  testing::overwrite(path, bytes);
  const Error error = error_of([&] { open_checkpoint(files(), path); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
}

TEST(CheckpointPartsTest, AMissingPartIsNamedAndTheCheckpointBeforeIsUsed) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  manager.save(in_parts(directory.path(), make_checkpoint(10), kThreeParts));
  const Checkpoint last = in_parts(directory.path(), make_checkpoint(20), kThreeParts);
  manager.save(last);
  EXPECT_EQ(manager.load_latest()->prefix, directory / "model.ckpt-20");
  std::filesystem::remove(directory / last.parts.files[1].name);
  const auto loaded = manager.load_latest();
  EXPECT_EQ(loaded->prefix, directory / "model.ckpt-10");
  EXPECT_TRUE(same(loaded->checkpoint, make_checkpoint(10)));
  EXPECT_THAT(loaded->skipped,
              ElementsAre(AllOf(HasSubstr("lacks a part"), HasSubstr(last.parts.files[1].name))));
  EXPECT_EQ(
      manager.find_latest([&](const std::string& prefix) { open_checkpoint(files(), prefix); }),
      loaded->prefix);
}

TEST(CheckpointPartsTest, RetentionDeletesThemWithTheirCheckpoint) {
  TempDirectory directory;
  CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 2});
  CheckpointManager::Pin pin;
  for (int64_t step : {10, 20, 30, 40}) {
    manager.save(in_parts(directory.path(), make_checkpoint(step), {{{"count"}}}));
    if (step == 10) pin = manager.pin(directory / "model.ckpt-10");
  }
  const auto part = [](int64_t step) { return checkpoint_part_name(step, 0, 1, 7); };
  EXPECT_THAT(files_in(directory.path()),
              ElementsAre("checkpoint", part(10), "model.ckpt-10.safetensors", part(30),
                          "model.ckpt-30.safetensors", part(40), "model.ckpt-40.safetensors"));
  EXPECT_TRUE(same(manager.load(directory / "model.ckpt-10"), make_checkpoint(10)));
  pin.reset();
  manager.tidy();
  EXPECT_THAT(files_in(directory.path()),
              ElementsAre("checkpoint", part(30), "model.ckpt-30.safetensors", part(40),
                          "model.ckpt-40.safetensors"));
}

// A checkpoint may have come from somebody else: what it calls its parts, and is none of them,
// stays.
TEST(CheckpointPartsTest, NothingButPartsIsDeletedWithACheckpoint) {
  TempDirectory directory;
  CheckpointManager manager(directory.path(), {.keep_checkpoint_max = 1});
  Checkpoint own = in_parts(directory.path(), make_checkpoint(10), {{{"count"}}});
  std::filesystem::rename(directory / own.parts.files[0].name, directory / "notes.txt");
  own.parts.files[0].name = "notes.txt";
  manager.save(own);
  manager.save(make_checkpoint(30));
  EXPECT_FALSE(files().exists(directory / "model.ckpt-10.safetensors").value());
  EXPECT_TRUE(files().exists(directory / "notes.txt").value());
}

// A save that was killed between its parts and the file that names them; also of a step that was
// saved before, and where a save of one file replaces one of parts.
TEST(CheckpointPartsTest, PartsThatNoCheckpointHasAreTidied) {
  TempDirectory directory;
  CheckpointManager manager(directory.path());
  manager.save(in_parts(directory.path(), make_checkpoint(10), {{{"count"}}}, 1));
  in_parts(directory.path(), make_checkpoint(10), {{{"count"}}}, 2);
  in_parts(directory.path(), make_checkpoint(15), {{{"count"}}}, 3);
  EXPECT_EQ(manager.load_latest()->prefix, directory / "model.ckpt-10");
  manager.save(in_parts(directory.path(), make_checkpoint(20), {{{"count"}}}, 4));
  EXPECT_THAT(
      files_in(directory.path()),
      ElementsAre("checkpoint", checkpoint_part_name(10, 0, 1, 1), "model.ckpt-10.safetensors",
                  checkpoint_part_name(20, 0, 1, 4), "model.ckpt-20.safetensors"));
  EXPECT_TRUE(same(manager.load(directory / "model.ckpt-10"), make_checkpoint(10)));
  manager.save(make_checkpoint(20, /*seed=*/1));
  EXPECT_THAT(files_in(directory.path()),
              ElementsAre("checkpoint", checkpoint_part_name(10, 0, 1, 1),
                          "model.ckpt-10.safetensors", "model.ckpt-20.safetensors"));
}

// Killed between any two changes to the disk, and with the disk full from any of them on: what is
// loaded is whole, and the next save leaves nothing behind of the one that failed.
TEST(CheckpointPartsTest, ASaveIsWholeOrAbsent) {
  const Checkpoint before = make_checkpoint(10), next = make_checkpoint(20);
  for (const bool killed : {true, false}) {
    for (int64_t at = 0;; ++at) {
      TempDirectory directory;
      CheckpointManager(directory.path()).save(in_parts(directory.path(), before, kThreeParts, 1));
      FaultFileSystem faulty(files(),
                             {.crash_at = killed ? at : -1, .no_space_from = killed ? -1 : at});
      bool failed = false;
      try {
        CheckpointManager(directory.path(), {.fs = &faulty})
            .save(in_parts(directory.path(), next, kThreeParts, 2, faulty));
      } catch (const Error&) {
        failed = true;
      }
      const auto loaded = CheckpointManager(directory.path()).load_latest();
      ASSERT_TRUE(loaded.has_value()) << at;
      EXPECT_TRUE(loaded->skipped.empty()) << at;
      EXPECT_TRUE(same(loaded->checkpoint, loaded->checkpoint.global_step == 20 ? next : before));
      if (!failed) {
        EXPECT_EQ(loaded->checkpoint.global_step, 20);
        break;
      }
      CheckpointManager after(directory.path(), {.keep_checkpoint_max = 1});
      after.save(make_checkpoint(30));
      // One that was committed, though not named yet, is whole.
      const bool committed = std::filesystem::exists(directory / "model.ckpt-20.safetensors");
      EXPECT_EQ(files_in(directory.path()).size(), committed ? 6u : 2u) << at;
    }
  }
}

TEST(CheckpointPartsTest, NamesAreToldFromOthers) {
  EXPECT_EQ(checkpoint_part_name(120, 0, 2, 0x1f3a9c07),
            "model.ckpt-120.part-0-of-2.1f3a9c07.safetensors");
  EXPECT_EQ(checkpoint_part_step("model.ckpt-120.part-0-of-2.1f3a9c07.safetensors"), 120);
  EXPECT_EQ(checkpoint_step("model.ckpt-120.part-0-of-2.1f3a9c07.safetensors"), -1);
  for (const std::string name :
       {"model.ckpt-120.safetensors", "model.ckpt-1.part-0-of-2.safetensors",
        ".model.ckpt-120.part-0-of-2.1f3a9c07.safetensors.staging-1-2", "checkpoint", ""})
    EXPECT_EQ(checkpoint_part_step(name), -1) << name;
}

}  // namespace
}  // namespace muster::inline v0_1
