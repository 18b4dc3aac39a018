//! Words, right and wrong.

use super::*;
use crate::share::LockPlace;
use sluice_client::{Access, Dialect, Persistence};

fn parse(list: &str) -> Result<MountOptions, String> {
    let mut options = MountOptions::default();
    options.add(list).map(|()| options)
}

#[test]
fn every_word_is_known_and_a_slip_is_told() {
    let value = |option: &str| match option {
        "cache=" => "auto",
        "negtimeout=" => "5",
        "locks=" => "host",
        "xattrmap=" => ":ok:all:::",
        "poll=" => "off",
        "access=" => "user",
        "version=" => "9p2000.L",
        "zerocopy=" => "auto",
        "trans=" => "tcp",
        known if known.ends_with('=') => "4096",
        _ => "",
    };
    for option in MountOptions::words() {
        assert_eq!(
            parse(&format!("{option}{}", value(option))).err(),
            None,
            "{option}"
        );
    }
    for (word, why) in [
        (
            "cahce=none",
            "unknown mount option 'cahce=none' (did you mean 'cache'?)",
        ),
        (
            "posix_acl",
            "unknown mount option 'posix_acl' (did you mean 'posixacl'?)",
        ),
        ("fast", "unknown mount option 'fast'"),
        ("cache", "mount option 'cache': 'cache' takes a value"),
        ("fsname=", "mount option 'fsname=': 'fsname' takes a value"),
        ("ro=1", "mount option 'ro=1': 'ro' takes no value"),
        (
            "cache=some",
            "cache=some: a cache mode is never, metadata, auto or always",
        ),
    ] {
        assert_eq!(parse(word).unwrap_err(), why);
    }
}

#[test]
fn later_words_win() {
    let options = parse("ro,allow_other,cache=none,suid,,cache=loose,rw,negtimeout=-1").unwrap();
    assert!(options.allow_other);
    assert_eq!(options.policy.cache, CacheMode::Always);
    assert_eq!(options.policy.negative_timeout, Some(Timeout::Always));
    assert_eq!(options.flags, MountFlags::NODEV);
    let words: Vec<_> = options.flag_words().collect();
    assert_eq!(words, ["rw", "suid", "nodev", "exec", "atime", "async"]);
}

#[test]
fn flags_that_are_not_named_stay_as_they_are() {
    let now = "ro,nosuid,noexec,relatime,rw,user_id=0";
    let over = |list| parse(list).unwrap().flags_over(now);
    let unchanged = MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RELATIME;
    assert_eq!(over("remount"), unchanged | MountFlags::RDONLY);
    assert_eq!(over("remount,rw,dev"), unchanged);
    let flags = MountFlags::NODEV | MountFlags::RDONLY | MountFlags::NOSUID;
    let flags = flags | MountFlags::RELATIME;
    assert_eq!(over("remount,nodev,exec,norelatime"), flags);
}

#[test]
fn one_flag_about_access_times_is_left_and_never_none() {
    let (no, rel, strict) = (
        MountFlags::NOATIME,
        MountFlags::RELATIME,
        MountFlags::STRICTATIME,
    );
    for (now, list, expected) in [
        ("rw,noatime", "remount,ro", no | MountFlags::RDONLY),
        ("rw,noatime", "remount,atime", rel),
        ("rw,noatime", "remount,relatime", rel),
        ("rw,noatime", "remount,strictatime", strict),
        ("rw,noatime", "remount,norelatime", no),
        ("rw,relatime", "remount,noatime", no),
        ("rw,relatime", "remount,norelatime", rel),
        // What mount(8) makes of a line of fstab.
        ("rw,relatime", "rw,relatime,remount,noatime", no),
        ("rw,noatime", "rw,noatime,remount,atime", rel),
        ("rw", "remount,nosuid", strict | MountFlags::NOSUID),
        ("rw", "remount,nostrictatime", rel),
        ("rw,nodiratime", "remount,diratime", strict),
    ] {
        let flags = parse(list).unwrap().flags_over(now);
        assert_eq!(flags, expected, "{list} on {now}");
    }
    // So it is for a new mount.
    let flags = |list| parse(list).unwrap().flags.difference(MountFlags::NODEV);
    assert_eq!(flags("suid,strictatime,noatime"), no);
    assert_eq!(flags("suid,noatime,norelatime"), no);
}

#[test]
fn words_about_the_share_reach_its_policy() {
    let words = "no_allow_mmap,allow_direct_io,preserve_noatime,no_readdirplus,locks=guest,\
        posixacl,security_label,cache=metadata,negtimeout=250";
    let expected = SharePolicy {
        cache: CacheMode::Metadata,
        negative_timeout: Some(Timeout::For(Duration::from_millis(250))),
        locks: Some(LockPlace::Guest),
        allow_mmap: false,
        allow_direct_io: true,
        preserve_noatime: true,
        readdirplus: false,
        posix_acl: Offer::Auto,
        security_label: Offer::Auto,
        ..SharePolicy::default()
    };
    assert_eq!(parse(words).unwrap().policy, expected);
    let options = parse("noxattr,no_allow_mmap,allow_mmap").unwrap();
    assert!(!options.policy.xattr && options.policy.allow_mmap);
}

