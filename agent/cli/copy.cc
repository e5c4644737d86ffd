// SPDX-License-Identifier: Apache-2.0
// cp: files to and from a container, through the tar that it has.
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "agent/cli/commands.h"
#include "agent/cli/conversation.h"
#include "agent/cli/copy_spec.h"
#include "agent/cli/default_container.h"
#include "agent/cli/objects.h"
#include "agent/cli/table.h"
#include "agent/cli/tar_extract.h"
#include "agent/cli/tar_writer.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

using ExecStream = grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecResponse>;

constexpr size_t kMostPadding = 1 << 20;

struct CopyOptions {
  std::string from;
  std::string to;
  std::string container;
  int retries = 0;  // negative: without end
  bool no_preserve = false;
};

// How a program in the container came out, and what that is for ours.
struct ProgramEnd {
  grpc::Status status;
  std::optional<v1::ExecResponse::Exit> exit;

  int Code() const {
    if (!status.ok()) return ReportChange(status);
    if (!exit) return Report(Internal("the session ended without an exit code"));
    if (exit->code() != 0) {
      std::fprintf(stderr, "command terminated with exit code %d\n", exit->code());
    }
    return exit->code();
  }
};

// One program in the container that is copied from or to.
class RemoteProgram {
 public:
  RemoteProgram(Session& session, const core::Pod& pod, const std::string& container,
                const std::vector<std::string>& argv, bool takes_input)
      : stream_(session.stub().Exec(&context_)) {
    v1::ExecRequest first;
    v1::ExecRequest::Start& start = *first.mutable_start();
    start.set_namespace_(pod.metadata().namespace_());
    start.set_pod(pod.metadata().name());
    start.set_container(container);
    start.mutable_argv()->Assign(argv.begin(), argv.end());
    start.set_stdin(takes_input);
    (void)stream_->Write(first);  // a failure shows in Finish()
  }
  // Of one that was given up.
  ~RemoteProgram() {
    if (!finished_) GiveUp(context_, *stream_);
  }
  RemoteProgram(const RemoteProgram&) = delete;
  RemoteProgram& operator=(const RemoteProgram&) = delete;

  // The next piece of output, good until the next call; nothing: there is no more. Errors are printed.
  std::optional<std::string_view> ReadOutput(bool quiet = false) {
    while (stream_->Read(&response_)) {
      if (response_.has_exit()) exit_ = response_.exit();
      if (response_.has_stderr() && !quiet) PrintError(response_.stderr());
      if (response_.has_stdout() && !response_.stdout().empty()) return response_.stdout();
    }
    return std::nullopt;
  }

  bool WriteInput(std::string_view bytes) {
    v1::ExecRequest request;
    request.set_stdin(bytes.data(), bytes.size());
    return stream_->Write(request);
  }
  void CloseInput() {
    v1::ExecRequest request;
    request.set_stdin_closed(true);
    (void)stream_->Write(request);  // a program that has ended is seen by who reads
  }
  void Cancel() { context_.TryCancel(); }

  // After the output.
  ProgramEnd Finish() {
    finished_ = true;
    return {stream_->Finish(), exit_};
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<ExecStream> stream_;
  v1::ExecResponse response_;
  std::optional<v1::ExecResponse::Exit> exit_;
  bool finished_ = false;
};

// One container, and how programs are run in it.
struct CopyPlace {
  Session& session;
  core::Pod pod;
  std::string container;

