//! Extended attributes.

use super::{fails, pattern};
use crate::posix::Place;
use rustix::fs::{
    FileType, OFlags, XattrFlags, getxattr, getxattr_query, listxattr, listxattr_query, lsetxattr,
    setxattr,
};
use rustix::io::{Errno, write};

cases!("xattr":
    a_value_is_kept [Xattr],
    a_value_is_replaced [Xattr],
    a_value_may_be_empty [Xattr],
    a_value_is_any_bytes [Xattr],
    a_long_value_is_kept [Xattr, LongXattr],
    a_missing_attribute_is_enodata [Xattr],
    creating_refuses_an_old_one [Xattr],
    replacing_needs_an_old_one [Xattr],
    a_removed_attribute_is_gone [Xattr],
    names_are_listed [Xattr],
    a_buffer_too_small_is_erange [Xattr],
    an_empty_buffer_asks_for_the_size [Xattr],
    a_name_has_up_to_255_bytes [Xattr],
    directories_have_attributes [Xattr],
    symlinks_and_pipes_have_no_user_attributes [Xattr],
    hard_links_share_attributes [Xattr],
    attributes_move_with_the_file [Xattr],
    open_files_have_attributes [Xattr],
    trusted_attributes_are_roots [Root, TrustedXattr],
    user_attributes_follow_the_bits [Root, Xattr],
    an_unknown_namespace_is_eopnotsupp [Xattr],
    a_write_takes_capabilities [Root, TrustedXattr],
);

fn a_value_is_kept(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"value").unwrap();
    assert_eq!(p.xattr("f", "user.a").unwrap(), b"value");
}

fn a_value_is_replaced(p: &Place) {
    p.write("f", "");
    for value in [&b"long value"[..], b"short", b"much longer than both"] {
        p.set_xattr("f", "user.a", value).unwrap();
        assert_eq!(p.xattr("f", "user.a").unwrap(), value);
    }
}

fn a_value_may_be_empty(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"").unwrap();
    assert_eq!(p.xattr("f", "user.a").unwrap(), b"");
    assert_eq!(p.xattrs("f").unwrap(), ["user.a"]);
}

fn a_value_is_any_bytes(p: &Place) {
    p.write("f", "");
    let value = pattern(256);
    p.set_xattr("f", "user.a", &value).unwrap();
    assert_eq!(p.xattr("f", "user.a").unwrap(), value);
}

fn a_long_value_is_kept(p: &Place) {
    p.write("f", "");
    let value = pattern(10_000);
    p.set_xattr("f", "user.a", &value).unwrap();
    assert!(p.xattr("f", "user.a").unwrap() == value);
}

fn a_missing_attribute_is_enodata(p: &Place) {
    p.write("f", "");
    fails(p.xattr("f", "user.none"), Errno::NODATA);
    fails(p.remove_xattr("f", "user.none"), Errno::NODATA);
    fails(p.xattr("none", "user.a"), Errno::NOENT);
    p.set_xattr("f", "user.none", b"now").unwrap();
    assert_eq!(p.xattr("f", "user.none").unwrap(), b"now");
}

fn creating_refuses_an_old_one(p: &Place) {
    p.write("f", "");
    let create = |value: &[u8]| setxattr(p.path("f"), "user.a", value, XattrFlags::CREATE);
    create(b"first").unwrap();
    fails(create(b"second"), Errno::EXIST);
    assert_eq!(p.xattr("f", "user.a").unwrap(), b"first");
}

fn replacing_needs_an_old_one(p: &Place) {
    p.write("f", "");
    let replace = |value: &[u8]| setxattr(p.path("f"), "user.a", value, XattrFlags::REPLACE);
    fails(replace(b"first"), Errno::NODATA);
    p.set_xattr("f", "user.a", b"old").unwrap();
    replace(b"new").unwrap();
    assert_eq!(p.xattr("f", "user.a").unwrap(), b"new");
}

fn a_removed_attribute_is_gone(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"1").unwrap();
    p.set_xattr("f", "user.b", b"2").unwrap();
    p.remove_xattr("f", "user.a").unwrap();
    fails(p.xattr("f", "user.a"), Errno::NODATA);
    assert_eq!(p.xattrs("f").unwrap(), ["user.b"]);
}

fn names_are_listed(p: &Place) {
    p.write("f", "");
    assert_eq!(p.xattrs("f").unwrap(), [""; 0]);
    let names: Vec<String> = (0..30).map(|nth| format!("user.name-{nth:02}")).collect();
    for name in &names {
        p.set_xattr("f", name, b"v").unwrap();
    }
    assert_eq!(p.xattrs("f").unwrap(), names);
}

