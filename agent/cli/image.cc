// SPDX-License-Identifier: Apache-2.0
// image: pull, push, import, ls, rm, inspect, export, tag, prune, du.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "agent/cli/commands.h"
#include "agent/cli/image_import.h"
#include "agent/cli/image_pull.h"
#include "agent/cli/image_push.h"
#include "agent/cli/image_upkeep.h"
#include "agent/cli/out.h"
#include "agent/cli/output.h"
#include "agent/cli/rows.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

struct ImageOptions {
  ImportFlags import;
  std::vector<std::string> references;
  std::string output;
  std::string file = "-";
  bool no_headers = false;
  bool quiet = false;
  std::string source, target;
  PruneOptions prune;
};

int RunList(Session& session, const ImageOptions& options, const Output& output) {
  v1::ListImagesResponse response;
  const grpc::Status status = Ask(session, [&](Call& call) {
    return session.stub().ListImages(&call, v1::ListImagesRequest(), &response);
  });
  if (!status.ok()) return Report(status);
  const std::vector<v1::Image> images(response.images().begin(), response.images().end());
  std::string text;
  if (options.quiet) {
    for (const v1::Image& image : images) text += image.id() + "\n";
  } else if (output.IsTable()) {
    const RowStyle style{.wide = output.kind == Output::Kind::kWide, .now = CurrentTime()};
    Table table(ImageHeader(style));
    for (const v1::Image& image : images) {
      for (Cells& row : ImageRows(image, style)) table.AddRow(std::move(row));
    }
    text = table.Render(!options.no_headers);
  } else {
    auto printed = PrintImages(output, images, false);
    if (!printed) return Report(printed.error());
    text = std::move(*printed);
  }
  Print(text);
  return kOk;
}

int RunInspect(Session& session, const ImageOptions& options, Output output) {
  if (output.IsTable()) output.kind = Output::Kind::kJson;
  std::vector<v1::Image> images;
  int code = kOk;
  for (const std::string& reference : options.references) {
    v1::GetImageRequest request;
    request.set_reference(reference);
    v1::Image image;
    const grpc::Status status =
        Ask(session, [&](Call& call) { return session.stub().GetImage(&call, request, &image); });
    if (status.ok()) {
      images.push_back(std::move(image));
    } else {
      code = Report(status);
    }
  }
  if (images.empty()) return code;
  const auto text = PrintImages(output, images, options.references.size() == 1);
  if (!text) return Report(text.error());
  Print(*text);
  return code;
}

int RunRemove(Session& session, const ImageOptions& options) {
  int code = kOk;
  for (const std::string& reference : options.references) {
    Call context(session);
    v1::RemoveImageRequest request;
    request.set_reference(reference);
    v1::RemoveImageResponse response;
    const grpc::Status status = session.stub().RemoveImage(&context, request, &response);
    if (!status.ok()) {
      code = ReportChange(status);
      continue;
    }
    Print(StrCat("image \"", reference, "\" removed\n"));
  }
  return code;
}

// Every chunk into `write`, until one fails or the image is whole.
template <class WriteChunk>
int ReceiveExport(Session& session, const std::string& reference, const WriteChunk& write) {
  grpc::ClientContext context;
  v1::ExportImageRequest request;
  request.set_reference(reference);
  const auto reader = session.stub().ExportImage(&context, request);
  v1::ExportImageResponse chunk;
  bool written = true;
  while (written && reader->Read(&chunk)) written = write(chunk.data());
  if (!written) context.TryCancel();
  const grpc::Status status = reader->Finish();
  return !written ? kFailed : status.ok() ? kOk : Report(status);
}

// Into a temporary file beside the target, renamed when it is whole.
int ExportToFile(Session& session, const std::string& reference, const std::string& target) {
  const std::string temporary = target + ".part";
  FILE* file = std::fopen(temporary.c_str(), "wbe");
  if (file == nullptr) return Report(Error::FromErrno(errno, "open " + temporary));
  int reason = 0;
  int code = ReceiveExport(session, reference, [&](const std::string& data) {
    if (std::fwrite(data.data(), 1, data.size(), file) == data.size()) return true;
    reason = errno;
    return false;
  });
  if (std::fclose(file) != 0 && reason == 0) reason = errno;
  if (reason != 0) code = Report(Error::FromErrno(reason, "write " + target));
  if (code == kOk && std::rename(temporary.c_str(), target.c_str()) != 0) {
    code = Report(Error::FromErrno(errno, "rename " + temporary));
  }
  if (code != kOk) (void)::unlink(temporary.c_str());  // a part is of no use
  return code;
}

int RunExport(Session& session, const ImageOptions& options) {
  const std::string& reference = options.references.front();
  if (options.file != "-") return ExportToFile(session, reference, options.file);
  if (::isatty(STDOUT_FILENO) != 0) {
    return Report(InvalidArgument("not to a terminal: name a file with -o, or redirect"));
  }
  return ReceiveExport(session, reference, [](const std::string& data) { return Write(data); });
}

using ImageCommand = int (*)(Session&, const ImageOptions&, const Output&);

void SetAction(CLI::App& command, const std::shared_ptr<ImageOptions>& options,
               Invocation& invocation, ImageCommand run) {
  command.fallthrough();
  command.callback([options, &invocation, run] {
    invocation.action = [options, &invocation, run] {
      const auto output = ParseOutput(options->output);
      if (!output) throw CLI::ValidationError("-o", output.error().message());
      return WithSession(invocation.global,
                         [&](Session& session) { return run(session, *options, *output); });
    };
  });
}

