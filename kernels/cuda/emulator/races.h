// ThreadSanitizer annotations for the emulator's threads. Each fiber is a thread of its own, and only barriers order
// their accesses. Exchanges between the lanes of a warp order nothing, as on a GPU. Without COMERA_RACES all functions
// are empty.
#pragma once

#ifdef COMERA_RACES
extern "C" {
void* __tsan_create_fiber(unsigned flags);
void* __tsan_get_current_fiber();
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* token);
void __tsan_release(void* token);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace comera::kernels::cuda::emulator::races {

#ifdef COMERA_RACES
constexpr unsigned without_order = 1;  // a fiber switch does not imply an order of accesses
inline void* new_thread() { return __tsan_create_fiber(without_order); }
inline void* this_thread() { return __tsan_get_current_fiber(); }
inline void switch_to(void* thread) { __tsan_switch_to_fiber(thread, without_order); }
// Memory written before a release is visible after an acquire of the same token.
inline void release(char& token) { __tsan_release(&token); }
inline void acquire(char& token) { __tsan_acquire(&token); }
// During its lifetime the emulator's own accesses are not checked.
struct Unseen {
  Unseen() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__), AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~Unseen() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__), AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};
#else
inline void* new_thread() { return nullptr; }
inline void* this_thread() { return nullptr; }
inline void switch_to(void*) {}
inline void release(char&) {}
inline void acquire(char&) {}
struct Unseen {
  Unseen() {}
};
#endif

}  // namespace comera::kernels::cuda::emulator::races
