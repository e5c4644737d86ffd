// SPDX-License-Identifier: Apache-2.0
// bench_logs KEEPER [--json FILE]: lines of 100 bytes per second from the first write of a
// container to the last byte in its log file, through
//   ours    a real keeper: pipe, spool, intent, write, done; rotation at 10 MiB, 5 files
//   conmon  the same producers below conmon, k8s-file driver with the same rotation size; all are
//           started before the clock, as ours is
//   simple loop   one process that reads the pipes, formats the same and writes, with nothing
//   around it:
//           no spool, no records, and instead of rotating it begins the file again at 10 MiB. With
//           one container it so writes the same pages over and over, with 50 to new ones all the
//           time; the page cache is what bounds it then, and ours alike.
// Producers write 64 KiB at a time. Also "bench_logs produce LINES": a producer.
// And "bench_logs create …": what conmon calls as its OCI runtime; starts a producer.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/keeper/client/client.h"
#include "runtime/keeper/log/log_format.h"
#include "tests/bench/measure.h"

namespace holdfast::runtime::keeper {
namespace {

namespace fs = std::filesystem;
using SteadyClock = bench::Clock;
using bench::Figures;
using bench::Of;
using bench::OfRates;
using bench::OrDie;

constexpr size_t kLineBytes = 100;
constexpr long kLines = 4'000'000;  // of all containers together
constexpr int kRounds = 5;
constexpr char kSimple[] = "simple loop";
constexpr uint64_t kRotateBytes = 10u << 20;
constexpr char kLinesVariable[] = "BENCH_LOGS_LINES";
constexpr char kGateVariable[] = "BENCH_LOGS_GATE";

int Produce(long lines) {
  std::string block;
  while (block.size() + kLineBytes <= 64 * 1024) {
    block.append(kLineBytes - 1, 'x');
    block.push_back('\n');
  }
  const auto per_block = static_cast<long>(block.size() / kLineBytes);
  for (long left = lines; left > 0; left -= per_block) {
    const char* data = block.data();
    size_t size = static_cast<size_t>(std::min(left, per_block)) * kLineBytes;
    while (size > 0) {
      const ssize_t n = ::write(STDOUT_FILENO, data, size);
      if (n < 0) return 1;
      data += n;
      size -= static_cast<size_t>(n);
    }
  }
  return 0;
}

// `gate`: a FIFO; it writes once somebody has that open for writing.
pid_t StartProducer(int standard_output, long lines, const char* gate = nullptr) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::dup2(standard_output, STDOUT_FILENO);
  ::close_range(3, ~0u, 0);
  if (gate != nullptr && ::open(gate, O_RDONLY | O_CLOEXEC) < 0) ::_exit(1);
  ::_exit(Produce(lines));
}

// `conmon` calls "<runtime> [global flags] create --pid-file P …": the producer is the container.
int ActAsRuntime(int argc, char** argv) {
  std::string pid_file;
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--pid-file") == 0) pid_file = argv[i + 1];
  }
  const char* lines = std::getenv(kLinesVariable);
  const pid_t pid = StartProducer(STDOUT_FILENO, lines == nullptr ? 0 : std::atol(lines),
                                  std::getenv(kGateVariable));
  std::ofstream(pid_file) << pid;
  return pid > 0 ? 0 : 1;
}

struct Bench {
  std::string keeper;
  std::string self;
  std::string dir;

  std::string Log(const std::string& who, int i) const {
    return StrCat(dir, "/logs/", who, "/", i, "/0.log");
  }
};

pid_t StartKeeper(const Bench& bench) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const std::string run_dir = StrCat("--run-dir=", bench.dir, "/run");
  const std::string visible = StrCat("--visible=", bench.dir);
  ::execl(bench.keeper.c_str(), "holdfast-keeper", "hold", run_dir.c_str(), visible.c_str(),
          nullptr);
  ::_exit(127);
}

