//! Command lines of real programs, and what they must mean.

use super::*;
use crate::cli::legacy::spelled_out;
use crate::isolation::{Sandbox, SeccompMode};
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: VirtiofsdArgs,
}

fn parse(line: &str) -> Result<VirtiofsdArgs, String> {
    let words = line.split_whitespace().map(Into::into);
    let words = spelled_out(std::iter::once("virtiofsd".into()).chain(words))?;
    let line = Line::try_parse_from(&words[1..]).map_err(|error| crate::cli::one_line(&error))?;
    line.args.check()?;
    Ok(line.args)
}

fn share(line: &str) -> ServedShare {
    let args = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    args.share().unwrap()
}

fn at(path: &str) -> Endpoint {
    Endpoint::Private {
        path: path.into(),
        group: None,
    }
}

fn devices(endpoint: Endpoint) -> Vec<ServedDevice> {
    let kind = DeviceKind::Fs;
    vec![ServedDevice { kind, endpoint }]
}

/// What virtiofsd does by default, where that is not Sluice's.
fn usual() -> SharePolicy {
    SharePolicy {
        allow_mmap: false,
        xattr: false,
        ..SharePolicy::default()
    }
}

#[test]
fn virtme_ng() {
    let usual_line = "--syslog --no-announce-submounts --socket-path S --shared-dir / \
        --sandbox none --cache auto";
    let expected = ServedShare {
        dir: "/".into(),
        devices: devices(at("S")),
        p9: None,
        p9_options: P9Options::default(),
        tag: "virtiofs".parse().unwrap(),
        policy: SharePolicy {
            announce_submounts: false,
            ..usual()
        },
        poll: Polling::default(),
    };
    assert_eq!(share(usual_line), expected);
    assert!(parse(usual_line).unwrap().syslog);
    let line = "--syslog --no-announce-submounts --posix-acl --readonly --socket-path S \
        --shared-dir / --sandbox none --cache always";
    let policy = SharePolicy {
        announce_submounts: false,
        posix_acl: Offer::Always,
        xattr: true,
        read_only: true,
        cache: CacheMode::Always,
        ..usual()
    };
    assert_eq!(share(line), ServedShare { policy, ..expected });
}

#[test]
fn libvirt() {
    let line = "--fd=27 --shared-dir D --cache always --sandbox none --xattr \
        --thread-pool-size=16 --rlimit-nofile=1024 --log-level debug";
    let args = parse(line).unwrap();
    assert_eq!(args.rlimit_nofile, Some(1024));
    assert_eq!(args.log_level, "debug");
    let share = args.share().unwrap();
    assert_eq!(share.devices, devices(Endpoint::Inherited(27)));
    let policy = SharePolicy {
        cache: CacheMode::Always,
        xattr: true,
        ..usual()
    };
    assert_eq!(share.policy, policy);
    assert_eq!(parse("--fd=27 --shared-dir D").unwrap().log_level, "info");
    parse("--fd=27 --shared-dir D --log-level=DEBUG").unwrap();
}

#[test]
fn kata() {
    for mode in ["none", "never", "auto", "always", "metadata"] {
        let cache: CacheMode = mode.parse().unwrap();
        let old = share(&format!("--syslog --cache={mode} --shared-dir=D --fd=3"));
        assert_eq!(old.devices, devices(Endpoint::Inherited(3)));
        assert_eq!(old.policy, SharePolicy { cache, ..usual() });
    }
    for handles in ["never", "prefer", "fallback"] {
        let line = format!(
            "--socket-path S --shared-dir D --cache auto --sandbox none --seccomp none \
            --inode-file-handles {handles}"
        );
        assert_eq!(share(&line).policy, usual());
    }
    let line = "--socket-path S --shared-dir D --sandbox none --inode-file-handles mandatory";
    assert!(share(line).policy.require_handles);
}

#[test]
fn isolation_is_virtiofsds() {
    let isolation =
        |line: &str| parse(&format!("--fd=3 --shared-dir=D {line}")).map(|it| it.isolation());
    let usual = isolation("").unwrap();
    assert_eq!(
        (usual.sandbox, usual.seccomp),
        (Sandbox::Namespace, SeccompMode::Kill)
    );
    let changes = |text: &str| text.parse().unwrap();
    assert_eq!(usual.capabilities, changes("+dac_read_search"));
    for (line, capabilities) in [
        (
            "--inode-file-handles=never --modcaps=+sys_admin",
            "+sys_admin",
        ),
        (
            "--inode-file-handles=fallback --modcaps=-mknod",
            "-mknod:+dac_read_search",
        ),
    ] {
        assert_eq!(isolation(line).unwrap().capabilities, changes(capabilities));
    }
    let none = isolation("--sandbox none --seccomp=none").unwrap();
    assert_eq!(
        (none.sandbox, none.seccomp),
        (Sandbox::None, SeccompMode::None)
    );
    let mapped = isolation("--uid-map :0:100000:65536: --gid-map :0:100000:65536:").unwrap();
    assert_eq!((mapped.uid_map.len(), mapped.gid_map.len()), (1, 1));
    let share =
        share("--fd 3 --shared-dir D --translate-uid map:0:1000:1 --translate-gid=host:5:6:1");
    assert_eq!(
        share.policy.translate_uid,
        ["map:0:1000:1".parse().unwrap()]
    );
    assert_eq!(share.policy.translate_gid, ["host:5:6:1".parse().unwrap()]);
}

