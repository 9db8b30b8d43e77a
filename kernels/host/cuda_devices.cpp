#include "kernels/host/cuda_devices.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "kernels/backend.h"

namespace comera::kernels {
namespace {

// The required functions of the CUDA driver, by their exported names.
struct Driver {
  int (*init)(unsigned) = nullptr;
  int (*count)(int*) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*name)(char*, int, int) = nullptr;
  int (*memory)(std::size_t*, int) = nullptr;
  int (*attribute)(int*, int, int) = nullptr;
};

constexpr int capability_major = 75, capability_minor = 76, success = 0, no_device = 100;  // from cuda.h

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load(Driver& driver) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library && find(library, "cuInit", driver.init) && find(library, "cuDeviceGetCount", driver.count) &&
         find(library, "cuDeviceGet", driver.get) && find(library, "cuDeviceGetName", driver.name) &&
         find(library, "cuDeviceTotalMem_v2", driver.memory) && find(library, "cuDeviceGetAttribute", driver.attribute);
}

// Looks in the program's folder and in ../lib. Returns an empty path if the library is not found.
std::filesystem::path backend_path() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const auto& path : {folder / "libcomera_cuda.so", folder.parent_path() / "lib" / "libcomera_cuda.so"})
    if (std::filesystem::exists(path, error)) return path;
  return {};
}

// The library's entry point. Returns null if the size of its table differs from the program's.
using Entry = const Backend* (*)(std::size_t table_bytes);
constexpr const char* entry_name = "comera_cuda_backend";

const Backend* load_backend(std::string* error) {
  const std::filesystem::path path = backend_path();
  if (path.empty()) {
    *error = sentence_of(CudaState::not_built);
    return nullptr;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *error =
        std::string(dlerror()) +
        "; install the CUDA 13 runtime libraries (pip install nvidia-cublas, or NVIDIA's cuda-libraries-13-0) and name "
        "their folder in LD_LIBRARY_PATH, or use --device cpu";
    return nullptr;
  }
  Entry entry = nullptr;
  const Backend* backend = find(library, entry_name, entry) ? entry(sizeof(Backend)) : nullptr;
  if (!backend)
    *error = path.string() + " is of another build than this program; build both from one commit (make cuda)";
  return backend;
}

bool describe(const Driver& driver, int index, CudaDevice& device) {
  int handle = 0;
  char name[256] = {};
  std::size_t bytes = 0;
  if (driver.get(&handle, index) != success || driver.name(name, sizeof name, handle) != success ||
      driver.memory(&bytes, handle) != success)
    return false;
  driver.attribute(&device.major, capability_major, handle);
  driver.attribute(&device.minor, capability_minor, handle);
  device.name = name;
  device.bytes = bytes;
  return true;
}

}  // namespace

CudaState cuda_devices(std::vector<CudaDevice>& devices) {
  if (backend_path().empty()) return CudaState::not_built;
  Driver driver;
  if (!load(driver)) return CudaState::no_driver;
  const int started = driver.init(0);
  if (started == no_device) return CudaState::no_device;
  int count = 0;
  if (started != success || driver.count(&count) != success) return CudaState::no_driver;
  for (int i = 0; i < count; ++i) {
    CudaDevice device;
    if (describe(driver, i, device)) devices.push_back(device);
  }
  return devices.empty() ? CudaState::no_device : CudaState::ready;
}

const Backend* cuda_backend(std::string* error) {
  static std::string problem;
  static const Backend* backend = load_backend(&problem);
  *error = problem;
  return backend;
}

const char* sentence_of(CudaState state) {
  switch (state) {
    case CudaState::ready: return "ready";
    case CudaState::not_built:
      return "built without CUDA: libcomera_cuda.so is neither beside the program nor in ../lib; build it with make "
             "cuda, or use --device cpu";
    case CudaState::no_driver:
      return "no driver: libcuda.so.1 is missing or does not start; install the NVIDIA driver, or use --device cpu";
    case CudaState::no_device:
      return "no device: the driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu";
  }
  return "";
}

}  // namespace comera::kernels
