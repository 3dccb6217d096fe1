#include "apps/muster/inspect.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/environment.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/checkpoint_header.h"
#include "muster/formats/event.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/tfrecord.h"

namespace muster::app {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class InspectTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) { return join_path(folder_.path(), name); }

  // Two variables and the position of an input; `about` is merged into the metadata.
  void write_checkpoint(const std::string& name, json about = json::object()) {
    const std::string kernel(6 * 4, 'k');
    const std::string step(8, '\0');
    const auto digest = [](const std::string& bytes) {
      return fmt::format("crc32c:{:08x}", crc32c(bytes_of(bytes)));
    };
    json document = {{"format_version", 1},
                     {"global_step", 938},
                     {"epoch", 2},
                     {"inputs", {{"position", 17}}},
                     {"digests", {{"dense/kernel", digest(kernel)}, {"adam/step", digest(step)}}}};
    document.merge_patch(about);
    const std::vector<formats::TensorView> tensors = {
        {"dense/kernel", "F32", {2, 3}, bytes_of(kernel)},
        {"adam/step", "I64", {}, bytes_of(step)}};
    std::map<std::string, std::string> layout;
    for (const formats::TensorView& tensor : tensors)
      layout[tensor.name] = formats::layout_line(tensor.name, tensor.dtype, tensor.shape);
    auto writer = files_.open_staged(path(name)).value();
    formats::write_safetensors(
        *writer, tensors,
        {{formats::kAboutKey, document.dump()},
         {formats::kHeaderDigestKey, formats::header_digest(document.dump(), layout)}})
        .value();
    writer->commit().value();
  }

  void write_events(const std::string& name, const std::vector<formats::Event>& events,
                    const std::string& tail = "") {
    std::string bytes;
    for (const formats::Event& event : events) {
      formats::append_tfrecord(bytes, bytes_of(formats::encode_event(event).value()));
    }
    files_.make_directories(directory_of(path(name))).value();
    files_.write_atomically(path(name), std::string_view(bytes + tail)).value();
  }

  formats::Event scalar(int64_t step, const std::string& tag, float value) {
    return {.wall_time = 1.7e9 + static_cast<double>(step), .step = step, .values = {{tag, value}}};
  }

  TempDirectory folder_;
  FileSystem& files_ = local_file_system();
};

TEST_F(InspectTest, CheckpointOfAModelDirIsTheOneItsTextFileNames) {
  write_checkpoint("model.ckpt-5.safetensors", {{"global_step", 5}});
  write_checkpoint("model.ckpt-938.safetensors");
  files_
      .write_atomically(path("checkpoint"),
                        std::string_view("model_checkpoint_path: \"model.ckpt-5\"\n"
                                         "all_model_checkpoint_paths: \"model.ckpt-5\"\n"))
      .value();
  const Inspection inspection = inspect_checkpoint(files_, folder_.path(), false);
  EXPECT_FALSE(inspection.damage.has_value());
  EXPECT_THAT(inspection.text, HasSubstr("model.ckpt-5.safetensors\n  global_step: 5\n  epoch: 2\n"
                                         "  format_version: 1\n  inputs: {\"position\":17}\n"));
  EXPECT_THAT(inspection.text, HasSubstr("  dense/kernel  F32    2x3        24  ok\n"));
  EXPECT_THAT(inspection.text, HasSubstr("  adam/step     I64    scalar      8  ok\n"));
  EXPECT_THAT(inspection.text, HasSubstr("  2 arrays, 32 bytes\n"));
  // Without the text file, the highest step.
  files_.remove(path("checkpoint")).value();
  EXPECT_THAT(inspect_checkpoint(files_, folder_.path(), false).text,
              HasSubstr("global_step: 938"));
}

