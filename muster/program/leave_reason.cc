#include "muster/program/leave_reason.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

// Kubernetes keeps this many bytes of a message.
constexpr size_t kMostBytes = 4096;

// torchrun shows the error of the process that failed first, by this time.
std::string for_torchrun(const Error& error) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const json reason{
      {"message",
       {{"message", error.message()},
        {"extraInfo", {{"py_callstack", error.what()}, {"timestamp", std::to_string(seconds)}}}}}};
  return reason.dump(-1, ' ', false, json::error_handler_t::replace);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace

void leave_reason(const Error& error, const Environment& environment) noexcept {
  try {
    if (const std::string path = environment.get_or("TORCHELASTIC_ERROR_FILE", ""); !path.empty())
      write(path, for_torchrun(error));
    const std::string text = std::string(error.what()).substr(0, kMostBytes);
    // Only folders and files that the service has made: elsewhere they are not read.
    const std::string output = environment.get_or("SM_OUTPUT_DIR", "/opt/ml/output");
    if ((environment.has("SM_HOSTS") || environment.has("TRAINING_JOB_NAME")) &&
        std::filesystem::is_directory(output))
      write(output + "/failure", text);
    const std::string last_words = "/dev/termination-log";
    if (environment.has("KUBERNETES_SERVICE_HOST") && std::filesystem::is_regular_file(last_words))
      write(last_words, text);
  } catch (const std::exception&) {
    // The log has the reason already.
  }
}

}  // namespace muster::inline v0_1
