"""Energy counters of the system: the driver of a GPU (NVML), else the processor packages (Linux powercap, RAPL)."""

import ctypes
import glob


class Nvml:
    def __init__(self, uuid=None):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        if self.library.nvmlInit_v2() or self.find(uuid):
            raise OSError("NVML has no such GPU")

    def find(self, uuid):
        if uuid:
            return self.library.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode(), ctypes.byref(self.device))
        return self.library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(self.device))

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.library.nvmlDeviceGetTotalEnergyConsumption(self.device, ctypes.byref(millijoules)):
            return None
        return 1e-3 * millijoules.value


class Rapl:
    def __init__(self, root="/sys/class/powercap"):
        names = [name for name in glob.glob(f"{root}/*/name") if read(name).startswith("package")]
        self.zones = [name[:-len("name")] for name in names]
        self.joules()

    # Counters wrap around; a wrap within a measurement makes its energy unknown.
    def joules(self):
        return 1e-6 * sum(int(read(f"{zone}energy_uj")) for zone in self.zones) if self.zones else None


def read(path):
    with open(path) as file:
        return file.read().strip()


class Energy:
    """joules() is the energy since the last call, or None if there is no counter."""

    def __init__(self, device, uuid=None):
        try:
            self.counter = Nvml(uuid) if device == "cuda" else Rapl()
        except (OSError, AttributeError, ValueError):
            self.counter = None
        self.last = self.now()

    def now(self):
        try:
            return self.counter.joules() if self.counter else None
        except (OSError, ValueError):
            return None

    def joules(self):
        before, self.last = self.last, self.now()
        if before is None or self.last is None or self.last < before:
            return None
        return self.last - before