TEST_F(InspectTest, AFileOfKerasIsShown) {
  const std::string file = join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                                     "muster/kerasfiles/golden/keras3/dense.keras");
  const Inspection shown = inspect_checkpoint(files_, file, false);
  EXPECT_THAT(shown.text,
              AllOf(HasSubstr("format: Keras, format 3\n  optimizer: 12 arrays, not shown\n"),
                    ContainsRegex("first/kernel +float32 +2x3 +24 +layers/dense/vars/0"),
                    HasSubstr("7 arrays, ")));
  const json document = json::parse(inspect_checkpoint(files_, file, true).text);
  EXPECT_EQ(document.at("optimizer_arrays"), 12);
  EXPECT_EQ(document.at("tensors")[0].at("name"), "first/bias");
  files_.write_atomically(path("cut.h5"), std::string_view("\x89HDF\r\n\x1a\n")).value();
  EXPECT_EQ(error_of([&] { (void)inspect_checkpoint(files_, path("cut.h5"), false); }).kind(),
            ErrorKind::kCorrupt);
}

// Whatever names it: the folder, with and without its text file, a prefix, a file.
TEST_F(InspectTest, ACheckpointOfTensorFlowIsShown) {
  tensorflow::BundleWriter writer(files_, path("model.ckpt-9"));
  const std::string kernel(24, '\x3f'), step("\x09\0\0\0\0\0\0\0", 8);
  writer.add("dense/kernel", tensorflow::BundleDtype::kFloat, {2, 3}, bytes_of(kernel));
  writer.add("global_step", tensorflow::BundleDtype::kInt64, {}, bytes_of(step));
  writer.end();
  const auto check = [&](const std::string& what) {
    const Inspection shown = inspect_checkpoint(files_, what, false);
    EXPECT_FALSE(shown.damage) << what;
    EXPECT_THAT(shown.text, AllOf(HasSubstr("format: TensorFlow"), HasSubstr("global_step: 9"),
                                  ContainsRegex("dense/kernel +float32 +2x3 +1 +24 +ok"),
                                  HasSubstr("2 arrays, 32 bytes")))
        << what;
  };
  check(folder_.path());
  check(path("model.ckpt-9"));
  check(path("model.ckpt-9.index"));
  check(path("model.ckpt-9.data-00000-of-00001"));
  files_
      .write_atomically(path("checkpoint"),
                        std::string_view("model_checkpoint_path: \"model.ckpt-9\"\n"))
      .value();
  check(folder_.path());
  check(path("checkpoint"));
  const json document = json::parse(inspect_checkpoint(files_, path("model.ckpt-9"), true).text);
  EXPECT_EQ(document.at("global_step"), 9);
  EXPECT_EQ(document.at("tensors")[0].at("shape"), json::array({2, 3}));
  files_.write_atomically(path("model.ckpt-9.data-00000-of-00001"), std::string(32, 'x')).value();
  const Inspection damaged = inspect_checkpoint(files_, path("model.ckpt-9"), false);
  ASSERT_TRUE(damaged.damage);
  EXPECT_THAT(damaged.damage->message(), HasSubstr("2 of 2 arrays do not match"));
  files_.write_atomically(path("model.ckpt-9.index"), std::string_view("x")).value();
  EXPECT_EQ(error_of([&] { inspect_checkpoint(files_, path("model.ckpt-9"), false); }).kind(),
            ErrorKind::kCorrupt);
}

TEST_F(InspectTest, CheckpointByPrefixAsJson) {
  write_checkpoint("model.ckpt-938.safetensors");
  const json document = json::parse(inspect_checkpoint(files_, path("model.ckpt-938"), true).text);
  EXPECT_EQ(document.at("global_step"), 938);
  EXPECT_EQ(document.at("inputs").at("position"), 17);
  EXPECT_EQ(document.at("total_bytes"), 32);
  EXPECT_FALSE(document.contains("digests"));
  bool found = false;
  for (const json& tensor : document.at("tensors")) {
    if (tensor.at("name") != "dense/kernel") continue;
    found = true;
    EXPECT_EQ(tensor, json::parse(R"({"name":"dense/kernel","dtype":"F32","shape":[2,3],"bytes":24,
                                      "digest":"ok"})"));
  }
  EXPECT_TRUE(found);
}

