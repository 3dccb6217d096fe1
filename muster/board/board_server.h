// What the board answers to a browser: the page, the API, and who may ask. Thread safety: any
// thread.
//
// A page of another origin must not read the runs of a user. So a request is answered only if its
// Host is this machine's loopback name or number, or the address that the board listens at: a
// name that an attacker points at this machine is refused. Where other machines can connect, a
// token in the address is asked for as well; the first answer hands it on as a cookie.
#pragma once

#include <string>

#include "muster/board/board_api.h"
#include "muster/serve/http.h"

namespace muster::inline v0_1::board {

// Who may ask.
struct BoardAccess {
  std::string host = "127.0.0.1";  // the address that the board listens at
  std::string token{};             // empty: none is asked for
};

class BoardServer {
 public:
  // `api` must outlive the server.
  BoardServer(BoardApi& api, BoardAccess access);

  // Throws nothing.
  serve::HttpAnswer answer(const serve::HttpRequest& request) const;

 private:
  serve::HttpAnswer route(const serve::HttpRequest& request) const;
  bool is_known_host(const std::string& host) const;

  BoardApi& api_;
  const BoardAccess access_;
};

}  // namespace muster::inline v0_1::board
