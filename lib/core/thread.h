// Threads whose start may fail: the system allows a process, and a user, only so many.
#pragma once

#include <functional>
#include <thread>

namespace comera {

// RunError where the system starts no further thread.
std::jthread start_thread(std::function<void()> body);

}  // namespace comera
