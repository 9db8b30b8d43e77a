# Headers of other people that most files include: parsing them is a third of the compile time. They are precompiled
# once per combination of flags; the project's own headers are not, so a change of one compiles only its users again.
# Every file still includes what it uses: clang-tidy compiles without this.
set(COMERA_COMMON_HEADERS <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <deque> <functional> <limits> <map>
  <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <system_error> <tuple> <unordered_map>
  <utility> <variant> <vector> <fmt/core.h>)
# From precompiled headers, GCC reports false warnings about library functions that it has inlined.
set(COMERA_PRECOMPILED_WARNINGS
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-stringop-overread>"
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-restrict>")

# precompile(TARGET LIKE [HEADER...]): LIKE names the targets with the same flags. The first of those with the same
# further headers makes them for all.
function(precompile target like)
  target_compile_options(${target} PRIVATE ${COMERA_PRECOMPILED_WARNINGS})
  string(MAKE_C_IDENTIFIER "comera_precompiled_${like}${ARGN}" key)
  get_property(first GLOBAL PROPERTY ${key})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE ${COMERA_COMMON_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY ${key} ${target})
  endif()
endfunction()
