//! Extended attributes.

use crate::conformance::client::{ROOT, fails};
use crate::conformance::{Case, Needs, World};
use sluice_vfs::{Errno, FileType, OpenFlags, XATTR_VALUE_MAX, XattrFlags};

pub(super) const CASES: &[Case] = &[
    case!(a_value_reads_back, Needs::XATTR),
    case!(a_value_has_a_length, Needs::XATTR),
    case!(a_value_that_does_not_fit_is_erange, Needs::XATTR),
    case!(a_value_fits_exactly, Needs::XATTR),
    case!(a_missing_attribute_is_enodata, Needs::XATTR),
    case!(an_empty_value_is_a_value, Needs::XATTR),
    case!(values_are_bytes, Needs::XATTR),
    case!(a_new_value_replaces_the_old, Needs::XATTR),
    case!(names_are_listed, Needs::XATTR),
    case!(a_list_has_a_length, Needs::XATTR),
    case!(a_list_that_does_not_fit_is_erange, Needs::XATTR),
    case!(a_removed_attribute_is_gone, Needs::XATTR),
    case!(removing_what_is_not_there_is_enodata, Needs::XATTR),
    case!(create_of_an_existing_one_is_eexist, Needs::XATTR),
    case!(replace_of_a_missing_one_is_enodata, Needs::XATTR),
    case!(create_and_replace_work, Needs::XATTR),
    case!(names_may_be_255_bytes, Needs::XATTR),
    case!(names_are_told_apart, Needs::XATTR),
    case!(names_need_not_be_utf8_or_one_component, Needs::XATTR),
    case!(a_name_without_a_namespace_is_eopnotsupp, Needs::XATTR),
    case!(a_namespace_without_a_name_is_einval, Needs::XATTR),
    case!(values_of_64_kib, Needs::XATTR.union(Needs::BIG_XATTR)),
    case!(a_value_beyond_64_kib_is_e2big, Needs::XATTR),
    case!(fifty_attributes_on_one_file, Needs::XATTR),
    case!(directories_take_attributes, Needs::XATTR),
    case!(symlinks_take_no_user_attributes, Needs::XATTR),
    case!(pipes_take_no_user_attributes, Needs::XATTR),
    case!(attributes_go_with_the_file, Needs::XATTR),
    case!(attributes_of_an_unlinked_file, Needs::XATTR),
    case!(
        attributes_show_in_other_sessions,
        Needs::XATTR.union(Needs::SESSIONS)
    ),
    case!(a_name_made_again_has_no_attributes, Needs::XATTR),
    case!(
        trusted_attributes_are_for_the_superuser,
        Needs::TRUSTED_XATTR.union(Needs::ROOT)
    ),
    case!(
        symlinks_take_trusted_attributes,
        Needs::TRUSTED_XATTR.union(Needs::ROOT)
    ),
    case!(
        security_attributes_work,
        Needs::TRUSTED_XATTR.union(Needs::ROOT)
    ),
];

fn a_value_reads_back(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"content");
    c.setxattr(node, "user.a", b"value").unwrap();
    assert_eq!(c.getxattr(node, "user.a").unwrap(), b"value");
    assert_eq!(c.content(node), b"content");
}

fn a_value_has_a_length(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"12345").unwrap();
    assert_eq!(c.xattr_len(node, "user.a"), Ok(5));
    fails(c.xattr_len(node, "user.b"), Errno::ENODATA);
}

fn a_value_that_does_not_fit_is_erange(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"12345").unwrap();
    for room in [1, 4] {
        fails(c.getxattr_within(node, "user.a", room), Errno::ERANGE);
    }
}

fn a_value_fits_exactly(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"12345").unwrap();
    assert_eq!(c.getxattr_within(node, "user.a", 5).unwrap(), b"12345");
}

fn a_missing_attribute_is_enodata(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.getxattr(node, "user.a"), Errno::ENODATA);
    c.setxattr(node, "user.ab", b"x").unwrap();
    fails(c.getxattr(node, "user.a"), Errno::ENODATA);
    fails(c.getxattr(node, "user.abc"), Errno::ENODATA);
}

fn an_empty_value_is_a_value(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"").unwrap();
    assert_eq!(c.xattr_len(node, "user.a"), Ok(0));
    assert_eq!(c.getxattr(node, "user.a").unwrap(), b"");
    assert_eq!(c.listxattr(node).unwrap(), ["user.a"]);
}

fn values_are_bytes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let value: Vec<u8> = (0..=255).collect();
    c.setxattr(node, "user.a", &value).unwrap();
    assert_eq!(c.getxattr(node, "user.a").unwrap(), value);
}

