// decode_event() of anything; values that can be written are read back. (Files of events are framed
// as TFRecords, which have a target of their own.)
#include "muster/formats/event.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  using formats::Event;
  std::vector<std::string> made;
  const auto add = [&](const Event& event) {
    made.push_back(formats::encode_event(event).value());
  };
  add({.wall_time = 1.5, .file_version = std::string(formats::kEventFileVersion)});
  add({.wall_time = 2, .step = 7, .values = {{"loss", 0.25f}, {"note", std::string("text")}}});
  add({.step = 1LL << 40,
       .values = {{"weights", formats::Histogram{.min = -1,
                                                 .max = 2,
                                                 .count = 3,
                                                 .sum = 4,
                                                 .sum_squares = 5,
                                                 .limits = {0, 1, 2},
                                                 .counts = {1, 1, 1}}}}});
  add({.values = {{"picture", formats::ImageSummary{2, 3, 1, "png"}},
                  {"sound", formats::AudioSummary{8000, 1, 4, "RIFF", "audio/wav"}},
                  {"table", formats::TensorSummary{.plugin = "text",
                                                   .type = formats::TensorType::kString,
                                                   .shape = {1, 2},
                                                   .strings = {"a", "b"}}}}});
  add({.graph = formats::GraphDef{{{.name = "net/dense",
                                    .op = "Dense",
                                    .inputs = {"net/input"},
                                    .output_shapes = {{-1, 4}},
                                    .parameters = 20}}}});
  add({.session_log = formats::SessionLog{.status = formats::SessionStatus::kStart,
                                          .checkpoint_path = "model.ckpt-1",
                                          .message = "started"}});
  return made;
}

// A value, a node, a text and a shape in two bytes each, or in as few as they can have.
std::vector<std::string> attacks() {
  const auto field = [](int number, const std::string& body) {
    std::string text(1, static_cast<char>(number << 3 | 2));
    size_t length = body.size();
    for (; length > 127; length >>= 7) text += static_cast<char>((length & 127) | 128);
    return text + static_cast<char>(length) + body;
  };
  const auto times = [](const std::string& piece, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  constexpr int kMany = 40'000;
  const std::string value = field(1, field(1, "x")),
                    point = field(1, std::string("\x15\0\0\0\0", 5));
  return {field(5, times(field(1, ""), kMany)),
          field(5, times(value, kMany)),
          times(field(5, point), kMany),
          field(4, times(field(1, ""), kMany)),
          field(4, times(field(1, field(1, "")), kMany)),
          field(4, field(1, field(1, "n") + times(field(3, ""), kMany))),
          field(5, field(1, field(8, std::string("\x08\x07", 2) + times(field(8, ""), kMany))))};
}

std::vector<std::string> seed_folders() { return {}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Result<formats::Event> event = fuzz::metered(parse_memory_limit(size), [&] {
    return formats::decode_event(fuzz::bytes_of_input(data, size));
  });
  if (!event.ok()) return 0;
  const Result<std::string> encoded = formats::encode_event(event.value());
  // Kinds that cannot be written, and tags that are not UTF-8, are read anyway.
  if (!encoded.ok()) return 0;
  const Result<formats::Event> again = formats::decode_event(bytes_of(encoded.value()));
  fuzz::require(again.ok(), "what was written can be read");
  fuzz::require(again.value().step == event.value().step, "the step comes back");
  fuzz::require(again.value().values.size() == event.value().values.size(), "all values come back");
  fuzz::require(formats::encode_event(again.value()).value() == encoded.value(),
                "what was read is written as the same bytes");
  return 0;
}