void AddImport(CLI::App& image, const std::shared_ptr<ImageOptions>& options,
               Invocation& invocation) {
  ImportFlags& flags = options->import;
  CLI::App* command = image.add_subcommand("import",
                                           "Add a docker-archive, an OCI layout (tar or directory) "
                                           "or a plain root tar, or containerd's images");
  command->add_option(
      "source", flags.sources,
      "Archive, layout directory, or - for stdin; with --containerd names (none: all)");
  command->add_flag(
      "--containerd{/var/lib/containerd}", flags.containerd_root,
      "The images of containerd, which may run; --containerd=DIR: its root directory");
  command->add_option("--containerd-namespace", flags.containerd_namespace,
                      "containerd's namespace (default: k8s.io)");
  command->add_option("--name", flags.name, "Name for it, for example app:1.0");
  command->add_option("--entrypoint", flags.entrypoint,
                      "Root tar: entrypoint; a JSON list, or repeated");
  command->add_option("--cmd", flags.cmd, "Root tar: command; a JSON list, or repeated");
  command->add_option("--env", flags.env, "Root tar: NAME=VALUE; may be repeated");
  command->add_option("--user", flags.user, "Root tar: user, or user:group");
  command->add_option("--workdir", flags.workdir, "Root tar: working directory");
  command->add_flag("--root-tar", flags.root_tar, "It is a plain root tar without any of these");
  for (const char* repeated : {"--entrypoint", "--cmd", "--env"}) {
    command->get_option(repeated)->allow_extra_args(false);
  }
  command->parse_complete_callback([options] {
    const std::string wrong = WrongImport(options->import);
    if (!wrong.empty()) throw CLI::ValidationError(wrong);
  });
  SetAction(*command, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return ImportImages(s, o.import);
  });
}

void AddUpkeep(CLI::App& image, const std::shared_ptr<ImageOptions>& options,
               Invocation& invocation) {
  CLI::App* tag = image.add_subcommand("tag", "Give an image another name");
  tag->add_option("source", options->source, "Name, id or beginning of an id")->required();
  tag->add_option("target", options->target, "Its other name, for example registry:5000/app:1.0")
      ->required();
  SetAction(*tag, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return TagImage(s, o.source, o.target);
  });

  CLI::App* prune = image.add_subcommand(
      "prune", "Remove images without a name that no pod uses, and what unfinished pulls left");
  prune->add_flag("-a,--all", options->prune.all, "Also those with a name");
  prune->add_flag("-f,--force", options->prune.force, "Do not ask");
  prune->add_option("--filter", options->prune.filters,
                    "until=24h, until=2026-01-02T15:04:05Z: only those made before");
  SetAction(*prune, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return PruneImages(s, o.prune);
  });

  CLI::App* usage = image.add_subcommand("du", "What images take on the disk");
  usage->add_flag("--no-headers", options->no_headers, "Leave out the table's header");
  SetAction(*usage, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return ShowImageUsage(s, !o.no_headers);
  });
}

}  // namespace

void AddImage(CLI::App& app, Invocation& invocation) {
  const auto options = std::make_shared<ImageOptions>();
  CLI::App* image = app.add_subcommand("image", "Images of the local store");
  image->require_subcommand(1);
  image->fallthrough();
  AddImport(*image, options, invocation);
  AddUpkeep(*image, options, invocation);

  CLI::App* pull = image->add_subcommand("pull", "Pull an image from its registry");
  pull->add_option("image", options->references,
                   "Name: nginx, registry:5000/app:1.0, name@sha256:…")
      ->required()
      ->expected(1);
  pull->add_flag("-q,--quiet", options->quiet, "Its id only");
  SetAction(*pull, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return PullImage(s, o.references.front(), o.quiet);
  });

  CLI::App* push =
      image->add_subcommand("push", "Push an image to a registry: what that does not have of it");
  push->add_option("image", options->source, "Name, id or beginning of an id")->required();
  push->add_option("destination", options->target,
                   "Its name there, for example registry:5000/app:1.0 (default: the name given)");
  push->add_flag("-q,--quiet", options->quiet, "Its name and digest there only");
  SetAction(*push, options, invocation, [](Session& s, const ImageOptions& o, const Output&) {
    return PushImage(s, o.source, o.target, o.quiet);
  });

  CLI::App* list = image->add_subcommand("ls", "List images");
  list->add_option("-o,--output", options->output,
                   "table, wide, json, yaml, name, jsonpath=… or custom-columns=…");
  list->add_flag("--no-headers", options->no_headers, "Leave out the table's header");
  list->add_flag("-q,--quiet", options->quiet, "Ids only");
  SetAction(*list, options, invocation, RunList);

  CLI::App* inspect = image->add_subcommand("inspect", "Everything about an image");
  inspect->add_option("image", options->references, "Name, id or beginning of an id")->required();
  inspect->add_option("-o,--output", options->output, "json (default), yaml or jsonpath=…");
  SetAction(
      *inspect, options, invocation,
      [](Session& s, const ImageOptions& o, const Output& out) { return RunInspect(s, o, out); });

  CLI::App* remove = image->add_subcommand("rm", "Remove a name, and the image with its last name");
  remove->add_option("image", options->references, "Name, or id: 12 digits of it at least")
      ->required();
  SetAction(*remove, options, invocation,
            [](Session& s, const ImageOptions& o, const Output&) { return RunRemove(s, o); });

  CLI::App* save = image->add_subcommand("export", "Write an image as an OCI layout tar");
  save->add_option("image", options->references, "Name or id")->required()->expected(1);
  save->add_option("-o,--output-file", options->file, "File (default: stdout)");
  SetAction(*save, options, invocation,
            [](Session& s, const ImageOptions& o, const Output&) { return RunExport(s, o); });
}

}  // namespace holdfast::agent::cli