  RemoteProgram Run(const std::vector<std::string>& argv, bool takes_input = false) const {
    return {session, pod, container, argv, takes_input};
  }
};

std::string Quoted(const std::string& path) {
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// What tar writes in the container; where its connection is lost, on from there.
class TarOutput {
 public:
  TarOutput(const CopyPlace& place, std::string path, int retries)
      : place_(place), path_(std::move(path)), retries_(retries) {
    Begin();
  }

  Result<std::string_view> Read() {
    for (;;) {
      if (const auto piece = program_->ReadOutput()) {
        read_ += piece->size();
        return *piece;
      }
      end_ = program_->Finish();
      if (end_->status.ok() || !MayResume()) return std::string_view();
      std::fprintf(stderr, "Resuming copy at %zu bytes, retry %d/%d\n", read_, tried_, retries_);
      Begin();
    }
  }

  // After the last piece; nothing: it was given up before.
  const std::optional<ProgramEnd>& end() const { return end_; }

 private:
  void Begin() {
    end_.reset();  // of the program before this one
    std::vector<std::string> argv = {"tar", "cf", "-", path_};
    if (retries_ != 0) {
      argv = {"sh", "-c", StrCat("tar cf - ", Quoted(path_), " | tail -c+", read_ + 1)};
    }
    program_.emplace(place_.session, place_.pod, place_.container, argv, false);
  }

  bool MayResume() {
    if (retries_ >= 0 && tried_ >= retries_) return false;
    ++tried_;
    (void)place_.session.IsBack(end_->status);  // waits for one that is being restarted
    return true;
  }

  const CopyPlace& place_;
  const std::string path_;
  const int retries_;
  int tried_ = 0;
  size_t read_ = 0;
  std::optional<RemoteProgram> program_;
  std::optional<ProgramEnd> end_;
};

int CopyFrom(const CopyPlace& place, const std::string& source, const std::string& destination,
             int retries) {
  TarOutput tar(place, source, retries);
  const auto extracted = ExtractTar([&tar] { return tar.Read(); },
                                    {.prefix = TarPrefix(source),
                                     .destination = destination,
                                     .warn = [](const std::string& line) {
                                       std::fprintf(stderr, "%s\n", Visible(line).c_str());
                                     }});
  // Tar's padding and its exit code.
  for (size_t more = 0; extracted && !tar.end();) {
    more += tar.Read().value_or(std::string_view()).size();
    if (more > kMostPadding) {
      return Report(InvalidArgument("tar contents corrupted: more follows its end"));
    }
  }
  // What tar had to say goes before what its output was like.
  if (tar.end() && (!tar.end()->status.ok() || !tar.end()->exit || tar.end()->exit->code() != 0)) {
    return tar.end()->Code();
  }
  return extracted ? kOk : Report(extracted.error());
}

bool IsDirectoryThere(const CopyPlace& place, const std::string& path) {
  RemoteProgram test = place.Run({"test", "-d", path});
  while (test.ReadOutput(true)) {
  }
  const ProgramEnd end = test.Finish();
  return end.status.ok() && end.exit && end.exit->code() == 0;
}

int CopyTo(const CopyPlace& place, const std::string& source, const std::string& destination,
           bool no_preserve) {
  struct stat info{};
  if (::lstat(source.c_str(), &info) != 0) {
    return Report(NotFound(source + " doesn't exist in local filesystem"));
  }
  std::string target = CleanRemotePath(destination);
  if (IsDirectoryThere(place, destination)) {
    const auto local = std::filesystem::absolute(source).lexically_normal();
    const auto name = local.has_filename() ? local.filename() : local.parent_path().filename();
    target = CleanRemotePath(StrCat(target, "/", name.string()));
  }
  const std::filesystem::path path(target);
  std::vector<std::string> argv = {"tar"};
  if (no_preserve) argv.insert(argv.end(), {"--no-same-permissions", "--no-same-owner"});
  argv.insert(argv.end(), {"-xmf", "-"});
  if (path.has_parent_path()) argv.insert(argv.end(), {"-C", path.parent_path().string()});
  RemoteProgram tar = place.Run(argv, true);
  auto reading = sys::StartThread("read", [&tar] {
    while (const auto piece = tar.ReadOutput()) Print(*piece);
  });
  if (!reading) return Report(reading.error());
  const auto written = WriteTarAs(source, path.filename().string(),
                                  [&tar](std::string_view bytes) { return tar.WriteInput(bytes); });
  const bool failed_here = !written && written.error().code() != Code::kUnavailable;
  if (failed_here) {
    tar.Cancel();  // what it has is not whole
  } else {
    tar.CloseInput();
  }
  reading->join();
  const ProgramEnd end = tar.Finish();
  return failed_here ? Report(written.error()) : end.Code();
}

int RunCopy(const CopyOptions& options, const GlobalOptions& global) {
  const auto from = ParseFileSpec(options.from);
  if (!from) return Report(from.error());
  const auto to = ParseFileSpec(options.to);
  if (!to) return Report(to.error());
  if (!from->pod.empty() && !to->pod.empty()) {
    return Report(InvalidArgument("one of src or dest must be a local file specification"));
  }
  if (from->pod.empty() && to->pod.empty()) {
    return Report(InvalidArgument("one of src or dest must be a remote file specification"));
  }
  if (from->path.empty() || to->path.empty()) {
    return Report(InvalidArgument("filepath can not be empty"));
  }
  const FileSpec& remote = from->pod.empty() ? *to : *from;
  return WithSession(global, [&](Session& session) {
    const std::string name =
        remote.name_space.empty() ? remote.pod : StrCat(remote.name_space, "/", remote.pod);
    auto pod = FindPod(session, name);
    if (!pod) return kFailed;
    CopyPlace place{session, std::move(*pod), options.container};
    if (place.container.empty()) place.container = DefaultContainer(place.pod, false);
    return from->pod.empty() ? CopyTo(place, from->path, to->path, options.no_preserve)
                             : CopyFrom(place, from->path, to->path, options.retries);
  });
}

}  // namespace

void AddCopy(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<CopyOptions>();
  CLI::App* command = app.add_subcommand("cp", "Copy files to and from a container");
  command->fallthrough();
  command->footer(
      "\ncp SOURCE DESTINATION, one of them in a container: [NAMESPACE/]POD:PATH\n"
      "Needs tar in the container. Links are not copied out of it, and nothing leaves "
      "DESTINATION.");
  command->add_option("source", options->from, "From: PATH or [NAMESPACE/]POD:PATH")->required();
  command->add_option("destination", options->to, "To: PATH or [NAMESPACE/]POD:PATH")->required();
  command->add_option("-c,--container", options->container, "Container of the pod");
  command->add_flag("--no-preserve", options->no_preserve,
                    "Into a container: owner and permissions are not kept");
  command->add_option("--retries", options->retries,
                      "From a container: go on so often after a lost connection; negative: always "
                      "(default: 0)");
  command->callback([options, &invocation] {
    invocation.action = [options, &invocation] { return RunCopy(*options, invocation.global); };
  });
}

}  // namespace holdfast::agent::cli
