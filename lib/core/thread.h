// Starts threads. A start may fail, because the system limits the threads of a process and of a user.
#pragma once

#include <functional>
#include <thread>

namespace comera {

// RunError if the system starts no further thread.
std::jthread start_thread(std::function<void()> body);

}  // namespace comera