fn a_new_value_replaces_the_old(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for value in [
        &b"a longer value"[..],
        b"short",
        b"something longer again",
        b"",
    ] {
        c.setxattr(node, "user.a", value).unwrap();
        assert_eq!(c.getxattr(node, "user.a").unwrap(), value);
    }
    assert_eq!(c.listxattr(node).unwrap(), ["user.a"]);
}

fn names_are_listed(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    assert!(c.listxattr(node).unwrap().is_empty());
    for name in ["user.b", "user.a", "user.c.d"] {
        c.setxattr(node, name, b"x").unwrap();
    }
    let mut names = c.listxattr(node).unwrap();
    names.sort();
    assert_eq!(names, ["user.a", "user.b", "user.c.d"]);
}

fn a_list_has_a_length(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let len = || c.session().listxattr(&c.ctx(), node, None);
    assert_eq!(len(), Ok(0));
    c.setxattr(node, "user.abc", b"x").unwrap();
    assert_eq!(len(), Ok("user.abc".len() + 1));
}

fn a_list_that_does_not_fit_is_erange(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.abc", b"x").unwrap();
    let mut sink = sluice_vfs::VecSink::new("user.abc".len());
    let outcome = c.session().listxattr(&c.ctx(), node, Some(&mut sink));
    fails(outcome, Errno::ERANGE);
}

fn a_removed_attribute_is_gone(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"x").unwrap();
    c.setxattr(node, "user.b", b"y").unwrap();
    c.removexattr(node, "user.a").unwrap();
    fails(c.getxattr(node, "user.a"), Errno::ENODATA);
    assert_eq!(c.listxattr(node).unwrap(), ["user.b"]);
}

fn removing_what_is_not_there_is_enodata(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.removexattr(node, "user.a"), Errno::ENODATA);
    c.setxattr(node, "user.a", b"x").unwrap();
    c.removexattr(node, "user.a").unwrap();
    fails(c.removexattr(node, "user.a"), Errno::ENODATA);
}

fn create_of_an_existing_one_is_eexist(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"kept").unwrap();
    let outcome = c.setxattr_if(node, "user.a", b"new", XattrFlags::CREATE);
    fails(outcome, Errno::EEXIST);
    assert_eq!(c.getxattr(node, "user.a").unwrap(), b"kept");
}

fn replace_of_a_missing_one_is_enodata(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let outcome = c.setxattr_if(node, "user.a", b"new", XattrFlags::REPLACE);
    fails(outcome, Errno::ENODATA);
    assert!(c.listxattr(node).unwrap().is_empty());
}

fn create_and_replace_work(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr_if(node, "user.a", b"1", XattrFlags::CREATE)
        .unwrap();
    c.setxattr_if(node, "user.a", b"2", XattrFlags::REPLACE)
        .unwrap();
    assert_eq!(c.getxattr(node, "user.a").unwrap(), b"2");
}

fn names_may_be_255_bytes(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let name = format!("user.{}", "n".repeat(250));
    c.setxattr(node, &name, b"x").unwrap();
    assert_eq!(c.getxattr(node, &name).unwrap(), b"x");
    assert_eq!(c.listxattr(node).unwrap(), [name]);
}

fn names_are_told_apart(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for (name, value) in [("user.name", b"1"), ("user.Name", b"2"), ("user.nam", b"3")] {
        c.setxattr(node, name, value).unwrap();
    }
    assert_eq!(c.getxattr(node, "user.name").unwrap(), b"1");
    assert_eq!(c.getxattr(node, "user.Name").unwrap(), b"2");
    assert_eq!(c.getxattr(node, "user.nam").unwrap(), b"3");
}

fn names_need_not_be_utf8_or_one_component(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for name in [&b"user.\xff\xfe"[..], b"user.a/b", b"user.. ."] {
        c.setxattr(node, name, name).unwrap();
        assert_eq!(c.getxattr(node, name).unwrap(), name);
    }
}

fn a_name_without_a_namespace_is_eopnotsupp(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for name in ["plain", "nobody.a", "User.a"] {
        fails(c.setxattr(node, name, b"x"), Errno::EOPNOTSUPP);
        fails(c.getxattr(node, name), Errno::EOPNOTSUPP);
        fails(c.removexattr(node, name), Errno::EOPNOTSUPP);
    }
}

fn a_namespace_without_a_name_is_einval(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    fails(c.setxattr(node, "user.", b"x"), Errno::EINVAL);
    fails(c.getxattr(node, "user."), Errno::EINVAL);
}

fn values_of_64_kib(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let value: Vec<u8> = (0..XATTR_VALUE_MAX).map(|at| (at % 251) as u8).collect();
    c.setxattr(node, "user.a", &value).unwrap();
    assert_eq!(c.xattr_len(node, "user.a"), Ok(XATTR_VALUE_MAX));
    assert!(c.getxattr(node, "user.a").unwrap() == value);
}

