//! System calls that serving makes (seccomp(2)).
//!
//! Most are let through whatever their arguments are: the kernel keeps a bitmap
//! of those, so that they cost next to nothing. Conditions are for calls that
//! are rare.

use super::SeccompMode;
use crate::failure::Failure;
use libc as nr;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

/// Applies to this thread and all others. Nothing can take it back.
pub(super) fn install(mode: SeccompMode) -> Result<(), Failure> {
    let otherwise = match mode {
        SeccompMode::Kill => SeccompAction::KillProcess,
        SeccompMode::Log => SeccompAction::Log,
        SeccompMode::Trap => SeccompAction::Trap,
        SeccompMode::None => return Ok(()),
    };
    for program in programs(otherwise).map_err(failed)? {
        seccompiler::apply_filter_all_threads(&program).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(format!("cannot filter system calls: {error}")).advise("give --seccomp none")
}

fn programs(otherwise: SeccompAction) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let arch = std::env::consts::ARCH.try_into()?;
    let listed = SeccompFilter::new(rules()?, otherwise, SeccompAction::Allow, arch)?;
    // A filter cannot look into clone3's arguments. Without it the C library
    // makes threads by clone, whose flags are looked at.
    let clone3 = BTreeMap::from([(nr::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(nr::ENOSYS as u32);
    let no_clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, missing, arch)?;
    Ok([no_clone3.try_into()?, listed.try_into()?])
}

fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let free = DATA.iter().chain(TREE).chain(IDENTITY).chain(SOCKETS);
    for call in free.chain(THREADS).chain(MEMORY).chain(OLD) {
        rules.insert(*call, Vec::new());
    }
    for (call, arguments) in CONDITIONS {
        let conditions = arguments.iter().map(condition);
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(*call).or_default().push(rule);
    }
    Ok(rules)
}

fn condition(
    (argument, condition): &(u8, Condition),
) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (operator, value) = match *condition {
        Is(value) => (SeccompCmpOp::Eq, value),
        Has { bits, of } => (SeccompCmpOp::MaskedEq(of), bits),
    };
    SeccompCondition::new(*argument, SeccompCmpArgLen::Qword, operator, value)
}

/// What an argument must be.
enum Condition {
    Is(u64),
    /// Of the bits `of` exactly `bits` are set.
    Has {
        bits: u64,
        of: u64,
    },
}
use Condition::{Has, Is};

/// The contents of files.
const DATA: &[i64] = &[
    nr::SYS_read,
    nr::SYS_write,
    nr::SYS_readv,
    nr::SYS_writev,
    nr::SYS_pread64,
    nr::SYS_pwrite64,
    nr::SYS_preadv,
    nr::SYS_pwritev,
    nr::SYS_preadv2,
    nr::SYS_pwritev2,
    nr::SYS_lseek,
    nr::SYS_copy_file_range,
    nr::SYS_splice,
    nr::SYS_fallocate,
    nr::SYS_ftruncate,
    nr::SYS_fsync,
    nr::SYS_fdatasync,
    nr::SYS_syncfs,
    nr::SYS_flock,
    nr::SYS_fcntl,
    nr::SYS_close,
];

/// Names and attributes of files. Where they may be is for the sandbox and
/// Landlock to say.
const TREE: &[i64] = &[
    nr::SYS_statx,
    nr::SYS_newfstatat,
    nr::SYS_fstat,
    nr::SYS_fstatfs,
    nr::SYS_openat,
    nr::SYS_open_by_handle_at,
    nr::SYS_name_to_handle_at,
    nr::SYS_getdents64,
    nr::SYS_readlinkat,
    nr::SYS_mkdirat,
    nr::SYS_mknodat,
    nr::SYS_symlinkat,
    nr::SYS_linkat,
    nr::SYS_unlinkat,
    nr::SYS_renameat2,
    nr::SYS_faccessat,
    nr::SYS_faccessat2,
    nr::SYS_fchmod,
    nr::SYS_fchmodat,
    SYS_FCHMODAT2,
    nr::SYS_fchown,
    nr::SYS_fchownat,
    nr::SYS_utimensat,
    nr::SYS_getxattr,
    nr::SYS_fgetxattr,
    nr::SYS_setxattr,
    nr::SYS_fsetxattr,
    nr::SYS_listxattr,
    nr::SYS_flistxattr,
    nr::SYS_removexattr,
    nr::SYS_fremovexattr,
    SYS_SETXATTRAT,
    SYS_GETXATTRAT,
    SYS_LISTXATTRAT,
    SYS_REMOVEXATTRAT,
    nr::SYS_fchdir, // by a thread whose directory is its own
    nr::SYS_getcwd, // for the backtrace of a panic
];

// Newer than the C library's headers may be; the same on all architectures.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_GETXATTRAT: i64 = 464;
const SYS_LISTXATTRAT: i64 = 465;
const SYS_REMOVEXATTRAT: i64 = 466;

/// Acting for a guest's users.
const IDENTITY: &[i64] = &[
    nr::SYS_setresuid,
    nr::SYS_setresgid,
    nr::SYS_setgroups,
    nr::SYS_getgroups,
    nr::SYS_getuid,
    nr::SYS_geteuid,
    nr::SYS_getgid,
    nr::SYS_getegid,
    nr::SYS_capget,
    nr::SYS_capset,
    nr::SYS_umask,
];

