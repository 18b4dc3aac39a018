//! The export engine on real directories, through the neck alone.

mod attributes;
mod content;
mod harness;
mod identities;
mod limits;
mod listing;
mod locks;
mod mounts;
mod names;
mod opening;
mod ordinary_user;
mod races;
mod reaching;
mod xattrs;
