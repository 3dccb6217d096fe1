#include "muster/net/message_socket.h"

#include <gtest/gtest.h>
