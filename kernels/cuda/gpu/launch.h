// Settings of the launches of kernels on a GPU (common/device.h: launch_kernel).
#pragma once

namespace comera::kernels::cuda {

void overlap_launches(bool wanted);  // Device::overlap_launches
void order_next_launch();            // the next launch waits for the whole queue, as without overlap

}  // namespace comera::kernels::cuda
