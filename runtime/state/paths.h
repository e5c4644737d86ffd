// SPDX-License-Identifier: Apache-2.0
// Every file that agent and runtime keep on disk. Names only; store.h reads and writes the records.
//
//   <run_dir>/                      a tmpfs: gone after a reboot, like the processes it tells of
//     holdfastd.sock                the agent's API
//     keeper.sock launch.N.sock log.sock keeper/…   the keeper's: drawing in runtime/keeper/common/paths.h
//     runtime/                      0700: specs hold the values of secrets
//       sandboxes/<pod uid>         SandboxRecord, written before the first namespace is made
//       containers/<container id>   ContainerRecord, written before the first thing is made for it,
//                                   removed after the last one is gone
//       …/<name>.corrupt            a record that could not be read, put aside; `holdctl check`
//
//   <root_dir>/                     on disk: survives a reboot
//     images/                       the image store's: drawing in runtime/image/store
//     network/                      the address book: drawing in netproxy/podnet
//     aside/<path>-<hex>            a tree that could not be removed (sys/tree.h): in nobody's way,
//                                   tried again by the agent, named by `holdctl check`
//     pods/<pod uid>/               the agent's: drawing in agent/pod/state/paths.h; of it the
//       containers/<name>/<attempt>/root/   runtime makes and removes the scratch directory
//         upper/ work/              (RootFs::scratch). One without a ContainerRecord is left over:
//                                   after a reboot all of them are
//
// A container exists for the agent when it has a ContainerRecord and the keeper's start record. A
// ContainerRecord alone is a start that was cut short, or a removal that was: it is taken away.
#pragma once

namespace holdfast::runtime {

inline constexpr char kStateDir[] = "runtime";
inline constexpr char kSandboxesDir[] = "sandboxes";
inline constexpr char kContainersDir[] = "containers";
inline constexpr char kCorruptSuffix[] = ".corrupt";

// Below Instance::PodsDir()/<pod uid>: where the scratch directories are, and their name there.
inline constexpr char kScratchParent[] = "containers";
inline constexpr char kScratchName[] = "root";

}  // namespace holdfast::runtime