#[test]
fn incus() {
    for mode in ["metadata", "always", "never"] {
        let share = share(&format!("--fd=3 --cache={mode} --shared-dir=D"));
        assert_eq!(share.policy.cache, mode.parse().unwrap());
    }
}

#[test]
fn proxmox() {
    let line = "--fd=11 --shared-dir=D --xattr --posix-acl --announce-submounts \
        --allow-direct-io --cache=always --syslog";
    let policy = SharePolicy {
        xattr: true,
        posix_acl: Offer::Always,
        allow_direct_io: true,
        cache: CacheMode::Always,
        ..usual()
    };
    assert_eq!(share(line).policy, policy);
}

#[test]
fn kubevirt() {
    let line = "--socket-path=S --shared-dir=D --sandbox=none --cache=auto \
        --migration-on-error=guest-error --migration-mode=find-paths";
    assert_eq!(share(line).policy, usual());
}

#[test]
fn podman_machine() {
    let share = share("--sandbox none --socket-path S --shared-dir . --seccomp=none");
    assert_eq!((share.devices, share.dir), (devices(at("S")), ".".into()));
}

#[test]
fn systemd_vmspawn() {
    let policy = share("--shared-dir D --xattr --fd 3 --no-announce-submounts").policy;
    assert!(policy.xattr && !policy.announce_submounts);
}

#[test]
fn microvm_nix() {
    let line = "--socket-path=S --shared-dir=D --thread-pool-size 2 --posix-acl --xattr \
        --cache=auto --inode-file-handles=prefer --tag=store";
    let share = share(line);
    assert_eq!(share.tag.as_str(), "store");
    assert_eq!(share.policy.posix_acl, Offer::Always);
}

#[test]
fn the_last_of_repeated_options_wins() {
    let share = share(
        "--fd 3 --shared-dir A --cache=never --posix-acl --cache always --shared-dir B \
        --posix-acl=auto --no-announce-submounts --announce-submounts --tag=x --tag y",
    );
    assert_eq!(share.dir, PathBuf::from("B"));
    assert_eq!(share.tag.as_str(), "y");
    assert_eq!(share.policy.cache, CacheMode::Always);
    assert_eq!(share.policy.posix_acl, Offer::Auto);
    assert!(share.policy.announce_submounts);
}

#[test]
fn legacy_options_mean_what_they_did() {
    let share = share(
        "-f -d --socket S -o source=/d,cache=none,xattr,no_posix_acl,no_flock \
        -o writeback,no_writeback,no_readdirplus,sandbox=none,xattrmap=:map::user.v.:",
    );
    assert_eq!((share.devices, share.dir), (devices(at("S")), "/d".into()));
    let policy = SharePolicy {
        cache: CacheMode::Never,
        xattr: true,
        locks: Some(LockPlace::Guest),
        readdirplus: false,
        xattr_map: ":map::user.v.:".parse().ok(),
        ..usual()
    };
    assert_eq!(share.policy, policy);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (line, why) in [
        ("", "--shared-dir <DIR>"),
        ("--shared-dir D", "--socket-path <SOCKET>"),
        ("--socket-path S", "--shared-dir <DIR>"),
        ("--shared-dir D --socket-path S --fd 3", "'--fd <N>'"),
        ("--shared-dir D --fd 3 --socket-group root", "'--fd <N>'"),
        ("--shared-dir D --fd -1", "-1"),
        ("--shared-dir D --fd 3 --cache some", "'some'"),
        (
            "--shared-dir D --fd 3 --inode-file-handles always",
            "'always'",
        ),
        (
            "--shared-dir D --fd 3 --inode-file-handles=mandatory --modcaps=-dac_read_search",
            "dac_read_search",
        ),
        ("--shared-dir D --fd 3 --posix-acl=maybe", "'maybe'"),
        ("--shared-dir D --fd 3 --writeback", "'always'"),
        ("--shared-dir D --fd 3 --bogus", "'--bogus'"),
        ("--shared-dir D --fd 3 -o bogus", "'-o bogus'"),
        (
            "--shared-dir D --socket-path S --socket-group no_such_group",
            "no such group",
        ),
        ("--shared-dir D --fd 3 --log-level loud", "'loud'"),
        ("--shared-dir D --fd 3 --rlimit-nofile many", "'many'"),
        ("--shared-dir D --fd 3 D", "'D'"),
    ] {
        let error = parse(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
}

#[test]
fn capabilities_are_those_of_a_vhost_user_program() {
    let json = capabilities();
    assert!(json.starts_with("{\n  \"type\": \"fs\",\n  \"features\": [\n"));
    for feature in FEATURES {
        assert!(json.contains(&format!("    \"{feature}\"")));
    }
    assert!(json.ends_with("\"separate-options\"\n  ]\n}\n"));
}
