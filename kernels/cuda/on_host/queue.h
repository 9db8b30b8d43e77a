// The stream of the double: work is done when it is asked for, or, while a graph is captured, kept for its replays.
#pragma once

#include <functional>

#include "kernels/types.h"

namespace comera::kernels::cuda::on_host {

// The memory that stands for the card's is out of reach (PROT_NONE) but for the time of `work`, as it is for a host
// with a real card.
Status enqueue(const Context& context, std::function<void()> work);

// The first call of a kernel takes memory of the card, even while a graph is captured.
void load(const void* kernel);
void unload_all();  // so that calls are first ones again

}  // namespace comera::kernels::cuda::on_host
