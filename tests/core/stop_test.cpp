#include "lib/core/terminal/stop.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <string>

#include "lib/core/files/file.h"
#include "tests/core/in_child.h"
#include "tests/core/temporary_folder.h"

using namespace comera;

namespace {

constexpr useconds_t patience = 1'600'000;

// Redirects the stderr of a child to a file.
struct Stderr {
  explicit Stderr(const TemporaryFolder& folder) : path(folder / "stderr") {}
  void take() const { REQUIRE(std::freopen(path.c_str(), "w", stderr) != nullptr); }
  const std::string path;
};

}  // namespace

TEST_CASE("stop: the first signal prints an answer and sets a flag, the second ends the process") {
  const TemporaryFolder folder;
  const Stderr written(folder);
  const int code = in_child([&] {
    written.take();
    catch_stop_signals();
    if (stop_signal() != 0) ::_exit(10);
    check_stop();
    std::raise(SIGTERM);
    if (stop_signal() != SIGTERM) ::_exit(11);
    try {
      check_stop();
      ::_exit(12);
    } catch (const Stopped& stopped) {
      if (stopped.signal != SIGTERM) ::_exit(13);
    }
    std::raise(SIGINT);
  });
  CHECK(code == 128 + SIGINT);
  CHECK(read_file(written.path) == "stopping; again to quit now\n");
}

TEST_CASE("stop: answers nest") {
  const TemporaryFolder folder;
  const Stderr written(folder);
  const int code = in_child([&] {
    written.take();
    catch_stop_signals();
    const StopAnswer step("after this step", false);
    { const StopAnswer evaluation("evaluating", true); }
    std::raise(SIGINT);
    ::usleep(patience);
    end_if_overdue();  // no effect, because something would be lost
  });
  CHECK(code == 0);
  CHECK(read_file(written.path) == "after this step\n");
}

TEST_CASE("stop: work that does not poll ends after the deadline and removes its temporaries") {
  const TemporaryFolder folder;
  const int code = in_child([&] {
    const Stderr written(folder);
    written.take();
    catch_stop_signals();
    const AtomicFolder unfinished(folder / "made");
    write_file_atomic(unfinished.temporary() + "/file", "text");
    AtomicFile file(folder / "other");
    file.writer().write("text");
    AtomicFile finished(folder / "finished");
    finished.commit();
    std::raise(SIGINT);
    end_if_overdue();
    ::usleep(patience);
    end_if_overdue();
  });
  CHECK(code == 128 + SIGINT);
  std::string left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left += entry.path().filename().string() + " ";
  CHECK((left == "stderr finished " || left == "finished stderr "));
}

TEST_CASE("stop: SIGHUP acts like SIGTERM, also twice, unless it is ignored, and SIGXFSZ sets the flag") {
  const int code = in_child([] {
    std::signal(SIGHUP, SIG_IGN);  // as nohup does
    catch_stop_signals();
    catch_size_limit();
    std::raise(SIGHUP);
    if (stop_signal() != 0) ::_exit(11);
    std::signal(SIGHUP, SIG_DFL);
    catch_stop_signals();
    std::raise(SIGHUP);
    std::raise(SIGHUP);
    if (stop_signal() != SIGHUP) ::_exit(12);
    std::raise(SIGXFSZ);
    std::raise(SIGXFSZ);
  });
  CHECK(code == 0);
}
