#include "lib/core/files/temporary.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/core/error.h"
#include "lib/core/files/file.h"
#include "lib/core/files/folder_lock.h"
#include "tests/core/in_child.h"
#include "tests/core/temporary_folder.h"

using namespace comera;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

namespace {

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

// Runs a process that is killed while it has a non-empty unfinished file or folder. Returns the name of the leftover.
std::string leftover(const std::string& folder, const std::string& target, EntryKind kind) {
  const auto unfinished = [&] {
    Names names;
    for (const std::string& name : list_folder(folder))
      if (is_temporary(name)) names.push_back(name);
    return names;
  };
  const Names before = unfinished();
  CHECK(in_child([&] {
          const Temporary made(Folder(folder), target, kind);
          if (kind == EntryKind::folder) write(made.path() + "/inside", "x");
          ::_exit(9);
        }) == 9);
  Names after = unfinished();
  std::erase_if(after,
                [&](const std::string& name) { return std::find(before.begin(), before.end(), name) != before.end(); });
  REQUIRE(after.size() == 1);
  return after.front();
}

}  // namespace

TEST_CASE("folder: a link in it is never followed") {
  const TemporaryFolder place;
  make_folders(place / "in/kept");
  make_folders(place / "elsewhere");
  write(place / "elsewhere/a", "theirs");
  std::filesystem::create_directory_symlink(place / "elsewhere", place / "in/link");
  std::filesystem::create_symlink(place / "elsewhere/a", place / "in/file");
  const Folder in(place / "in");
  CHECK(in.kind("link") == EntryKind::link);
  CHECK(in.kind("kept") == EntryKind::folder);
  CHECK(in.kind("none") == EntryKind::none);
  CHECK_THROWS_WITH(in.folder("link"), Contains("in/link: is a link"));
  CHECK_THROWS_WITH(in.make_folder("link"), Contains("in/link: is a link"));
  CHECK_FALSE(in.open("file", O_RDONLY));
  CHECK_THROWS_AS(AppendFile(in, "file", 0), InputError);
  write_file_atomic(in, "file", "ours");
  CHECK(read_file(place / "in/file") == "ours");
  in.remove("link");
  CHECK(in.names() == Names{"file", "kept"});
  CHECK(read_file(place / "elsewhere/a") == "theirs");
}

TEST_CASE("folder: a log with a second hard link is not cut") {
  const TemporaryFolder place;
  write(place / "a", "theirs");
  std::filesystem::create_hard_link(place / "a", place / "b");
  CHECK_THROWS_WITH(AppendFile(Folder(place.path()), "b", 0), Contains("hard links"));
  CHECK(read_file(place / "a") == "theirs");
}

TEST_CASE("temporary: what killed processes left goes, and nothing else") {
  const TemporaryFolder place;
  const std::string file = leftover(place.path(), "target", EntryKind::file),
                    folder = leftover(place.path(), "target", EntryKind::folder);
  const std::string other = leftover(place.path(), "other", EntryKind::folder);
  // Names similar to those of temporaries, including one with a wrong CHECK.
  std::string forged = file;
  forged[forged.size() - 8] = forged[forged.size() - 8] == '0' ? '1' : '0';
  const Names theirs{"target.tmp",
                     "target.partial",
                     "target.old",
                     ".target.comera",
                     ".target.0123456789abcdef-0123456789abcdef.comera",
                     forged};
  for (const std::string& name : theirs) {
    make_folders(place / name);
    write(place / (name + "/thing"), "theirs");
  }
  write_file_atomic(place / "target", "done");
  CHECK_FALSE(path_exists(place / file));
  CHECK_FALSE(path_exists(place / folder));
  CHECK(path_exists(place / other));
  for (const std::string& name : theirs) CHECK(read_file(place / (name + "/thing")) == "theirs");
  remove_leftovers(Folder(place.path()));
  CHECK_FALSE(path_exists(place / other));
  for (const std::string& name : theirs) CHECK(read_file(place / (name + "/thing")) == "theirs");
}

TEST_CASE("temporary: files of a living process are kept") {
  const TemporaryFolder place;
  const Temporary file(Folder(place.path()), "target", EntryKind::file),
      folder(Folder(place.path()), "target", EntryKind::folder);
  CHECK(in_child([&] { write_file_atomic(place / "target", "done"); }) == 0);
  CHECK(path_exists(file.path()));
  CHECK(path_exists(folder.path()));
  CHECK(list_folder(place.path()).size() == 3);
}

