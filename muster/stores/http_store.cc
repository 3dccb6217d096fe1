#include "muster/stores/http_store.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "muster/base/strings.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/http_responses.h"
#include "muster/stores/internal/object_reader.h"

namespace muster::inline v0_1::stores {
namespace {

using namespace internal;

// The bytes that the request which opens a file fetches: short files are read with it.
constexpr size_t kFirstBytes = size_t{256} << 10;
// The most bytes that a server without ranges may send.
constexpr size_t kMostWhole = size_t{256} << 20;

// The parts of a URL in which ObjectName::uri() gives it back.
ObjectName name_of_url(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t slash = std::min(url.find('/', host), url.size());
  return {url.substr(0, host - 3), url.substr(host, slash - host),
          url.substr(std::min(slash + 1, url.size()))};
}

// The URL as messages show it: the part before the host, and the part after the question mark, may
// be secret.
std::string shown(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t path = std::min(url.find_first_of("/?", host), url.size());
  const size_t login = url.rfind('@', path);
  const size_t begin = login != std::string::npos && login > host ? login + 1 : host;
  const size_t end = std::min(url.find('?', begin), url.size());
  return url.substr(0, host) + url.substr(begin, end - begin) + (end < url.size() ? "?..." : "");
}

// The server's facts about the file; if it gives no ETag, a change shows in its date.
ObjectInfo info_of_file(const HttpResponse& response) {
  ObjectInfo info;
  info.version = response.header("etag");
  if (info.version.empty()) info.version = response.header("last-modified");
  info.modified_seconds = parse_http_date(response.header("last-modified"));
  return info;
}

Error file_error(const std::string& what, const HttpResponse& response) {
  std::string hint;
  if (response.transport == Transport::kRefused &&
      response.problem.find("more bytes") != std::string::npos) {
    hint = "the server knows no ranges, and the file has more than " + human_bytes(kMostWhole) +
           ": copy it to a disk, and read it there";
  } else if (response.status == 401 || response.status == 403) {
    hint = "files that need a login are not read by URL: copy it to a disk, and read it there";
  } else if (response.status == 404 || response.status == 410) {
    hint = "check the address";
  }
  return response_error(response, what, "", "", hint);
}

class WebSource : public ObjectSource {
 public:
  explicit WebSource(const StoreOptions& limits) : client_(limits) {}

  Result<RangeRead> read(const ObjectName& object, const std::string& version, uint64_t offset,
                         MutableBytes out, Cancellation* cancellation) override {
    const std::string url = object.uri();
    return read_range(
        client_, {.uri = shown(url),
                  .version = version,
                  .offset = offset,
                  .out = out,
                  .make = [&](const std::string& range, const std::string&) -> Result<HttpRequest> {
                    return HttpRequest{.url = url, .headers = {range}, .follow_redirects = true};
                  },
                  .info_of = info_of_file,
                  .judge = nullptr,
                  .error_of =
                      [&](const HttpResponse& response) {
                        return file_error("read '" + shown(url) + "'", response);
                      },
                  .cancellation = cancellation});
  }

  Result<HttpResponse> send(const HttpRequest& request, const std::string& what) {
    return perform_with_retries(
        client_,
        {.what = what,
         .make = [&]() -> Result<HttpRequest> { return request; },
         .error_of = [&](const HttpResponse& response) { return file_error(what, response); }});
  }

 private:
  HttpClient client_;
};

// The bytes of a server that knows no ranges.
class WholeFile : public FileReader {
 public:
  WholeFile(std::string bytes, std::string name)
      : bytes_(std::move(bytes)), reader_(memory_reader(bytes_of(bytes_), std::move(name))) {}
  Result<uint64_t> size() override { return reader_->size(); }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override {
    return reader_->read_at(offset, out);
  }
  const std::string& name() const override { return reader_->name(); }

 private:
  const std::string bytes_;
  const std::unique_ptr<FileReader> reader_;
};

class HttpFileSystem : public FileSystem {
 public:
  explicit HttpFileSystem(const HttpOptions& options) : HttpFileSystem(options.limits) {}