/// Those that exist. No new ones are made.
const SOCKETS: &[i64] = &[
    nr::SYS_accept4,
    nr::SYS_recvmsg,
    nr::SYS_sendmsg,
    nr::SYS_sendto,
    nr::SYS_recvfrom,
    nr::SYS_shutdown,
    nr::SYS_getsockopt,
    nr::SYS_ppoll,
    nr::SYS_epoll_create1,
    nr::SYS_epoll_ctl,
    nr::SYS_epoll_pwait,
    nr::SYS_eventfd2,
    nr::SYS_pipe2,
];

/// Threads, signals and time.
const THREADS: &[i64] = &[
    nr::SYS_futex,
    nr::SYS_clone3, // the other filter's: of two verdicts the harsher one counts
    nr::SYS_set_robust_list,
    nr::SYS_rseq,
    nr::SYS_exit,
    nr::SYS_exit_group,
    nr::SYS_restart_syscall,
    nr::SYS_sched_yield,
    nr::SYS_sched_getaffinity,
    nr::SYS_sigaltstack,
    nr::SYS_rt_sigaction,
    nr::SYS_rt_sigprocmask,
    nr::SYS_rt_sigreturn,
    nr::SYS_tgkill, // abort, to itself; Landlock and the name space keep it there
    nr::SYS_getpid,
    nr::SYS_gettid,
    nr::SYS_timer_create,
    nr::SYS_timer_settime,
    nr::SYS_timer_delete,
    nr::SYS_nanosleep,
    nr::SYS_clock_nanosleep,
    nr::SYS_clock_gettime,
    nr::SYS_gettimeofday,
    nr::SYS_getrandom,
    nr::SYS_prlimit64,
    nr::SYS_membarrier,
];

const MEMORY: &[i64] = &[
    nr::SYS_brk,
    nr::SYS_munmap,
    nr::SYS_mremap,
    nr::SYS_madvise,
    nr::SYS_memfd_create,
];

/// What the C library still calls where it can.
#[cfg(target_arch = "x86_64")]
const OLD: &[i64] = &[
    nr::SYS_poll,
    nr::SYS_epoll_wait,
    nr::SYS_time,
    nr::SYS_readlink, // /proc/self/exe, for a panic's backtrace
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[i64] = &[];

const NO_NAMESPACES: u64 = (nr::CLONE_NEWNS
    | nr::CLONE_NEWCGROUP
    | nr::CLONE_NEWUTS
    | nr::CLONE_NEWIPC
    | nr::CLONE_NEWUSER
    | nr::CLONE_NEWPID
    | nr::CLONE_NEWNET) as u64;
const THREAD: u64 = nr::CLONE_THREAD as u64;

/// `ioctl` requests of files (ioctl_fs(2)), for 64 bits.
const FS_IOC_GETFLAGS: u64 = 0x8008_6601;
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSGETXATTR: u64 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;

/// Newer than the C library's headers may be.
const PR_GET_AUXV: u64 = 0x4155_5856;

/// System call, and for each of some of its arguments the index and what it must
/// be. Of two lines for one call either has to fit.
const CONDITIONS: &[(i64, &[(u8, Condition)])] = &[
    (nr::SYS_ioctl, &[(1, Is(FS_IOC_GETFLAGS))]),
    (nr::SYS_ioctl, &[(1, Is(FS_IOC_SETFLAGS))]),
    (nr::SYS_ioctl, &[(1, Is(FS_IOC_FSGETXATTR))]),
    (nr::SYS_ioctl, &[(1, Is(FS_IOC_FSSETXATTR))]),
    (nr::SYS_ioctl, &[(1, Is(nr::FIONBIO))]),
    (nr::SYS_ioctl, &[(1, Is(nr::TCGETS))]), // is it a terminal?
    // Connections that came before this process did.
    (
        nr::SYS_setsockopt,
        &[
            (1, Is(nr::IPPROTO_TCP as u64)),
            (2, Is(nr::TCP_NODELAY as u64)),
        ],
    ),
    (nr::SYS_unshare, &[(0, Is(nr::CLONE_FS as u64))]),
    (nr::SYS_prctl, &[(0, Is(nr::PR_SET_NAME as u64))]),
    (nr::SYS_prctl, &[(0, Is(PR_GET_AUXV))]), // the size of pages
    (nr::SYS_prctl, &[(0, Is(nr::PR_SET_VMA as u64))]), // names of mappings
    (
        nr::SYS_clone,
        &[(
            0,
            Has {
                bits: THREAD,
                of: THREAD | NO_NAMESPACES,
            },
        )],
    ),
    // Nothing is made executable.
    (
        nr::SYS_mmap,
        &[(
            2,
            Has {
                bits: 0,
                of: nr::PROT_EXEC as u64,
            },
        )],
    ),
    (
        nr::SYS_mprotect,
        &[(
            2,
            Has {
                bits: 0,
                of: nr::PROT_EXEC as u64,
            },
        )],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_can_be_built() {
        for action in [SeccompAction::KillProcess, SeccompAction::Log] {
            assert!(programs(action).is_ok());
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let lists = [DATA, TREE, IDENTITY, SOCKETS, THREADS, MEMORY, OLD].concat();
        let conditional = CONDITIONS.iter().map(|(call, ..)| call);
        assert!(conditional.into_iter().all(|call| !lists.contains(call)));
        let count = lists.len();
        let distinct: std::collections::BTreeSet<i64> = lists.into_iter().collect();
        assert_eq!(distinct.len(), count);
    }
}