#[test]
fn who_lets_root_in_caches_nothing() {
    let settled = |list, is_root| {
        let mut options = parse(list).unwrap();
        options.settle(is_root).map(|()| options)
    };
    for list in ["allow_root", "cache=never,allow_root"] {
        let options = settled(list, false).unwrap();
        assert!(options.allow_root && options.lets_others_in());
        assert_eq!(options.policy.cache, CacheMode::Never);
    }
    for list in ["allow_root,cache=auto", "allow_root,allow_other"] {
        let why = settled(list, false).unwrap_err();
        assert!(why.starts_with("mount option 'allow_root'"), "{why}");
        let options = settled(list, true).unwrap();
        assert!(!options.allow_root);
        assert_eq!(options.policy.cache, CacheMode::Auto);
    }
}

#[test]
fn bad_words_are_named() {
    for (list, named) in [
        ("ro,fast", "'fast'"),
        ("ro=1", "'ro=1'"),
        ("allow_other=yes", "'allow_other=yes'"),
        ("cache=sometimes", "cache=sometimes"),
        ("negtimeout=5s", "negtimeout=5s"),
        ("negtimeout=-2", "negtimeout=-2"),
        ("fsname=", "'fsname='"),
        ("locks=here", "locks=here"),
        ("xattrmap=:map:", "xattrmap=:map:: rule"),
        ("allow_mmap=1", "'allow_mmap=1'"),
        ("poll=50", "poll=50"),
    ] {
        let error = parse(list).unwrap_err();
        assert!(error.contains(named), "{list}: {error}");
    }
}

#[test]
fn words_about_servers_reach_the_client() {
    let options = parse(
        "aname=code,uname=me,msize=65536,version=9p2000.u,zerocopy=never,orderly,soft,timeo=15,access=any,dfltuid=7",
    );
    let service = options.unwrap().server.service("code", true);
    let connect = &service.connect;
    assert_eq!(
        (&connect.aname[..], &connect.uname[..]),
        (&b"code"[..], &b"me"[..])
    );
    assert_eq!((connect.uid, connect.msize), (7, 65536));
    assert_eq!(connect.dialects, [Dialect::Unix, Dialect::Plan9]);
    assert_eq!(connect.zero_copy_from, usize::MAX);
    assert!(connect.is_orderly);
    let limit = Duration::from_millis(1500);
    assert_eq!(connect.time_limit, Some(limit));
    assert_eq!(service.persistence, Persistence::Soft(limit));
    assert_eq!(service.access, Access::Single);
    let service = MountOptions::default().server.service("", false);
    assert_eq!(service.persistence, Persistence::Hard);
    for word in [
        "msize=100",
        "msize=+5000",
        "msize=64K",
        "version=9p",
        "zerocopy=",
        "soft=1",
        "timeo=0",
        "trans=virtio",
        "trans=pigeon",
        "port=65536",
        "access=12",
        "hard=",
        "rfdno=x",
    ] {
        let why = parse(word).unwrap_err();
        assert!(why.starts_with("mount option '"), "{word}: {why}");
    }
    parse("rfdno=3,wfdno=4").unwrap_err();
    let options = parse("trans=fd,rfdno=3,wfdno=3").unwrap();
    assert_eq!(options.server.trans, Some(Trans::Fd(Some(3))));
}

#[test]
fn words_for_others_mean_nothing_here() {
    let options = parse("defaults,nofail,_netdev,x-systemd.automount,X-mount.mkdir=0755,comment=a");
    assert_eq!(options, Ok(MountOptions::default()));
    let options = parse("ro,context=\"system_u:object_r:t:s0:c1,c2\",noexec").unwrap();
    assert_eq!(
        options.contexts,
        ["context=\"system_u:object_r:t:s0:c1,c2\""]
    );
    let flags = MountFlags::RDONLY | MountFlags::NOEXEC;
    assert!(options.flags.contains(flags));
}

#[test]
fn sloppily_read_an_unknown_word_means_nothing() {
    let mut options = MountOptions::default();
    options.add_sloppily("quota,ro,fast=yes").unwrap();
    assert!(options.flags.contains(MountFlags::RDONLY));
    options.add_sloppily("msize=1").unwrap_err();
}

#[test]
fn a_remount_may_repeat_how_a_mount_was_made() {
    for (made_with, words, expected) in [
        ("", "ro,nosuid,noatime", None),
        ("", "cache=auto,hard", None),
        (
            "cache=never",
            "cache=none,cache=always",
            Some("cache=always"),
        ),
        ("cache=always", "cache=none,cache=always", None),
        ("soft", "soft,timeo=600,hard,timeo=50", Some("timeo=50")),
        ("allow_root", "allow_other", None),
        (
            "context=\"a,b\"",
            "context=\"a,b\",context=c",
            Some("context=c"),
        ),
        ("of_another_version,soft", "soft", None),
    ] {
        let options = parse(&format!("remount,{words}")).unwrap();
        assert_eq!(options.only_for_new(made_with), expected, "{words}");
    }
}
