#include "muster/board/board_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/board/board_page.h"
#include "muster/board/query.h"
#include "muster/cluster/address.h"

namespace muster::inline v0_1::board {
namespace {

using serve::HttpAnswer;
using serve::HttpRequest;

// The page may run its own script and ask this server; nothing else, and no other page may frame
// it.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
constexpr std::string_view kCookie = "muster_board=";

HttpAnswer plain(int status, const std::string& text) {
  return {status, text + "\n", "text/plain; charset=utf-8", {}};
}

// The token that a request has, in its query or as a cookie.
std::string token_of(const HttpRequest& request) {
  const std::string given = Query(request.query).text("token");
  if (!given.empty()) return given;
  for (const std::string& part : split(request.cookie, ';')) {
    const std::string_view cookie = trim(part);
    if (cookie.starts_with(kCookie)) return std::string(cookie.substr(kCookie.size()));
  }
  return "";
}

HttpAnswer page_answer(const std::string& path) {
  const std::string name = path == "/" ? "index.html" : path.substr(1);
  if (page_files().empty()) {
    return plain(503,
                 "This muster-board was built without its page, because npm was not there.\n"
                 "Install npm, run ./dev board-page and build muster-board again.\n"
                 "The JSON interface answers: see /api/state.");
  }
  for (const PageFile& file : page_files()) {
    if (file.name == name) return {200, std::string(file.content), std::string(file.type), {}};
  }
  return plain(404, "there is no such path");
}

}  // namespace

BoardServer::BoardServer(BoardApi& api, BoardAccess access)
    : api_(api), access_(std::move(access)) {}

bool BoardServer::is_known_host(const std::string& host) const {
  // A Host without a port is that of port 80.
  const bool has_port = host.rfind(':') != std::string::npos && !host.ends_with(']');
  const std::string name = to_lower(cluster::host_of(has_port ? host : host + ":80"));
  if (cluster::is_loopback(name) || name == to_lower(access_.host)) return true;
  // At all addresses, the name by which a user reaches this machine is not known; the token, which
  // an attacker's page does not have, decides.
  return !access_.token.empty();
}

HttpAnswer BoardServer::answer(const HttpRequest& request) const {
  HttpAnswer answer;
  try {
    answer = route(request);
  } catch (const Error& error) {
    answer = plain(400, error.message());
  }
  answer.headers.emplace_back("Content-Security-Policy", kPolicy);
  answer.headers.emplace_back("X-Content-Type-Options", "nosniff");
  answer.headers.emplace_back("Referrer-Policy", "no-referrer");
  answer.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  answer.headers.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  answer.headers.emplace_back("Cache-Control", "no-store");
  return answer;
}

HttpAnswer BoardServer::route(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    HttpAnswer answer = plain(405, "the board takes GET and HEAD");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }
  if (!is_known_host(request.host)) {
    return plain(403,
                 "the address of the request is not the board's: open the address that "
                 "muster board printed");
  }
  if (!access_.token.empty()) {
    if (!same_secret(token_of(request), access_.token)) {
      return plain(403,
                   "the address has no token, or a wrong one: open the address that muster board "
                   "printed, with its ?token=...");
    }
    if (request.path == "/" && Query(request.query).has("token")) {
      // The address without the token can be shown to others.
      HttpAnswer answer = plain(303, "see /");
      answer.headers.emplace_back("Location", "/");
      answer.headers.emplace_back(
          "Set-Cookie",
          fmt::format("{}{}; Path=/; HttpOnly; SameSite=Strict", kCookie, access_.token));
      return answer;
    }
  }
  if (request.path.starts_with("/api/")) return api_.answer(request.path, request.query);
  return page_answer(request.path);
}

}  // namespace muster::inline v0_1::board
