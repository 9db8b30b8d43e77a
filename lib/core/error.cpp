#include "lib/core/error.h"

namespace comera {

void fail_check(const char* condition, const char* file, int line) {
  throw std::logic_error(
      fmt::format("[bug] {}:{}: expected {}; please report this with the command that you ran", file, line, condition));
}

}  // namespace comera