  Result<FileInfo> info(const std::string& path) override {
    const std::string what = "look at '" + shown(path) + "'";
    Result<HttpResponse> answer =
        source_.send({.method = "HEAD", .url = path, .follow_redirects = true}, what);
    if (!answer.ok()) return answer.error();
    const HttpResponse& response = answer.value();
    const auto size = parse_size(response.header("content-length"));
    if (response.ok() && size) {
      return FileInfo{.size = *size, .modified_seconds = info_of_file(response).modified_seconds};
    }
    // Addresses that were signed for GET forbid HEAD.
    const bool no_head = response.ok() ||
                         (response.transport == Transport::kAnswered && response.status != 404 &&
                          response.status != 410 && response.status < 500) ||
                         response.status == 501;
    if (!no_head) return file_error(what, response);
    Result<std::unique_ptr<FileReader>> reader = open_reader(path);
    if (!reader.ok()) return reader.error();
    const Result<uint64_t> length = reader.value()->size();
    if (!length.ok()) return length.error();
    return FileInfo{.size = length.value()};
  }

  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override {
    Result<HttpResponse> answer =
        source_.send({.url = path,
                      .headers = {"Range: bytes=0-" + std::to_string(kFirstBytes - 1)},
                      .most_body = kMostWhole,
                      .expected_body = kMostWhole,
                      .follow_redirects = true},
                     "read '" + shown(path) + "'");
    if (!answer.ok()) return answer.error();
    HttpResponse& response = answer.value();
    const auto range = parse_content_range(response.header("content-range"));
    // An empty file has no first byte.
    if (response.transport == Transport::kAnswered && response.status == 416) {
      if (range && range->size.value_or(0) > 0) return wrong_range(response, shown(path), 0);
      return whole("", path);
    }
    if (!response.ok()) return file_error("read '" + shown(path) + "'", response);
    if (response.status == 200) return whole(std::move(response.body), path);
    if (response.status != 206 || !range || !range->size || range->begin != 0 ||
        range->end - range->begin != response.body.size() || range->end > *range->size) {
      return wrong_range(response, shown(path), 0);
    }
    ObjectInfo info = info_of_file(response);
    info.size = *range->size;
    return std::unique_ptr<FileReader>(std::make_unique<ObjectReader>(
        transfers_, name_of_url(path), shown(path), std::move(info), std::move(response.body)));
  }

  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override {
    return cannot_write(path);
  }
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override {
    return cannot_write(path);
  }
  Result<std::vector<std::string>> list_directory(const std::string& path) override {
    return invalid_argument("cannot list '" + shown(path) + "': web servers have no directories",
                            "name each file, or use a bucket (s3://, gs://)");
  }
  Status make_directories(const std::string& path) override { return cannot_write(path); }
  Status remove(const std::string& path) override { return cannot_write(path); }
  Status rename(const std::string& from, const std::string&) override { return cannot_write(from); }
  Status remove_tree(const std::string& path) override { return cannot_write(path); }

 private:
  explicit HttpFileSystem(const StoreOptions& limits)
      : HttpFileSystem(std::make_unique<WebSource>(limits), limits) {}
  HttpFileSystem(std::unique_ptr<WebSource> source, const StoreOptions& limits)
      : source_(*source), transfers_(std::make_shared<Transfers>(std::move(source), limits)) {}

  static Error cannot_write(const std::string& path) {
    return invalid_argument(
        "cannot write or change '" + shown(path) + "': web servers are only read",
        "write to a disk or to a bucket (s3://, gs://)");
  }
  static std::unique_ptr<FileReader> whole(std::string bytes, const std::string& path) {
    return std::make_unique<WholeFile>(std::move(bytes), shown(path));
  }

  WebSource& source_;  // owned by transfers_
  const std::shared_ptr<Transfers> transfers_;
};

}  // namespace

HttpOptions HttpOptions::from(const Environment& environment) {
  return {.limits = StoreOptions::from(environment)};
}

std::unique_ptr<FileSystem> make_http_store(const HttpOptions& options) {
  return std::make_unique<HttpFileSystem>(options);
}

}  // namespace muster::inline v0_1::stores
