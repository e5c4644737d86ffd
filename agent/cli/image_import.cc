// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/image_import.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "agent/cli/image_import_containerd.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cli {
namespace {

constexpr size_t kChunk = 256 * 1024;

// One argument that is a JSON list or words, as Dockerfiles have it: --cmd '["a","b"]', or --cmd a
// --cmd b. Only a list that was quoted as a whole is taken apart.
Result<std::vector<std::string>> Words(const std::vector<std::string>& given) {
  if (given.size() != 1 || !given.front().starts_with("[")) return given;
  std::vector<std::string> words;
  std::string_view rest(given.front());
  rest.remove_prefix(1);
  while (true) {
    const size_t begin = rest.find_first_not_of(" ,");
    if (begin == std::string_view::npos) return InvalidArgument("unclosed list " + given.front());
    rest.remove_prefix(begin);
    if (rest == "]") return words;
    if (rest.front() != '"') return InvalidArgument("not a list of strings: " + given.front());
    std::string word;
    size_t at = 1;
    while (at < rest.size() && rest[at] != '"') {
      if (rest[at] == '\\' && at + 1 < rest.size()) ++at;
      word.push_back(rest[at++]);
    }
    if (at >= rest.size()) return InvalidArgument("unclosed string in " + given.front());
    rest.remove_prefix(at + 1);
    words.push_back(std::move(word));
  }
}

Result<v1::ImportImageRequest::Options> ImportOptionsMessage(const ImportFlags& flags) {
  v1::ImportImageRequest::Options options;
  options.set_reference(flags.name);
  const bool has_config = flags.root_tar || !flags.entrypoint.empty() || !flags.cmd.empty() ||
                          !flags.env.empty() || !flags.user.empty() || !flags.workdir.empty();
  if (!has_config) return options;
  ASSIGN_OR_RETURN(const auto entrypoint, Words(flags.entrypoint));
  ASSIGN_OR_RETURN(const auto cmd, Words(flags.cmd));
  v1::ImageConfig& config = *options.mutable_config();
  config.mutable_entrypoint()->Assign(entrypoint.begin(), entrypoint.end());
  config.mutable_cmd()->Assign(cmd.begin(), cmd.end());
  config.mutable_env()->Assign(flags.env.begin(), flags.env.end());
  config.set_user(flags.user);
  config.set_working_dir(flags.workdir);
  return options;
}

// Regular files and "-" only: a device or a FIFO has no end that could be told from a mistake.
Result<UniqueFd> OpenSource(const std::string& source) {
  UniqueFd file(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return Error::FromErrno(errno, "open " + source);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + source);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument(source + ": no regular file; what a program writes comes by \"-\"");
  }
  if (info.st_size == 0) return InvalidArgument(source + ": the file is empty");
  return file;
}

Result<void> SendFile(const std::string& source, const ByteSink& sink) {
  UniqueFd opened;
  int fd = STDIN_FILENO;
  if (source != "-") {
    ASSIGN_OR_RETURN(opened, OpenSource(source));
    fd = opened.get();
  }
  std::string buffer(kChunk, '\0');
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "read " + source);
    if (count == 0) return {};
    if (!sink({buffer.data(), static_cast<size_t>(count)})) return Unavailable("sending stopped");
  }
}

bool IsDirectory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

int ImportArchive(Session& session, const ImportFlags& flags) {
  const auto options = ImportOptionsMessage(flags);
  if (!options) return Report(options.error());
  const std::string& source = flags.sources.front();
  const auto status = SendArchive(session, *options, [&](const ByteSink& sink) {
    return IsDirectory(source) ? WriteTar(source, sink) : SendFile(source, sink);
  });
  if (!status) return Report(status.error());
  return status->ok() ? kOk : ReportChange(*status);
}

void TellImported(const v1::ImportImageResponse& response) {
  for (const v1::Image& image : response.images()) {
    const std::string size = HumanBytes(image.size_bytes());
    for (const std::string& name : image.repo_tags()) {
      Print(StrCat("image/", name, " imported (", size, ")\n"));
    }
    if (image.repo_tags().empty()) Print(StrCat("image/", image.id(), " imported (", size, ")\n"));
  }
}

}  // namespace

Result<grpc::Status> SendArchive(Session& session, const v1::ImportImageRequest::Options& options,
                                 const std::function<Result<void>(const ByteSink&)>& write) {
  grpc::ClientContext context;
  v1::ImportImageResponse response;
  const auto writer = session.stub().ImportImage(&context, &response);
  v1::ImportImageRequest request;
  *request.mutable_options() = options;
  (void)writer->Write(request);  // a failure shows in Finish()
  const auto sent = write([&](std::string_view bytes) {
    request.set_data(bytes.data(), bytes.size());
    return writer->Write(request);
  });
  if (sent) {
    request.set_end(true);
    (void)writer->Write(request);
  } else if (sent.error().code() != Code::kUnavailable) {
    GiveUp(context, *writer);
    return sent.error();
  }
  (void)writer->WritesDone();
  grpc::Status status = writer->Finish();
  if (status.ok()) TellImported(response);
  return status;
}

std::string WrongImport(const ImportFlags& flags) {
  const bool configured = !flags.entrypoint.empty() || !flags.cmd.empty() || !flags.env.empty() ||
                          !flags.user.empty() || !flags.workdir.empty() || flags.root_tar;
  if (!flags.containerd_root.empty()) {
    if (configured || !flags.name.empty()) {
      return "with --containerd images keep their names and configuration";
    }
    return "";
  }
  if (!flags.containerd_namespace.empty()) return "--containerd-namespace: only with --containerd";
  if (flags.sources.empty()) return "source is required";
  return flags.sources.size() == 1 ? "" : "one archive at a time: " + flags.sources[1];
}

int ImportImages(Session& session, const ImportFlags& flags) {
  return flags.containerd_root.empty() ? ImportArchive(session, flags)
                                       : ImportContainerd(session, flags);
}

}  // namespace holdfast::agent::cli
