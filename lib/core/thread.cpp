#include "lib/core/thread.h"

#include <system_error>
#include <utility>

#include "lib/core/error.h"

namespace comera {

std::jthread start_thread(std::function<void()> body) try {
  return std::jthread(std::move(body));
} catch (const std::system_error& error) {
  fail_run("[machine] no further thread starts: {}; use fewer --threads, or allow more (ulimit -u)",
           error.code().message());
}

}  // namespace comera