fn a_value_beyond_64_kib_is_e2big(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let value = vec![1; XATTR_VALUE_MAX + 1];
    fails(c.setxattr(node, "user.a", &value), Errno::E2BIG);
    assert!(c.listxattr(node).unwrap().is_empty());
}

fn fifty_attributes_on_one_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    for index in 0..50u8 {
        c.setxattr(node, format!("user.{index}"), &[index]).unwrap();
    }
    assert_eq!(c.listxattr(node).unwrap().len(), 50);
    for index in 0..50u8 {
        let value = c.getxattr(node, format!("user.{index}")).unwrap();
        assert_eq!(value, [index]);
    }
}

fn directories_take_attributes(w: &World) {
    let c = w.client();
    let dir = c.dir(ROOT, "d");
    for node in [dir, ROOT] {
        c.setxattr(node, "user.a", b"x").unwrap();
        assert_eq!(c.getxattr(node, "user.a").unwrap(), b"x");
        c.removexattr(node, "user.a").unwrap();
    }
}

fn symlinks_take_no_user_attributes(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    c.setxattr(file, "user.a", b"of the file").unwrap();
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    fails(c.setxattr(link, "user.b", b"x"), Errno::EPERM);
    fails(c.getxattr(link, "user.a"), Errno::ENODATA);
    assert!(c.listxattr(link).unwrap().is_empty());
    assert_eq!(c.listxattr(file).unwrap(), ["user.a"]);
}

fn pipes_take_no_user_attributes(w: &World) {
    let c = w.client();
    let pipe = c.mknod(ROOT, "p", FileType::Fifo, 0o600).unwrap().node;
    fails(c.setxattr(pipe, "user.a", b"x"), Errno::EPERM);
    assert!(c.listxattr(pipe).unwrap().is_empty());
}

fn attributes_go_with_the_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "user.a", b"x").unwrap();
    c.link(node, ROOT, "g").unwrap();
    c.rename((ROOT, "f"), (ROOT, "h")).unwrap();
    for name in ["g", "h"] {
        let node = c.lookup(ROOT, name).unwrap().node;
        assert_eq!(c.getxattr(node, "user.a").unwrap(), b"x");
    }
}

fn attributes_of_an_unlinked_file(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    let _open = c.open(node, OpenFlags::READ).unwrap();
    c.setxattr(node, "user.a", b"x").unwrap();
    c.unlink(ROOT, "f").unwrap();
    assert_eq!(c.getxattr(node, "user.a").unwrap(), b"x");
    c.setxattr(node, "user.b", b"y").unwrap();
    c.removexattr(node, "user.a").unwrap();
    assert_eq!(c.listxattr(node).unwrap(), ["user.b"]);
}

fn attributes_show_in_other_sessions(w: &World) {
    let (a, b) = (w.client(), w.client());
    let node = a.file(ROOT, "f", b"");
    let seen = b.lookup(ROOT, "f").unwrap().node;
    a.setxattr(node, "user.a", b"x").unwrap();
    assert_eq!(b.getxattr(seen, "user.a").unwrap(), b"x");
    b.removexattr(seen, "user.a").unwrap();
    fails(a.getxattr(node, "user.a"), Errno::ENODATA);
}

fn a_name_made_again_has_no_attributes(w: &World) {
    let c = w.client();
    let old = c.file(ROOT, "f", b"");
    c.setxattr(old, "user.a", b"x").unwrap();
    c.unlink(ROOT, "f").unwrap();
    let new = c.file(ROOT, "f", b"");
    assert!(c.listxattr(new).unwrap().is_empty());
}

fn trusted_attributes_are_for_the_superuser(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "trusted.a", b"x").unwrap();
    assert_eq!(c.getxattr(node, "trusted.a").unwrap(), b"x");
    assert_eq!(c.listxattr(node).unwrap(), ["trusted.a"]);
    c.removexattr(node, "trusted.a").unwrap();
    fails(c.getxattr(node, "trusted.a"), Errno::ENODATA);
}

fn symlinks_take_trusted_attributes(w: &World) {
    let c = w.client();
    let file = c.file(ROOT, "f", b"");
    let link = c.symlink(ROOT, "l", "f").unwrap().node;
    c.setxattr(link, "trusted.a", b"of the link").unwrap();
    assert_eq!(c.getxattr(link, "trusted.a").unwrap(), b"of the link");
    assert!(c.listxattr(file).unwrap().is_empty());
}

fn security_attributes_work(w: &World) {
    let c = w.client();
    let node = c.file(ROOT, "f", b"");
    c.setxattr(node, "security.sluice", b"x").unwrap();
    assert_eq!(c.getxattr(node, "security.sluice").unwrap(), b"x");
}