// Millions of lines per second.
double Rate(long lines, SteadyClock::time_point begin) {
  const std::chrono::duration<double> took = SteadyClock::now() - begin;
  return static_cast<double>(lines) / took.count() / 1e6;
}

// User and system time of the logger below `keeper`, in clock ticks (10 ms).
long LoggerTicks(pid_t keeper) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "stat");
    std::string text;
    std::getline(in, text);
    const size_t name_end = text.rfind(") ");
    if (name_end == std::string::npos || text.find("(hf-log)") == std::string::npos) continue;
    char state = 0;
    int parent = 0;
    long user = 0;
    long system = 0;
    std::sscanf(text.c_str() + name_end + 2, "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
                &state, &parent, &user, &system);
    if (parent == keeper) return user + system;
  }
  return 0;
}

struct Sample {
  double rate = 0;         // million lines per second
  double nanoseconds = 0;  // processor time per line of who reads and writes
};

Sample MeasureOurs(const Bench& bench, pid_t keeper, int containers) {
  const KeeperClient client(bench.dir + "/run");
  const long each = kLines / containers;
  std::vector<LogPipes> pipes;
  std::vector<ContainerId> ids;
  for (int i = 0; i < containers; ++i) {
    ids.emplace_back(StrCat("c", i));
    const model::LogSpec spec{bench.Log("ours", i), kRotateBytes, 5};
    pipes.push_back(OrDie(client.RegisterLog(ids.back(), spec, 0, 0)));
  }
  const long ticks = LoggerTicks(keeper);
  const auto begin = SteadyClock::now();
  for (const LogPipes& p : pipes) StartProducer(p.stdout_fd.get(), each);
  pipes.clear();
  for (const ContainerId& id : ids) OrDie(client.WaitLogDrained(id, std::chrono::minutes(2)));
  const long lines = each * containers;
  const Sample sample{Rate(lines, begin), static_cast<double>(LoggerTicks(keeper) - ticks) * 1e7 /
                                              static_cast<double>(lines)};
  for (const ContainerId& id : ids) {
    const LogStatus status = OrDie(client.GetLogStatus(id));
    if (status.bytes_in != static_cast<uint64_t>(each) * kLineBytes || status.bytes_dropped != 0) {
      std::fprintf(stderr, "bench_logs: bytes were lost\n");
      std::exit(1);
    }
    OrDie(client.UnregisterLog(id));
  }
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
  return sample;
}

// Starts one and returns where its files are.
std::string StartConmon(const Bench& bench, int container) {
  static int serial = 0;  // conmon wants a directory of its own each time
  const std::string id = StrCat("c", ++serial);
  const std::string bundle = StrCat(bench.dir, "/bundle", serial);
  const std::string log = bench.Log("conmon", container);
  fs::create_directories(bundle);
  fs::create_directories(fs::path(log).parent_path());
  // --full-attach: else it wants CRI-O's folder for its sockets.
  std::vector<std::string> args{"conmon",
                                "--api-version",
                                "1",
                                "-c",
                                id,
                                "-u",
                                id,
                                "-n",
                                id,
                                "-r",
                                bench.self,
                                "-b",
                                bundle,
                                "-p",
                                bundle + "/pid",
                                "-l",
                                "k8s-file:" + log,
                                "--log-size-max",
                                std::to_string(kRotateBytes),
                                "--sync",
                                "--full-attach",
                                "--exit-dir",
                                bundle};
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execvp("conmon", argv.data());
    ::_exit(127);
  }
  return bundle;
}