fn a_buffer_too_small_is_erange(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"value").unwrap();
    fails(
        getxattr(p.path("f"), "user.a", &mut [0; 4][..]),
        Errno::RANGE,
    );
    fails(listxattr(p.path("f"), &mut [0; 4][..]), Errno::RANGE);
    assert_eq!(getxattr(p.path("f"), "user.a", &mut [0; 5][..]), Ok(5));
}

fn an_empty_buffer_asks_for_the_size(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"value").unwrap();
    assert_eq!(getxattr_query(p.path("f"), "user.a"), Ok(5));
    assert_eq!(listxattr_query(p.path("f")), Ok("user.a".len() + 1));
}

fn a_name_has_up_to_255_bytes(p: &Place) {
    p.write("f", "");
    let longest = format!("user.{}", "n".repeat(250));
    p.set_xattr("f", &longest, b"value").unwrap();
    assert_eq!(p.xattr("f", &longest).unwrap(), b"value");
    fails(p.set_xattr("f", &(longest + "n"), b"value"), Errno::RANGE);
}

fn directories_have_attributes(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    p.set_xattr("d", "user.a", b"value").unwrap();
    assert_eq!(p.xattr("d", "user.a").unwrap(), b"value");
}

fn symlinks_and_pipes_have_no_user_attributes(p: &Place) {
    p.symlink("f", "l").unwrap();
    p.make_node("p", FileType::Fifo, 0o600, (0, 0)).unwrap();
    let flags = XattrFlags::empty();
    fails(lsetxattr(p.path("l"), "user.a", b"v", flags), Errno::PERM);
    fails(p.set_xattr("p", "user.a", b"v"), Errno::PERM);
}

fn hard_links_share_attributes(p: &Place) {
    p.write("f", "");
    p.link("f", "g").unwrap();
    p.set_xattr("f", "user.a", b"value").unwrap();
    assert_eq!(p.xattr("g", "user.a").unwrap(), b"value");
}

fn attributes_move_with_the_file(p: &Place) {
    p.write("f", "");
    p.set_xattr("f", "user.a", b"value").unwrap();
    p.rename("f", "g").unwrap();
    assert_eq!(p.xattr("g", "user.a").unwrap(), b"value");
    p.write("f", "");
    fails(p.xattr("f", "user.a"), Errno::NODATA);
}

fn open_files_have_attributes(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o644).unwrap();
    rustix::fs::fsetxattr(&file, "user.a", b"value", XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    assert_eq!(
        rustix::fs::fgetxattr(&file, "user.a", &mut value[..]),
        Ok(5)
    );
    rustix::fs::fremovexattr(&file, "user.a").unwrap();
    fails(p.xattr("f", "user.a"), Errno::NODATA);
}

fn trusted_attributes_are_roots(p: &Place) {
    p.file_with_mode("f", 0o666);
    p.set_xattr("f", "trusted.a", b"value").unwrap();
    assert_eq!(p.xattr("f", "trusted.a").unwrap(), b"value");
    p.as_user(1000, 1000, &[], |p| {
        fails(p.set_xattr("f", "trusted.a", b"other"), Errno::PERM);
        fails(p.xattr("f", "trusted.a"), Errno::NODATA);
    });
}

fn user_attributes_follow_the_bits(p: &Place) {
    p.file_with_mode("f", 0o644);
    p.set_xattr("f", "user.a", b"value").unwrap();
    p.as_user(1000, 1000, &[], |p| {
        assert_eq!(p.xattr("f", "user.a").unwrap(), b"value");
        fails(p.set_xattr("f", "user.a", b"other"), Errno::ACCESS);
        fails(p.remove_xattr("f", "user.a"), Errno::ACCESS);
    });
    p.chmod("f", 0o642).unwrap();
    p.as_user(1000, 1000, &[], |p| {
        fails(p.xattr("f", "user.a"), Errno::ACCESS);
        p.set_xattr("f", "user.a", b"other").unwrap();
    });
}

fn an_unknown_namespace_is_eopnotsupp(p: &Place) {
    p.write("f", "");
    fails(p.set_xattr("f", "nonsense.a", b"v"), Errno::OPNOTSUPP);
    fails(p.set_xattr("f", "plain", b"v"), Errno::OPNOTSUPP);
}

/// `struct vfs_cap_data`, version 2: CAP_NET_RAW, permitted and effective.
const CAPABILITY: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

fn a_write_takes_capabilities(p: &Place) {
    p.file_with_mode("f", 0o777);
    p.set_xattr("f", "security.capability", &CAPABILITY)
        .unwrap();
    assert_eq!(p.xattr("f", "security.capability").unwrap(), CAPABILITY);
    let file = p.open("f", OFlags::WRONLY).unwrap();
    write(&file, b"x").unwrap();
    drop(file);
    fails(p.xattr("f", "security.capability"), Errno::NODATA);
}
