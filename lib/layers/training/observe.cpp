#include "lib/layers/training/observe.h"

namespace comera::layers {
namespace {

thread_local InputObserver* current = nullptr;

}  // namespace

ObserveInputs::ObserveInputs(InputObserver& observer) : before_(current) { current = &observer; }
ObserveInputs::~ObserveInputs() { current = before_; }

InputObserver* input_observer() { return current; }

}  // namespace comera::layers