TEST_CASE("temporary: a link in a leftover is not followed") {
  const TemporaryFolder place;
  make_folders(place / "theirs");
  write(place / "theirs/a", "x");
  const std::string left = leftover(place.path(), "target", EntryKind::folder);
  std::filesystem::create_directory_symlink(place / "theirs", place / (left + "/link"));
  AtomicFolder(place / "target").commit();
  CHECK(list_folder(place.path()) == Names{"target", "theirs"});
  CHECK(path_exists(place / "theirs/a"));
}

TEST_CASE("temporary: long names, and targets that cannot be replaced") {
  const TemporaryFolder place;
  const std::string name(255, 'n');
  write_file_atomic(place / name, "one");
  write_file_atomic(place / name, "two");
  CHECK(read_file(place / name) == "two");
  make_folders(place / "folder/full");
  CHECK_THROWS_AS(write_file_atomic(place / "folder", "x"), InputError);
  REQUIRE(::mkfifo((place / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(write_file_atomic(place / "pipe", "x"), Contains("device or a pipe"));
  CHECK_THROWS_WITH(AtomicFolder(place / "folder").commit_new(), Contains("made by somebody else meanwhile"));
  CHECK(path_exists(place / "folder/full"));
  make_folders(place / "empty");
  AtomicFolder taken(place / "empty");
  write(taken.temporary() + "/a", "x");
  taken.commit_new();
  CHECK(path_exists(place / "empty/a"));
  CHECK(list_folder(place.path()) == Names{"empty", "folder", name, "pipe"});
}

TEST_CASE("folder lock: one process at a time, and the other is named") {
  const TemporaryFolder place;
  const Folder folder(place.path());
  {
    const FolderLock lock(folder);
    std::string said;
    try {
      const FolderLock second(folder);
    } catch (const InputError& error) {
      said = error.what();
    }
    CHECK_THAT(said, Contains(place.path()) && Contains(fmt::format("process {} on ", ::getpid())));
    CHECK_THROWS_AS(refuse_locked(folder), InputError);
    CHECK(in_child([&] { const FolderLock second(folder); }) == 2);
    make_folders(place / "with");
  }
  CHECK(list_folder(place.path()) == Names{"with"});
  // Only a killed process leaves its lock file.
  CHECK(in_child([&] {
          const FolderLock lock(folder);
          ::_exit(9);
        }) == 9);
  CHECK(path_exists(place / FolderLock::file_name));
  refuse_locked(folder);
  CHECK_NOTHROW(FolderLock(folder));
  CHECK_FALSE(path_exists(place / FolderLock::file_name));
}

TEST_CASE("folder lock: many competing processes hold it one at a time") {
  const TemporaryFolder place;
  write(place / "count", "");
  constexpr int processes = 4, rounds = 200;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    for (int done = 0; done < rounds;) {
      try {
        const FolderLock lock(Folder(place.path()));
        const std::string before = read_file(place / "count");
        write(place / "count", before + ".");  // updates are lost if two processes hold the lock at once
        ++done;
      } catch (const std::runtime_error&) {
      }
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(read_file(place / "count").size() == processes * rounds);
}

TEST_CASE("folder lock: only its holder writes files into the folder and below it") {
  const TemporaryFolder place;
  make_folders(place / "run/below");
  {
    const FolderLock lock(Folder(place / "run"));
    for (const char* name : {"run/a", "run/below/b"}) write_file_atomic(place / name, "x");
    refuse_locked_above(place / "run/new/deeper");
  }
  // A lock that no FolderLock of this process holds, as that of another process.
  write(place / "run/.comera.lock", "comera lock: process 1 on host since then\n");
  const Descriptor theirs(::open((place / "run/.comera.lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(theirs.value(), LOCK_EX | LOCK_NB) == 0);
  for (const char* name : {"run/a", "run/c", "run/below/b"})
    CHECK_THROWS_WITH(write_file_atomic(place / name, "theirs"),
                      Contains("run: process 1 on host since then writes to this folder"));
  CHECK_THROWS_AS(AtomicFolder(place / "run/below/made"), InputError);
  CHECK_THROWS_AS(refuse_locked_above(place / "run/new/deeper"), InputError);
  CHECK(read_file(place / "run/a") == "x");
  CHECK(list_folder(place / "run") == Names{".comera.lock", "a", "below"});
  write_file_atomic(place / "beside", "x");
  ::flock(theirs.value(), LOCK_UN);
  write_file_atomic(place / "run/a", "y");
}

TEST_CASE("folder lock: a foreign file or link with the lock's name is refused") {
  const TemporaryFolder place;
  const Folder folder(place.path());
  write(place / "theirs", "text");
  std::filesystem::create_symlink(place / "theirs", place / FolderLock::file_name);
  CHECK_THROWS_WITH(FolderLock(folder), Contains("is a link"));
  folder.remove(FolderLock::file_name);
  std::filesystem::create_hard_link(place / "theirs", place / FolderLock::file_name);
  CHECK_THROWS_WITH(FolderLock(folder), Contains("no lock file of this program"));
  folder.remove(FolderLock::file_name);
  write(place / FolderLock::file_name, "text");
  CHECK_THROWS_WITH(FolderLock(folder), Contains("no lock file of this program"));
  folder.remove(FolderLock::file_name);
  REQUIRE(::mkfifo((place / FolderLock::file_name).c_str(), 0600) == 0);
  CHECK_THROWS_WITH(FolderLock(folder), Contains("no lock file of this program"));
  CHECK(read_file(place / "theirs") == "text");
}

TEST_CASE("work place: continued with its mark, refused without it, and removed atomically") {
  const TemporaryFolder place;
  {
    const WorkPlace work(place / "out.partial", {"layer"});
    write(work.path() + "/layer", "x");
    CHECK_THROWS_WITH(WorkPlace(place / "out.partial", {"layer"}), Contains("process"));
  }
  {
    WorkPlace work(place / "out.partial", {"layer"});
    CHECK(path_exists(work.path() + "/layer"));
    work.clear();
    CHECK_FALSE(path_exists(work.path() + "/layer"));
    work.remove();
  }
  CHECK(list_folder(place.path()).empty());
  make_folders(place / "elsewhere");
  std::filesystem::create_directory_symlink(place / "elsewhere", place / "link.partial");
  CHECK_THROWS_WITH(WorkPlace(place / "link.partial", {"layer"}), Contains("is a link"));
  for (const char* name : {"full.partial", "empty.partial"}) make_folders(place / name);
  write(place / "full.partial/thing", "theirs");
  CHECK_THROWS_WITH(WorkPlace(place / "full.partial", {"layer"}), Contains("none of this program's"));
  CHECK_THROWS_WITH(WorkPlace(place / "empty.partial", {"layer"}), Contains("none of this program's"));
  CHECK(list_folder(place / "full.partial") == Names{"thing"});
  CHECK(path_exists(place / "empty.partial"));
}

TEST_CASE("work place: files of others in it are refused by name, and are never removed") {
  const TemporaryFolder place;
  const std::vector<std::string> own{"layer-[0-9]", "dense/", "dense/*.weights"};
  const std::string path = place / "out.partial";
  {
    const WorkPlace work(path, own);
    make_folders(path + "/dense");
    for (const char* name : {"/layer-1", "/dense/a.weights"}) write(path + name, "x");
  }
  const auto refused = [&](const std::string& name) {
    write(path + "/" + name, "theirs");
    CHECK_THROWS_WITH(WorkPlace(path, own), Contains("out.partial/" + name + ": is no file of the unfinished work"));
    CHECK(read_file(path + "/" + name) == "theirs");
    std::filesystem::remove(path + "/" + name);
  };
  for (const char* name : {"mine", "layer-1.bak", "dense/mine"}) refused(name);
  make_folders(path + "/layer-2");  // a folder with the name of a file
  CHECK_THROWS_WITH(WorkPlace(path, own), Contains("layer-2"));
  std::filesystem::remove(path + "/layer-2");
  // A file that comes while the work goes on stays; the work itself is removed.
  WorkPlace work(path, own);
  for (const char* name : {"/dense/mine", "/mine"}) write(path + name, "theirs");
  CHECK_THROWS_WITH(work.clear(), Contains("dense/mine"));
  work.remove();
  CHECK(read_file(path + "/dense/mine") == "theirs");
  CHECK(read_file(path + "/mine") == "theirs");
  CHECK_FALSE(path_exists(path + "/layer-1"));
  CHECK_FALSE(path_exists(path + "/dense/a.weights"));
}

TEST_CASE("work place: killed before any single change it is taken up or made again") {
  const TemporaryFolder place;
  int kills = 0;
  for (int status = 137; status == 137; ++kills) {
    REQUIRE(kills < 100);
    status = in_child([&] {
      ::setenv("COMERA_FAULT_AT", std::to_string(file_changes() + static_cast<unsigned>(kills) + 1).c_str(), 1);
      WorkPlace work(place / "out.partial", {"layer"});
      write_file_atomic(work.path() + "/layer", "x");
      work.remove();
    });
    CHECK(in_child([&] { const WorkPlace work(place / "out.partial", {"layer"}); }) == 0);
  }
  CHECK(kills > 12);
  CHECK(in_child([&] { WorkPlace(place / "out.partial", {"layer"}).remove(); }) == 0);
  CHECK(in_child([&] { remove_leftovers(Folder(place.path())); }) == 0);
  CHECK(list_folder(place.path()).empty());
}
