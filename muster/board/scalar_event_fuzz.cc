// read_scalar_event() of anything: what it reads, formats::decode_event() reads too, as the same
// scalars. The values of plugins are decoded from the same events.
#include <bit>
#include <string>
#include <vector>

#include "muster/board/internal/scalar_event.h"
#include "muster/board/plugin_values.h"
#include "muster/formats/event.h"
#include "muster/formats/hparams.h"
#include "tests/fuzz/target.h"

using muster::fuzz::require;

std::vector<std::string> muster::fuzz::seeds() {
  using formats::TensorSummary;
  std::vector<std::string> made;
  const auto add = [&](const formats::Event& event) {
    made.push_back(formats::encode_event(event).value());
  };
  add({.wall_time = 1.5, .step = 3, .values = {{"loss", 0.25F}, {"accuracy", -1.0F}}});
  add({.values = {{"a", 0.25F}, {"t", std::string("text")}}});
  add({.values = {formats::hparams_session_start({{"a", 1.5}, {"b", true}, {"c", "text"}}, "g", 7),
                  formats::hparams_session_end(formats::SessionResult::kSuccess, 9)}});
  add({.values = {
           {"h",
            TensorSummary{
                .plugin = "histograms", .shape = {2, 3}, .content = std::string(24, 'a')}},
           {"p",
            TensorSummary{.plugin = "pr_curves", .shape = {6, 1}, .content = std::string(24, 'a')}},
           {"i", TensorSummary{.plugin = "images",
                               .type = formats::TensorType::kString,
                               .shape = {3},
                               .strings = {"1", "2", "png"}}}}});
  return made;
}

std::vector<std::string> muster::fuzz::seed_folders() { return {"tensorflow/events"}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;
  const Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  const Result<formats::Event> event = formats::decode_event(bytes);
  board::internal::ScalarEvent scalars;
  if (board::internal::read_scalar_event(bytes, &scalars)) {
    require(event.ok(), "what is read quickly is an event");
    require(event.value().step == scalars.step, "the step is the same");
    require(event.value().values.size() == scalars.scalars.size(), "as many scalars");
    for (size_t at = 0; at < scalars.scalars.size(); ++at) {
      const formats::SummaryValue& value = event.value().values[at];
      require(value.tag == scalars.scalars[at].tag, "the tag is the same");
      require(std::bit_cast<uint32_t>(std::get<float>(value.value)) ==
                  std::bit_cast<uint32_t>(scalars.scalars[at].value),
              "the value is the same");
    }
  }
  if (!event.ok()) return 0;
  for (const formats::SummaryValue& value : event.value().values) {
    (void)board::histogram_of(value);
    (void)board::images_of(value);
    (void)board::sounds_of(value);
    (void)board::texts_of(value);
    (void)board::curve_of(value);
    (void)board::session_start_of(value);
    (void)board::session_end_of(value);
  }
  return 0;
}