// Waits for a file in each of the folders; false after `patience`.
bool AwaitFiles(const std::vector<std::string>& files, std::chrono::seconds patience) {
  const auto deadline = SteadyClock::now() + patience;
  for (const std::string& file : files) {
    while (!fs::exists(file)) {
      if (SteadyClock::now() > deadline) {
        std::fprintf(stderr, "bench_logs: conmon did not make %s\n", file.c_str());
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

// As with ours, only the lines are timed: every conmon and its container are there before.
double MeasureConmon(const Bench& bench, int containers) {
  const long each = kLines / containers;
  const std::string gate = bench.dir + "/gate";
  (void)::unlink(gate.c_str());
  if (::mkfifo(gate.c_str(), 0600) != 0) std::abort();
  ::setenv(kLinesVariable, std::to_string(each).c_str(), 1);
  ::setenv(kGateVariable, gate.c_str(), 1);
  std::vector<std::string> started;
  std::vector<std::string> ended;
  for (int i = 0; i < containers; ++i) {
    const std::string bundle = StartConmon(bench, i);
    started.push_back(bundle + "/pid");
    // It appears once everything is in the log.
    ended.push_back(bundle + "/" + fs::path(bundle).filename().string().replace(0, 6, "c"));
  }
  if (!AwaitFiles(started, std::chrono::seconds(30))) return 0;
  const auto begin = SteadyClock::now();
  const UniqueFd open_gate(::open(gate.c_str(), O_WRONLY | O_CLOEXEC));
  if (!AwaitFiles(ended, std::chrono::seconds(60))) return 0;
  const double rate = Rate(each * containers, begin);
  for (const std::string& file : ended) fs::remove(file);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
  return rate;
}

// User and system time of this process.
double ProcessorNanoseconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

// Reads, formats and writes, with nothing around it. It is no limit of what can be done: it reads
// in smaller pieces than ours.
Sample MeasureSimple(const Bench& bench, int containers) {
  const long each = kLines / containers;
  std::vector<pollfd> readers;
  std::vector<int> logs;
  std::vector<char> in(256 * 1024);
  std::vector<char> out(1024 * 1024);
  const SystemClock clock;
  const double processor = ProcessorNanoseconds();
  const auto begin = SteadyClock::now();
  for (int i = 0; i < containers; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    (void)::fcntl(ends[1], F_SETPIPE_SZ, 256 * 1024);
    StartProducer(ends[1], each);
    ::close(ends[1]);
    readers.push_back({ends[0], POLLIN, 0});
    const std::string log = bench.Log("simple", i);
    fs::create_directories(fs::path(log).parent_path());
    logs.push_back(::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640));
  }
  for (size_t open = readers.size(); open > 0;) {
    ::poll(readers.data(), readers.size(), -1);
    for (size_t i = 0; i < readers.size(); ++i) {
      if (readers[i].fd < 0 || readers[i].revents == 0) continue;
      const ssize_t n = ::read(readers[i].fd, in.data(), in.size());
      if (n <= 0) {
        ::close(readers[i].fd);
        ::close(logs[i]);
        readers[i].fd = -1;
        --open;
        continue;
      }
      const Formatted text = FormatEntries({in.data(), static_cast<size_t>(n)}, LogStream::kStdout,
                                           clock.Wall(), true, out);
      // As ours after a rotation: at most 10 MiB of file pages are in use.
      if (::lseek(logs[i], 0, SEEK_CUR) > static_cast<off_t>(kRotateBytes)) {
        (void)!::ftruncate(logs[i], 0);
        ::lseek(logs[i], 0, SEEK_SET);
      }
      (void)!::write(logs[i], out.data(), text.produced);
    }
  }
  const long lines = each * containers;
  const Sample sample{Rate(lines, begin),
                      (ProcessorNanoseconds() - processor) / static_cast<double>(lines)};
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
  return sample;
}

std::string ConmonVersion() {
  FILE* pipe = ::popen("conmon --version 2>/dev/null", "r");
  char line[128] = {};
  if (pipe == nullptr) return "";
  const bool read = std::fgets(line, sizeof line, pipe) != nullptr;
  ::pclose(pipe);
  const char* version = read ? std::strstr(line, "version ") : nullptr;
  std::string text = version == nullptr ? "" : version + 8;
  while (!text.empty() && text.back() <= ' ') text.pop_back();
  return text;
}

std::string Rows(const Bench& bench, pid_t keeper, int containers, const std::string& conmon) {
  std::vector<double> ours;
  std::vector<double> processor;
  std::vector<double> peer;
  std::vector<double> simple;
  std::vector<double> simple_processor;
  // In turns, and each one's files are gone before the next: whoever comes later would pay for the
  // writing back of what the one before has left in the page cache.
  const auto measure_ours = [&] {
    const Sample sample = MeasureOurs(bench, keeper, containers);
    ours.push_back(sample.rate);
    processor.push_back(sample.nanoseconds);
    fs::remove_all(bench.dir + "/logs");
  };
  const auto measure_simple = [&] {
    const Sample sample = MeasureSimple(bench, containers);
    simple.push_back(sample.rate);
    simple_processor.push_back(sample.nanoseconds);
    fs::remove_all(bench.dir + "/logs");
  };
  for (int round = 0; round < kRounds; ++round) {
    if (round % 2 == 0) measure_ours();
    measure_simple();
    if (round % 2 != 0) measure_ours();
    // One failure is enough: the row then goes without the peer.
    if (!conmon.empty() && (peer.empty() || peer.back() > 0)) {
      peer.push_back(MeasureConmon(bench, containers));
      fs::remove_all(bench.dir + "/logs");
    }
  }
  const bool with_conmon = !peer.empty() && peer.back() > 0;
  return StrCat("{\"row\":\"logs.", containers, "\",\"unit\":\"million lines/s\",\"n\":", kRounds,
                ",\"ours\":", Figures(OfRates(ours)), ",\"peers\":{\"", kSimple,
                "\":", Figures(OfRates(simple)),
                with_conmon ? StrCat(",\"conmon ", conmon, "\":", Figures(OfRates(peer))) : "",
                "},\"aim\":\">= 6\"}\n") +
         StrCat("{\"row\":\"logs.cpu.", containers,
                "\",\"unit\":\"ns of the logger per line\",\"n\":", kRounds,
                ",\"ours\":", Figures(Of(processor)), ",\"peers\":{\"", kSimple,
                "\":", Figures(Of(simple_processor)), "}}\n");
}

int Main(const std::string& self, int argc, char** argv) {
  std::string json;
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) json = argv[i + 1];
  }
  std::string pattern = fs::temp_directory_path() / "holdfast-bench-XXXXXX";
  if (argc < 2 || ::mkdtemp(pattern.data()) == nullptr) {
    std::fprintf(stderr, "usage: bench_logs KEEPER [--json FILE]\n");
    return 2;
  }
  const Bench bench{argv[1], self, pattern};
  fs::create_directory(bench.dir + "/run");
  const pid_t keeper = StartKeeper(bench);
  const KeeperClient client(bench.dir + "/run");
  OrDie(client.Ping());
  const std::string conmon = ConmonVersion();
  std::string rows;
  for (const int containers : {1, 50}) rows += Rows(bench, keeper, containers, conmon);
  ::kill(keeper, SIGTERM);
  ::waitpid(keeper, nullptr, 0);
  (void)::umount2((bench.dir + "/run").c_str(), MNT_DETACH);  // the keeper's tmpfs
  fs::remove_all(bench.dir);
  std::fputs(rows.c_str(), stdout);
  if (!json.empty()) std::ofstream(json) << rows;
  return 0;
}

}  // namespace
}  // namespace holdfast::runtime::keeper

int main(int argc, char** argv) {
  using namespace holdfast::runtime::keeper;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  if (argc == 3 && std::strcmp(argv[1], "produce") == 0) return Produce(std::atol(argv[2]));
  if (std::getenv(kLinesVariable) != nullptr) return ActAsRuntime(argc, argv);
  return Main(self, argc, argv);
}