TEST_F(InspectTest, LongValuesAreCutInTextAndWholeInJson) {
  std::string letters = "/";  // of two bytes each: the cut would fall into the middle of one
  for (int i = 0; i < 40; ++i) letters += "ä";
  write_checkpoint("model.ckpt-1.safetensors", {{"order", json::array({std::string(2000, '7')})},
                                                {"letters", letters},
                                                {"short", std::string(64, 's')}});
  const std::string text = inspect_checkpoint(files_, path("model.ckpt-1"), false).text;
  EXPECT_THAT(text, HasSubstr("  order: [\"" + std::string(38, '7') +
                              "… (2,004 bytes; whole with --json)\n"));
  EXPECT_THAT(text, HasSubstr("  letters: " + letters.substr(0, 39) + "… (81 bytes; "));
  EXPECT_THAT(text, HasSubstr("  short: " + std::string(64, 's') + "\n"));
  const json whole = json::parse(inspect_checkpoint(files_, path("model.ckpt-1"), true).text);
  EXPECT_EQ(whole.at("order").at(0), std::string(2000, '7'));
  EXPECT_EQ(whole.at("letters"), letters);
}

TEST_F(InspectTest, ShardsAreOneCheckpoint) {
  write_checkpoint("model.ckpt-7-00000-of-00002.safetensors");
  const Error error = error_of([&] { inspect_checkpoint(files_, path("model.ckpt-7"), false); });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.message(), HasSubstr("1 of 2 shards"));
  write_checkpoint("model.ckpt-7-00001-of-00002.safetensors");
  EXPECT_THAT(inspect_checkpoint(files_, folder_.path(), false).text,
              HasSubstr("4 arrays, 64 bytes"));
}

TEST_F(InspectTest, DamagedArraysAreNamed) {
  write_checkpoint("model.ckpt-1.safetensors");
  std::string bytes = files_.read_file(path("model.ckpt-1.safetensors")).value();
  bytes.back() ^= 1;  // the last byte belongs to the narrower dtype
  files_.write_atomically(path("model.ckpt-1.safetensors"), std::string_view(bytes)).value();
  const Inspection inspection = inspect_checkpoint(files_, path("model.ckpt-1"), false);
  ASSERT_TRUE(inspection.damage.has_value());
  EXPECT_EQ(inspection.damage->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(inspection.damage->message(),
              HasSubstr("1 of 2 arrays do not match their digest: dense/kernel"));
  EXPECT_THAT(inspection.text, HasSubstr("DAMAGED"));
}

// All code that loads a checkpoint refuses such a header; so does the inspection.
TEST_F(InspectTest, AByteOfTheHeaderThatChangedIsDamage) {
  write_checkpoint("a.safetensors");
  const std::string bytes = files_.read_file(path("a.safetensors")).value();
  EXPECT_FALSE(inspect_checkpoint(files_, path("a.safetensors"), false).damage.has_value());
  // The epoch, a name, a shape, and both keys.
  for (const char* text :
       {"epoch\\\":2", "dense/kernel\":{", "[2,3]", "muster\"", "muster_digest"}) {
    std::string changed = bytes;
    const size_t at = bytes.find(text);
    ASSERT_NE(at, std::string::npos) << text;
    if (std::string_view(text) == "[2,3]") {
      changed.replace(at, 5, "[3,2]");
    } else {
      changed[at] ^= 1;
    }
    files_.write_atomically(path("a.safetensors"), std::string_view(changed)).value();
    const Inspection inspection = inspect_checkpoint(files_, path("a.safetensors"), false);
    ASSERT_TRUE(inspection.damage.has_value()) << text;
    EXPECT_THAT(inspection.damage->message(), HasSubstr("header")) << text;
  }
}

TEST_F(InspectTest, UntrustedNamesSteerNoTerminal) {
  const std::string data(4, 'x');
  const std::vector<formats::TensorView> tensors = {{"w\x1b[2J", "BF16", {2}, bytes_of(data)}};
  auto writer = files_.open_staged(path("other.safetensors")).value();
  formats::write_safetensors(*writer, tensors, {{"k\ney", "\x1b[31m"}}).value();
  writer->commit().value();
  const std::string text = inspect_checkpoint(files_, path("other.safetensors"), false).text;
  EXPECT_THAT(text, HasSubstr("  k\\x0aey: \\x1b[31m\n"));
  EXPECT_THAT(text, HasSubstr("  w\\x1b[2J  BF16"));
}

TEST_F(InspectTest, PartsAreShownWithTheirCheckpoint) {
  const std::string rows(6 * 4, 'r'), part = "model.ckpt-7.part-0-of-1.0000002a.safetensors";
  auto writer = files_.open_staged(path(part)).value();
  formats::write_safetensors(
      *writer, std::vector<formats::TensorView>{{"table", "F32", {3, 2}, bytes_of(rows)}})
      .value();
  writer->commit().value();
  const uint64_t bytes = files_.file_size(path(part)).value();
  formats::SafetensorsParts parts;
  parts.files.push_back({part, bytes});
  parts.tensors["table"] = {"F32", {3, 2}, {{0, bytes - rows.size(), rows.size(), 0}}};
  const auto write_index = [&](uint32_t crc) {
    parts.tensors["table"].pieces[0].crc32c = crc;
    auto index = files_.open_staged(path("model.ckpt-7.safetensors")).value();
    formats::write_safetensors(*index, {},
                               {{std::string(formats::kSafetensorsParts), parts.to_text()}})
        .value();
    index->commit().value();
  };
  write_index(crc32c(bytes_of(rows)));
  const Inspection whole = inspect_checkpoint(files_, folder_.path(), false);
  EXPECT_FALSE(whole.damage.has_value());
  EXPECT_THAT(whole.text, HasSubstr(part));
  EXPECT_THAT(whole.text, ContainsRegex("table +F32 +3x2 +24 +ok"));
  EXPECT_THAT(whole.text, Not(HasSubstr("muster_parts")));
  write_index(1);
  const Inspection damaged = inspect_checkpoint(files_, path("model.ckpt-7"), false);
  ASSERT_TRUE(damaged.damage.has_value());
  EXPECT_THAT(damaged.damage->message(), HasSubstr("table"));
}

TEST_F(InspectTest, TruncatedCheckpointIsCorrupt) {
  write_checkpoint("model.ckpt-1.safetensors");
  const std::string bytes = files_.read_file(path("model.ckpt-1.safetensors")).value();
  files_
      .write_atomically(path("cut.safetensors"),
                        std::string_view(bytes).substr(0, bytes.size() - 3))
      .value();
  EXPECT_EQ(error_of([&] { inspect_checkpoint(files_, path("cut.safetensors"), false); }).kind(),
            ErrorKind::kCorrupt);
}

TEST_F(InspectTest, ForeignFilesAreShownToo) {
  const std::string data(4, 'x');
  const std::vector<formats::TensorView> tensors = {{"w", "BF16", {2}, bytes_of(data)}};
  auto writer = files_.open_staged(path("other.safetensors")).value();
  formats::write_safetensors(*writer, tensors, {{"format", "pt"}}).value();
  writer->commit().value();
  const std::string text = inspect_checkpoint(files_, path("other.safetensors"), false).text;
  EXPECT_THAT(text, HasSubstr("  format: pt\n"));
  EXPECT_THAT(text, HasSubstr("w     BF16   2          4  none\n"));
  EXPECT_THAT(text, Not(HasSubstr("global_step")));
}

TEST_F(InspectTest, MissingCheckpointsSayWhatToPass) {
  const Error missing = error_of([&] { inspect_checkpoint(files_, path("model.ckpt-3"), false); });
  EXPECT_EQ(missing.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(missing.hint(), HasSubstr("a prefix such as"));
  const Error empty = error_of([&] { inspect_checkpoint(files_, folder_.path(), false); });
  EXPECT_EQ(empty.kind(), ErrorKind::kNotFound);
  write_checkpoint("model.ckpt-3.safetensors");
  files_
      .write_atomically(path("checkpoint"),
                        std::string_view("model_checkpoint_path: \"model.ckpt-9\"\n"))
      .value();
  const Error dangling = error_of([&] { inspect_checkpoint(files_, folder_.path(), false); });
  EXPECT_EQ(dangling.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(dangling.hint(), HasSubstr("model.ckpt-3"));
}

TEST_F(InspectTest, EventsBelowAModelDirAreSummedUpByTag) {
  write_events("a.tfevents.1", {{.wall_time = 1, .file_version = "brain.Event:2"},
                                scalar(1, "loss", 2.5f),
                                scalar(100, "loss", 0.5f),
                                scalar(100, "global_step/sec", 40)});
  write_events("b.tfevents.2", {scalar(200, "loss", 0.75f)});
  write_events("eval/c.tfevents.3", {scalar(200, "accuracy", 0.98f)});
  const json document =
      json::parse(inspect_events(files_, folder_.path(), std::nullopt, true).text);
  ASSERT_EQ(document.at("folders").size(), 2u);
  const json& train = document.at("folders")[0];
  EXPECT_EQ(train.at("files").size(), 2u);
  EXPECT_EQ(train.at("tags")[1],
            json::parse(R"({"tag":"loss","kind":"scalar","count":3,"first_step":1,"last_step":200,
                            "last":0.75,"min":0.5,"max":2.5})"));
  EXPECT_EQ(document.at("folders")[1].at("tags")[0].at("tag"), "accuracy");
  const std::string text = inspect_events(files_, folder_.path(), std::nullopt, false).text;
  EXPECT_THAT(
      text,
      HasSubstr("  loss             scalar       3           1        200  0.75  0.5  2.5\n"));
  EXPECT_THAT(text, HasSubstr("eval\n"));
}

TEST_F(InspectTest, PointsOfOneTag) {
  write_events("a.tfevents.1",
               {scalar(1, "loss", 2.5f), scalar(2, "loss", NAN), scalar(2, "other", 1)});
  const json document =
      json::parse(inspect_events(files_, path("a.tfevents.1"), "loss", true).text);
  const json& points = document.at("folders")[0].at("tags")[0].at("points");
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].at("value"), 2.5);
  EXPECT_EQ(points[0].at("wall_time"), 1.7e9 + 1);
  EXPECT_EQ(points[1].at("value"), "nan");
  EXPECT_THAT(inspect_events(files_, path("a.tfevents.1"), "loss", false).text,
              Not(HasSubstr("other")));
  const Error error = error_of([&] { inspect_events(files_, path("a.tfevents.1"), "los", false); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.hint(), HasSubstr("loss, other"));
}

TEST_F(InspectTest, BytesThatAreNoTextAreShownInJsonToo) {
  write_events("a.tfevents.1",
               {{.wall_time = 1, .step = 1, .values = {{"raw", std::string("\xff\xfe")}}}});
  const json document = json::parse(inspect_events(files_, path("a.tfevents.1"), "raw", true).text);
  EXPECT_EQ(document.at("folders")[0].at("tags")[0].at("points").size(), 1u);
}

// A run joins its old files in a store: one may be gone when its turn comes, and events that a
// killed run left twice count once.
TEST_F(InspectTest, EventsThatAreJoinedInAStoreAreShownOnce) {
  MemoryStore store;
  const auto records = [&](std::initializer_list<int64_t> steps) {
    std::string bytes;
    for (const int64_t step : steps) {
      const std::string event = formats::encode_event(scalar(step, "loss", 1.0f)).value();
      formats::append_tfrecord(bytes, bytes_of(event));
    }
    return bytes;
  };
  const auto count = [&] {
    const json document =
        json::parse(inspect_events(store, "mem://b/run", std::nullopt, true).text);
    return document.at("folders")[0].at("tags")[0].at("count").get<int>();
  };
  store.write_atomically("mem://b/run/a.tfevents.1", records({1, 2})).value();
  store.write_atomically("mem://b/run/a.tfevents.2", records({2})).value();
  store.write_atomically("mem://b/run/a.tfevents.3", records({3})).value();
  EXPECT_EQ(count(), 3);
  store.set_plan(
      {.writes_only = false, .only = [](const std::string& path) { return path.ends_with(".2"); }});
  store.on_request([&](int64_t, const std::string&) {
    store.on_request(nullptr);
    store.remove("mem://b/run/a.tfevents.2").value();
  });
  EXPECT_EQ(count(), 3);
  EXPECT_EQ(store.objects().size(), 2u);
}

TEST_F(InspectTest, EventsOfEveryKindAreNamed) {
  using formats::TensorType;
  write_events(
      "a.tfevents.1",
      {{.graph = formats::GraphDef{{{.name = "net/dense",
                                     .op = "Dense",
                                     .inputs = {"net/input"},
                                     .output_shapes = {{-1, 4}},
                                     .parameters = 20}}}},
       {.step = 3,
        .values = {{"picture", formats::ImageSummary{28, 14, 1, "png"}},
                   {"sound", formats::AudioSummary{8000, 2, 4000, "RIFF", "audio/wav"}},
                   {"raw", formats::TensorSummary{.type = TensorType::kInt64, .shape = {2, 3}}},
                   {"table", formats::TensorSummary{.plugin = "text",
                                                    .type = TensorType::kString,
                                                    .shape = {1, 2},
                                                    .strings = {"a", "b"}}}}}});
  const std::string text = inspect_events(files_, folder_.path(), std::nullopt, false).text;
  EXPECT_THAT(text, ContainsRegex("picture +image .*28 x 14, 1 channel"));
  EXPECT_THAT(text, ContainsRegex("sound +audio .*0.5 s, 2 channels at 8000 Hz"));
  EXPECT_THAT(text, ContainsRegex("raw +tensor .*int64.2, 3."));
  EXPECT_THAT(text, ContainsRegex("table +text .*string.1, 2."));
  EXPECT_THAT(text, ContainsRegex("net/dense +Dense +.-1, 4. +20 +net/input"));
  const json document =
      json::parse(inspect_events(files_, folder_.path(), std::nullopt, true).text);
  const json& folder = document.at("folders")[0];
  EXPECT_EQ(folder.at("graph")[0].at("output_shapes"), (json{{-1, 4}}));
  EXPECT_EQ(folder.at("tags")[0].at("last").at("width"), 14);
}

TEST_F(InspectTest, DamagedAndGrowingEventFiles) {
  write_events("a.tfevents.1", {scalar(1, "loss", 2.5f)}, std::string("\x08\0\0", 3));
  EXPECT_THAT(inspect_events(files_, folder_.path(), std::nullopt, false).text,
              HasSubstr("note: "));
  write_events("a.tfevents.1", {scalar(1, "loss", 2.5f)}, std::string(40, 'x'));
  const Inspection inspection = inspect_events(files_, folder_.path(), std::nullopt, false);
  ASSERT_TRUE(inspection.damage.has_value());
  EXPECT_EQ(inspection.damage->kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(inspection.text, HasSubstr("loss"));
}

TEST_F(InspectTest, NoEventsIsNotFound) {
  EXPECT_EQ(error_of([&] { inspect_events(files_, folder_.path(), std::nullopt, false); }).kind(),
            ErrorKind::kNotFound);
  EXPECT_EQ(error_of([&] { inspect_events(files_, path("nowhere"), std::nullopt, false); }).kind(),
            ErrorKind::kNotFound);
}

}  // namespace
}  // namespace muster::app
